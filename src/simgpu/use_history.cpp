#include "simgpu/use_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace reprieve::simgpu {
namespace {

bool covered(const VectorClock& clock, const Use& use) { return clock.covers(use.work->queue, use.work->index); }

}  // namespace

std::string describe(const WorkId& work) {
  const std::string& name = work.kernel != KernelId::none ? kernel_name(work.kernel) : work.name;
  return fmt::format("{} on stream {:#x} of device {}", name, work.stream, work.device);
}

void UseHistory::split_at(std::uint64_t offset) {
  auto it = spans_.upper_bound(offset);
  if (it == spans_.begin()) return;
  --it;
  if (it->first == offset || it->second.end <= offset) return;
  Span tail = it->second;
  it->second.end = offset;
  spans_.emplace(offset, std::move(tail));
}

void UseHistory::forget(const VectorClock& host) {
  for (auto it = spans_.begin(); it != spans_.end();) {
    Span& span = it->second;
    if (span.write && covered(host, span.write)) span.write = {};
    std::erase_if(span.reads, [&](const Use& read) { return covered(host, read); });
    it = !span.write && span.reads.empty() ? spans_.erase(it) : std::next(it);
  }
}

Use UseHistory::add(std::uint64_t begin, std::uint64_t end, bool write, const Use& use, const VectorClock& clock,
                    const VectorClock& host) {
  if (spans_.size() >= forget_at_) {
    forget(host);
    forget_at_ = std::max<std::size_t>(64, 2 * spans_.size());
  }
  split_at(begin);
  split_at(end);
  Use conflict;
  const auto check = [&](const Use& earlier) {
    if (!conflict && earlier && !covered(clock, earlier)) conflict = earlier;
  };
  const auto first = spans_.lower_bound(begin);
  const auto last = spans_.lower_bound(end);
  if (write) {
    for (auto it = first; it != last; ++it) {
      check(it->second.write);
      for (const Use& read : it->second.reads) check(read);
    }
    spans_.erase(first, last);
    spans_.emplace(begin, Span{end, use, {}});
    return conflict;
  }
  std::uint64_t at = begin;
  for (auto it = first; it != last; ++it) {
    if (it->first > at) spans_.emplace_hint(it, at, Span{it->first, {}, {use}});
    at = it->second.end;
    check(it->second.write);
    std::vector<Use>& reads = it->second.reads;
    const auto same =
        std::find_if(reads.begin(), reads.end(), [&](const Use& read) { return read.work->queue == use.work->queue; });
    if (same != reads.end()) {
      *same = use;
    } else {
      reads.push_back(use);
    }
  }
  if (at < end) spans_.emplace(at, Span{end, {}, {use}});
  return conflict;
}

}  // namespace reprieve::simgpu
