// What the model gives back to the card: old blocks while memory is short, large ones for a large request, all of them
// before it says that memory has run out.
#include <iterator>
#include <vector>

#include "replay/models/torch_model.hpp"

namespace reprieve::replay::models {

void TorchModel::release_segment(Block& block) {
  card_.free(block.bytes);
  shrink(block.bytes);
  block.pool->free.erase(&block);
  heap_.drop(block);
}

// Frees whole free segments of the default pool for large blocks that were not used for longer than the others, until
// less than the threshold is reserved. A block's age is how often a block was looked for since it became free.
void TorchModel::collect_garbage() {
  if (limit_ == AllocConf::unlimited || conf_.garbage_collection_threshold <= 0) return;
  const auto allowed = static_cast<std::uint64_t>(conf_.garbage_collection_threshold * static_cast<double>(limit_));
  if (reserved_ <= allowed) return;
  const std::uint64_t target = reserved_ - allowed;

  BlockPool& pool = pools_.front()->large;
  const auto age = [&](const Block& block) { return pool.searches - block.set_free_at; };
  std::uint64_t total_age = 0, count = 0;
  for (const Block* block : pool.free) {
    if (!block->whole_segment()) continue;
    total_age += age(*block);
    ++count;
  }
  std::uint64_t reclaimed = 0;
  bool progress = true;
  while (reclaimed < target && progress && count > 0) {
    const double average = static_cast<double>(total_age) / static_cast<double>(count);
    progress = false;
    // A round goes on beyond the target, so that the next one comes later.
    for (auto next = pool.free.begin(); next != pool.free.end();) {
      Block& block = **next++;
      if (!block.whole_segment() || block.segment != nullptr || static_cast<double>(age(block)) < average) continue;
      progress = true;
      reclaimed += block.bytes;
      total_age -= age(block);
      --count;
      release_segment(block);
    }
  }
}

// Only with max_split_size: one free oversize segment that is large enough, or several from the largest down.
bool TorchModel::release_oversize(const Request& request) {
  if (conf_.max_split_size == AllocConf::unlimited) return false;
  BlockPool& pool = request.pool;
  Block key;
  key.stream = request.stream;
  key.bytes = std::max(request.bytes, conf_.max_split_size);
  auto next = pool.free.lower_bound(&key);
  if (next != pool.free.end() && (*next)->stream == request.stream && (*next)->segment == nullptr) {
    release_segment(**next);
    return true;
  }
  std::uint64_t released = 0;
  while (released < key.bytes && next != pool.free.begin()) {
    Block& block = **--next;
    if (block.stream != request.stream || block.bytes < conf_.max_split_size) break;
    if (block.segment != nullptr) continue;
    released += block.bytes;
    ++next;
    release_segment(block);
  }
  return released >= key.bytes;
}

// Private pools keep theirs: they live as long as the trace.
void TorchModel::release_cached() {
  finish_waiting();
  release_free(pools_.front()->large);
  release_free(pools_.front()->small);
}

void TorchModel::release_free(BlockPool& pool) {
  // Unmapping changes the set, so it comes second.
  std::vector<Block*> expandable;
  for (auto next = pool.free.begin(); next != pool.free.end();) {
    Block& block = **next++;
    if (block.segment != nullptr) {
      expandable.push_back(&block);
    } else if (block.whole_segment()) {
      release_segment(block);
    }
  }
  for (Block* const block : expandable) unmap(*block);
}

}  // namespace reprieve::replay::models
