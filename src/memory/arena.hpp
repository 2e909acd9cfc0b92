// An arena: the ranges of one pool for blocks of one kind (small or large), and the spans that they lie in.
// Not thread-safe: everything under the pool's lock; what changes backing or spans also under the allocator's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/bins.hpp"
#include "memory/counters.hpp"
#include "memory/range.hpp"
#include "memory/span.hpp"

namespace reprieve::memory {

struct Pool;

class Arena {
 public:
  enum class Kind : std::uint8_t { small, large };

  Arena(Pool& pool, Counters& counters, Kind kind) : pool_(pool), counters_(counters), kind_(kind) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Pool& pool() const { return pool_; }
  Kind kind() const { return kind_; }
  // log2 of the distance that the beginnings of live blocks keep: in the large arena all are larger than 1 MiB.
  unsigned slot_shift() const { return kind_ == Kind::small ? 9 : 20; }

  // ---- blocks ----

  Range* find(std::uint64_t size) const { return bins_.find(size); }
  bool can_split() const { return !store_.empty(); }

  // Cuts a block of `size` from the beginning of a free range. Precondition: can_split(), size <= range->size.
  void take(Range* range, std::uint64_t size, std::uint64_t requested) {
    remove_free(range);
    if (range->size > size) split(range, size);
    range->state = RangeState::live;
    range->block.requested = requested;
    range->block.uses = nullptr;
  }

  // Makes a live or deferred range free, and one with its free neighbours.
  void give(Range* range, std::uint64_t sequence) {
    if (Range* before = range->prev; before != nullptr && before->state == RangeState::free) {
      remove_free(before);
      absorb(before, range);
      range = before;
    }
    if (Range* after = range->next; after != nullptr && after->state == RangeState::free) {
      remove_free(after);
      absorb(range, after);
    }
    range->freed_at = sequence;
    insert_free(range);
  }

  // ---- backing ----

  // Where new backing goes: right behind `tail`, a free range at whose end its segment ends; or (tail null) at addresses
  // that touch no segment.
  struct Site {
    Span* span = nullptr;
    Address at = 0;
    Range* tail = nullptr;

    std::uint64_t have() const { return tail == nullptr ? 0 : tail->size; }
  };

  // The site at which the fewest bytes are missing for a range of `size` bytes, with room for `spare` bytes beyond; span
  // null: none of the arena's spans has that room.
  Site find_site(std::uint64_t size, std::uint64_t spare);

  // Room for `bytes` bytes to change in the ranges' records. Throws std::bad_alloc; attach and detach then do not.
  void reserve_records(std::size_t count) { store_.reserve(count); }

  // `bytes` bytes have been mapped at site.at: they become free memory of the arena.
  void attach(const Site& site, std::uint64_t bytes, std::uint64_t sequence);

  // The pages of a chunk that lies wholly in a free range stop being the arena's. Several chunks of one range: highest
  // address first, so that `range` stays valid.
  void detach(Range* range, const Chunk& chunk, Span& span);

  void add_span(std::unique_ptr<Span> span) { spans_.push_back(std::move(span)); }
  std::vector<std::unique_ptr<Span>>& spans() { return spans_; }
  const std::vector<std::unique_ptr<Span>>& spans() const { return spans_; }
  Span& span_of(Address at) const;

  std::int64_t segments() const { return segments_; }
  const Bins& bins() const { return bins_; }
  const RangeStore& store() const { return store_; }

 private:
  void insert_free(Range* range) {
    range->state = RangeState::free;
    bins_.insert(range);
    if (!range->whole_segment()) {
      counters_.rise(inactive_split_bytes, range->size);
      counters_.rise(inactive_split_blocks, 1);
    }
  }

  void remove_free(Range* range) {
    bins_.remove(range);
    if (!range->whole_segment()) {
      counters_.fall(inactive_split_bytes, range->size);
      counters_.fall(inactive_split_blocks, 1);
    }
  }

  void split(Range* range, std::uint64_t size) {
    Range* rest = store_.take();
    rest->address = range->address + size;
    rest->size = range->size - size;
    rest->freed_at = range->freed_at;
    rest->prev = range;
    rest->next = range->next;
    if (rest->next != nullptr) rest->next->prev = rest;
    range->next = rest;
    range->size = size;
    insert_free(rest);
  }

  void absorb(Range* range, Range* after) {
    range->size += after->size;
    range->next = after->next;
    if (range->next != nullptr) range->next->prev = range;
    store_.give(after);
  }

  Pool& pool_;
  Counters& counters_;
  const Kind kind_;
  Bins bins_;
  RangeStore store_;
  std::vector<std::unique_ptr<Span>> spans_;
  std::int64_t segments_ = 0;
};

}  // namespace reprieve::memory
