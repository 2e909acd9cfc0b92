// Blocks cut out of segments, and the ordered sets of the free ones: what both of PyTorch's policies are built of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace reprieve::replay::models {

struct BlockPool;

// A reservation of addresses, in which chunks of one size are mapped.
struct ExpandableSegment {
  std::uint64_t base;
  std::uint64_t bytes;  // of addresses, a multiple of `chunk`
  std::uint64_t chunk;
};

// Blocks next to each other in a segment are linked. A free block is in its pool's set `free`, or, where nothing is
// mapped at its addresses, in `unmapped`; no two free neighbours are alike in that, or they would be one block.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Block* before = nullptr;
  Block* after = nullptr;
  BlockPool* pool = nullptr;  // null: the record is not in use
  const ExpandableSegment* segment = nullptr;
  std::uint64_t set_free_at = 0;          // the pool's `searches` then
  std::vector<std::uint16_t> other_uses;  // streams other than its own that use it
  std::uint16_t stream = 0;
  bool allocated = false;  // a caller has it
  bool waiting = false;    // freed, but other streams' work was not yet asked about
  bool mapped = true;

  bool whole_segment() const { return before == nullptr && after == nullptr; }
  bool is_free() const { return !allocated && !waiting; }
};

// Orders of the two sets. Streams do not share blocks, so each order begins with the stream.
struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
  }
};
struct ByAddress {
  bool operator()(const Block* a, const Block* b) const {
    return a->stream != b->stream ? a->stream < b->stream : a->address < b->address;
  }
};

struct BlockPool {
  std::set<Block*, BySize> free;
  std::set<Block*, ByAddress> unmapped;
  bool small = false;
  std::uint64_t searches = 0;  // for a free block; counted while garbage is collected
};

class BlockHeap {
 public:
  // A record of a block that is neither linked nor in a set.
  Block& make(BlockPool& pool, std::uint16_t stream, std::uint64_t address, std::uint64_t bytes);
  void drop(Block& block);

  // Cuts `block` after `bytes`; the rest is linked behind it and returned, in no set.
  Block& split(Block& block, std::uint64_t bytes);

  // Takes the neighbour into `block` where both are free, and mapped or not alike. `neighbour` may be null.
  void merge(Block& block, Block* neighbour);

  // Free and mapped, merged with its neighbours, into its pool's set.
  void set_free(Block& block);
  void insert_free(Block& block);

  // Recounts: neighbours fit together, no two segments overlap, the sets hold just the free blocks, and what is mapped
  // is `reserved`. Else `error` says what does not hold.
  bool validate(std::uint64_t reserved, std::string& error) const;

  std::size_t count() const { return blocks_.size() - spare_.size(); }

 private:
  std::deque<Block> blocks_;
  std::vector<Block*> spare_;
};

}  // namespace reprieve::replay::models
