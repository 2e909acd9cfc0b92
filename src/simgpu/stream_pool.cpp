#include "simgpu/stream_pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "simgpu/physical.hpp"

namespace reprieve::simgpu {
namespace {

bool usable(const StreamPool::Fence& fence, const Queue& queue, StreamPool::Reuse reuse) {
  switch (reuse) {
    case StreamPool::Reuse::ordered:
      return fence.queue == nullptr || fence.queue == &queue || queue.clock.covers(fence.queue->index, fence.tick);
    case StreamPool::Reuse::completed: return fence.passed();
    case StreamPool::Reuse::waiting: return true;
  }
  return false;
}

}  // namespace

std::optional<StreamPool::Block> StreamPool::take(std::uint64_t bytes, const Queue& queue, Reuse reuse) {
  const std::uint64_t whole = (bytes + block_unit - 1) / block_unit * block_unit;
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second.bytes < whole || (best != free_.end() && it->second.bytes >= best->second.bytes)) continue;
    if (usable(it->second.fence, queue, reuse)) best = it;
  }
  if (best == free_.end()) return std::nullopt;
  Block taken = best->second;
  free_.erase(best);
  if (taken.bytes > whole) {
    Block rest = taken;
    rest.address += whole;
    rest.bytes -= whole;
    free_.emplace(rest.address, std::move(rest));
    taken.bytes = whole;
  }
  used_.emplace(taken.address, Used{taken.bytes, bytes, next_number()});
  stats.used_bytes += bytes;
  stats.used_high_bytes = std::max(stats.used_high_bytes, stats.used_bytes);
  return taken;
}

std::uint64_t StreamPool::segment_of(std::uint64_t address) const {
  return std::prev(segments_.upper_bound(address))->first;
}

// Joins two neighbours where one fence serves for both; returns the one that holds `right`.
StreamPool::Free::iterator StreamPool::merge(Free::iterator left, Free::iterator right) {
  Block& a = left->second;
  Block& b = right->second;
  if (a.address + a.bytes != b.address || segment_of(a.address) != segment_of(b.address)) return right;
  const bool passed = a.fence.passed() && b.fence.passed();
  if (!passed && a.fence.queue != b.fence.queue) return right;
  Fence fence = a.fence.tick > b.fence.tick ? a.fence : b.fence;
  fence.clock.join(a.fence.clock);
  fence.clock.join(b.fence.clock);
  if (passed) {
    // Passed is not yet ordered before every stream's work: the joined clock stays.
    fence.operation = nullptr;
    if (a.fence.queue != b.fence.queue) fence.queue = nullptr;
  }
  a.bytes += b.bytes;
  a.fence = std::move(fence);
  free_.erase(right);
  return left;
}

void StreamPool::give_back(std::uint64_t address, Fence fence) {
  const auto used = used_.find(address);
  const std::uint64_t bytes = used->second.bytes;
  stats.used_bytes -= used->second.asked_bytes;
  used_.erase(used);
  auto at = free_.emplace(address, Block{address, bytes, std::move(fence), 0}).first;
  if (at != free_.begin()) at = merge(std::prev(at), at);
  if (const auto next = std::next(at); next != free_.end()) merge(at, next);
}

void StreamPool::add_segment(std::uint64_t address, std::uint64_t bytes) {
  segments_.emplace(address, bytes);
  free_.emplace(address, Block{address, bytes, {}, 0});
  stats.reserved_bytes += bytes;
  stats.reserved_high_bytes = std::max(stats.reserved_high_bytes, stats.reserved_bytes);
}

std::vector<std::uint64_t> StreamPool::release_segments(std::uint64_t keep_bytes) {
  std::vector<std::uint64_t> out;
  for (auto segment = segments_.begin(); segment != segments_.end() && stats.reserved_bytes > keep_bytes;) {
    const auto [base, bytes] = *segment;
    const auto first = free_.lower_bound(base);
    auto last = first;
    std::uint64_t free_bytes = 0;
    for (; last != free_.end() && last->first < base + bytes && last->second.fence.passed(); ++last) {
      free_bytes += last->second.bytes;
    }
    if (free_bytes != bytes) {
      ++segment;
      continue;
    }
    free_.erase(first, last);
    segment = segments_.erase(segment);
    stats.reserved_bytes -= bytes;
    out.push_back(base);
  }
  return out;
}

bool StreamPool::holds(std::uint64_t address) const {
  const auto above = segments_.upper_bound(address);
  if (above == segments_.begin()) return false;
  const auto segment = std::prev(above);
  return address - segment->first < segment->second;
}

std::optional<StreamPool::Block> StreamPool::find_used(std::uint64_t address) const {
  const auto above = used_.upper_bound(address);
  if (above == used_.begin()) return std::nullopt;
  const auto used = std::prev(above);
  if (address - used->first >= used->second.bytes) return std::nullopt;
  return Block{used->first, used->second.asked_bytes, {}, used->second.id};
}

}  // namespace reprieve::simgpu
