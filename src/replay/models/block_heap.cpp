#include "replay/models/block_heap.hpp"

#include <algorithm>

namespace reprieve::replay::models {

Block& BlockHeap::make(BlockPool& pool, std::uint16_t stream, std::uint64_t address, std::uint64_t bytes) {
  Block* block = nullptr;
  if (spare_.empty()) {
    block = &blocks_.emplace_back();
  } else {
    block = spare_.back();
    spare_.pop_back();
    *block = {};
  }
  block->pool = &pool;
  block->stream = stream;
  block->address = address;
  block->bytes = bytes;
  return *block;
}

void BlockHeap::drop(Block& block) {
  block.pool = nullptr;
  spare_.push_back(&block);
}

Block& BlockHeap::split(Block& block, std::uint64_t bytes) {
  Block& rest = make(*block.pool, block.stream, block.address + bytes, block.bytes - bytes);
  rest.segment = block.segment;
  rest.mapped = block.mapped;
  rest.before = &block;
  rest.after = block.after;
  if (rest.after != nullptr) rest.after->before = &rest;
  block.after = &rest;
  block.bytes = bytes;
  return rest;
}

void BlockHeap::merge(Block& block, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->is_free() || neighbour->mapped != block.mapped) return;
  if (neighbour->mapped) {
    neighbour->pool->free.erase(neighbour);
  } else {
    neighbour->pool->unmapped.erase(neighbour);
  }
  if (block.before == neighbour) {
    block.address = neighbour->address;
    block.before = neighbour->before;
    if (block.before != nullptr) block.before->after = &block;
  } else {
    block.after = neighbour->after;
    if (block.after != nullptr) block.after->before = &block;
  }
  block.bytes += neighbour->bytes;
  drop(*neighbour);
}

void BlockHeap::insert_free(Block& block) {
  block.set_free_at = block.pool->searches;
  block.pool->free.insert(&block);
}

void BlockHeap::set_free(Block& block) {
  merge(block, block.before);
  merge(block, block.after);
  insert_free(block);
}

bool BlockHeap::validate(std::uint64_t reserved, std::string& error) const {
  std::vector<const Block*> sorted;
  std::uint64_t mapped = 0;
  for (const Block& block : blocks_) {
    if (block.pool == nullptr) continue;
    sorted.push_back(&block);
    if (block.mapped) mapped += block.bytes;
  }
  std::sort(sorted.begin(), sorted.end(), [](const Block* a, const Block* b) { return a->address < b->address; });
  const auto fail = [&](const Block& block, const char* what) {
    error = "block of " + std::to_string(block.bytes) + " bytes at " + std::to_string(block.address) + ": " + what;
    return false;
  };
  const Block* last = nullptr;
  for (const Block* block : sorted) {
    if (block->bytes == 0) return fail(*block, "empty");
    if (last != nullptr && last->address + last->bytes > block->address) return fail(*block, "overlaps the one before");
    const bool in_free = block->pool->free.count(const_cast<Block*>(block)) != 0;
    const bool in_unmapped = block->pool->unmapped.count(const_cast<Block*>(block)) != 0;
    if (in_free != (block->is_free() && block->mapped))
      return fail(*block, "is in the set of free blocks, or is not, wrongly");
    if (in_unmapped == block->mapped) return fail(*block, "is in the set of unmapped blocks, or is not, wrongly");
    if (!block->mapped && !block->is_free()) return fail(*block, "in use but not mapped");
    if (const Block* after = block->after; after != nullptr) {
      if (after->before != block || block->address + block->bytes != after->address || after->pool != block->pool ||
          after->segment != block->segment || after->stream != block->stream) {
        return fail(*block, "does not fit the one after it");
      }
      if (block->is_free() && after->is_free() && block->mapped == after->mapped)
        return fail(*block, "should be one with the one after it");
    }
    if (block->before != nullptr && block->before->after != block)
      return fail(*block, "does not fit the one before it");
    last = block;
  }
  if (mapped != reserved) {
    error = std::to_string(mapped) + " bytes are in blocks, " + std::to_string(reserved) + " are reserved";
    return false;
  }
  return true;
}

}  // namespace reprieve::replay::models
