// Expandable segments: one range of addresses a stream and pool, larger than the card, in which chunks are mapped where
// a block is to be, and unmapped where memory is short.
#include <algorithm>
#include <iterator>

#include "replay/models/torch_model.hpp"

namespace reprieve::replay::models {

// A free block counts as large as it could grow over the unmapped addresses behind it. From the first one that is large
// enough, the search goes on as long as the next one could grow to less.
std::set<Block*, BySize>::iterator TorchModel::best_expandable(BlockPool& pool,
                                                               std::set<Block*, BySize>::iterator from) const {
  const auto reach = [](const Block& block) {
    return block.bytes + (block.after != nullptr && !block.after->mapped ? block.after->bytes : 0);
  };
  for (auto next = std::next(from); next != pool.free.end(); from = next++) {
    if ((*next)->stream != (*from)->stream || reach(**next) >= reach(**from)) break;
  }
  return from;
}

// The lowest addresses where free and unmapped blocks together have room: unmapped ones first, or a free block and the
// unmapped one behind it.
Block& TorchModel::expandable_place(const Request& request) {
  BlockPool& pool = request.pool;
  Block key;
  key.stream = request.stream;
  for (auto place = pool.unmapped.lower_bound(&key); place != pool.unmapped.end() && (*place)->stream == request.stream;
       ++place) {
    Block* first = *place;
    if (first->before != nullptr && first->before->is_free()) first = first->before;
    std::uint64_t room = 0;
    for (const Block* block = first; room < request.bytes && block != nullptr && block->is_free();
         block = block->after) {
      room += block->bytes;
    }
    if (room >= request.bytes) return *first;
  }
  const std::uint64_t chunk = pool.small ? small_segment : conf_.large_segment;
  const std::uint64_t bytes = round_up(card_.capacity() + card_.capacity() / 8, chunk);
  const ExpandableSegment& segment = expandable_.emplace_back(ExpandableSegment{card_.reserve(bytes), bytes, chunk});
  Block& block = heap_.make(pool, request.stream, segment.base, segment.bytes);
  block.segment = &segment;
  block.mapped = false;
  pool.unmapped.insert(&block);
  return block;
}

Block* TorchModel::expand(const Request& request) {
  Block* block = &expandable_place(request);
  if (!block->mapped) {
    block = map(*block, std::min(block->bytes, request.bytes));
  }
  while (block != nullptr && block->bytes < request.bytes) {
    Block& unmapped = *block->after;
    block = map(unmapped, std::min(request.bytes - block->bytes, unmapped.bytes));
  }
  // What was mapped before the card was full stays: it is free memory.
  if (block != nullptr) request.pool.free.erase(block);
  return block;
}

// Maps the beginning of an unmapped block, in whole chunks, and returns the free block that it becomes part of; null
// where the card is full.
Block* TorchModel::map(Block& block, std::uint64_t bytes) {
  const std::uint64_t chunk = block.segment->chunk;
  const std::uint64_t mapped = round_up(bytes, chunk);
  if (!card_.map_chunks(mapped / chunk, chunk)) return nullptr;
  block.pool->unmapped.erase(&block);
  if (mapped < block.bytes) block.pool->unmapped.insert(&heap_.split(block, mapped));
  block.mapped = true;
  heap_.set_free(block);
  grow(mapped);
  return &block;
}

// Unmaps the whole chunks in a free block. What is left of it at either end stays mapped and free.
void TorchModel::unmap(Block& block) {
  const ExpandableSegment& segment = *block.segment;
  const std::uint64_t begin = segment.base + round_up(block.address - segment.base, segment.chunk);
  const std::uint64_t end = block.address + block.bytes - (block.address + block.bytes - segment.base) % segment.chunk;
  if (begin >= end) return;
  BlockPool& pool = *block.pool;
  pool.free.erase(&block);
  if (end < block.address + block.bytes) heap_.insert_free(heap_.split(block, end - block.address));
  Block* inner = &block;
  if (begin > block.address) {
    inner = &heap_.split(block, begin - block.address);
    heap_.insert_free(block);
  }
  card_.unmap_chunks((end - begin) / segment.chunk, segment.chunk);
  shrink(end - begin);
  inner->mapped = false;
  heap_.merge(*inner, inner->before);
  heap_.merge(*inner, inner->after);
  if (!inner->whole_segment()) {
    pool.unmapped.insert(inner);
    return;
  }
  heap_.drop(*inner);
  card_.unreserve();
  expandable_.remove_if([&](const ExpandableSegment& known) { return &known == &segment; });
}

}  // namespace reprieve::replay::models
