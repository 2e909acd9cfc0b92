// A model of PyTorch 2.11's caching allocator on one card, with plain or with expandable segments. docs/models.md says
// which of its rules are here. It decides as that allocator does; how long its own code takes means nothing.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "replay/models/alloc_conf.hpp"
#include "replay/models/block_heap.hpp"
#include "replay/models/card.hpp"

namespace reprieve::replay::models {

enum class Segments : std::uint8_t { plain, expandable };

class TorchModel {
 public:
  // `limit` is what set_per_process_memory_fraction would allow, in bytes; 0, or the whole card: none. A fraction in
  // the configuration is a limit as well, and the lower one counts. Pool 0 is the default one, the others are private.
  TorchModel(const AllocConf& conf, Segments segments, Card& card, std::uint64_t limit, std::size_t pools);
  ~TorchModel();
  TorchModel(const TorchModel&) = delete;
  TorchModel& operator=(const TorchModel&) = delete;

  // Null: out of memory. `bytes` is more than 0.
  Block* allocate(std::uint64_t bytes, std::uint16_t stream, std::size_t pool);
  void free(Block& block);
  void record_use(Block& block, std::uint16_t stream);
  void empty_cache();

  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t peak_reserved() const { return peak_reserved_; }
  void reset_peak() { peak_reserved_ = reserved_; }
  std::uint64_t retries() const { return retries_; }  // allocations that had all cached memory released first
  std::size_t block_count() const { return heap_.count(); }

  bool validate(std::string& error) const;

 private:
  struct Pool {
    BlockPool small, large;
  };
  struct Request {
    std::uint64_t bytes;          // of the block
    std::uint64_t segment_bytes;  // of the segment where one is made for it
    std::uint16_t stream;
    BlockPool& pool;
  };

  // torch_model.cpp: the order of attempts, and plain segments.
  Block* find(const Request& request);
  Block* take_new(const Request& request);
  Block* new_segment(const Request& request);
  bool is_split_for(const Block& block, const Request& request) const;
  void finish_waiting();
  void grow(std::uint64_t bytes);
  void shrink(std::uint64_t bytes) { reserved_ -= bytes; }

  // release.cpp: what is given back to the card, and when.
  void collect_garbage();
  bool release_oversize(const Request& request);
  void release_cached();
  void release_free(BlockPool& pool);
  void release_segment(Block& block);

  // expandable.cpp
  Block* expand(const Request& request);
  Block& expandable_place(const Request& request);
  Block* map(Block& block, std::uint64_t bytes);
  void unmap(Block& block);
  std::set<Block*, BySize>::iterator best_expandable(BlockPool& pool, std::set<Block*, BySize>::iterator from) const;

  AllocConf conf_;
  Segments segments_;
  Card& card_;
  std::uint64_t limit_;  // AllocConf::unlimited: none
  std::uint64_t reserved_ = 0, peak_reserved_ = 0, retries_ = 0;
  BlockHeap heap_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<Block*> waiting_;
  std::list<ExpandableSegment> expandable_;
};

}  // namespace reprieve::replay::models
