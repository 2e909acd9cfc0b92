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
  using Kind = BlockKind;

  Arena(Pool& pool, Kind kind) : pool_(pool), kind_(kind) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Pool& pool() const { return pool_; }
  Kind kind() const { return kind_; }
  // log2 of the distance that the beginnings of live blocks keep: in the large arena all are larger than 1 MiB.
  unsigned slot_shift() const { return kind_ == Kind::small ? 9 : 20; }

  Counters counters;

  // ---- blocks ----

  Range* find(std::uint64_t size) const { return bins_.find(size); }
  bool can_split() const { return !store_.empty(); }

  // Cuts a block of `size` from the beginning of a free range. Precondition: can_split(), size <= range->size.
  Range* take(Range* range, std::uint64_t size, std::uint64_t requested) {
    const bool whole = range->whole_segment();
    if (range->size == size) {
      bins_.remove(range);
      if (!whole) {
        counters.split_taken(signed_bytes(size));
        counters.split_blocks_changed(-1);
      }
    } else {
      Range* const block = store_.take();
      block->address = range->address;
      block->size = size;
      block->prev = range->prev;
      block->next = range;
      if (block->prev != nullptr) block->prev->next = block;
      range->prev = block;
      range->address += size;
      bins_.resize(range, range->size - size);
      if (whole) {
        counters.split_changed(signed_bytes(range->size));
        counters.split_blocks_changed(1);
      } else {
        counters.split_taken(signed_bytes(size));
      }
      range = block;
    }
    range->state = RangeState::live;
    range->block.requested = requested;
    range->block.uses = nullptr;
    return range;
  }

  // Makes a live or deferred range free, and one with its free neighbours.
  void give(Range* range, std::uint64_t sequence) {
    const std::uint64_t size = range->size;
    Range* const before = range->prev;
    Range* const after = range->next;
    const bool joins_before = before != nullptr && before->state == RangeState::free;
    const bool joins_after = after != nullptr && after->state == RangeState::free;
    const std::uint64_t others = (joins_before ? before->size : 0) + (joins_after ? after->size : 0);
    if (joins_before) {
      if (joins_after) {
        bins_.remove(after);
        link(before, after->next);
        store_.give(after);
      } else {
        link(before, after);
      }
      bins_.resize(before, size + others);
      store_.give(range);
      range = before;
    } else if (joins_after) {
      after->address = range->address;
      after->prev = before;
      if (before != nullptr) before->next = after;
      bins_.resize(after, size + others);
      store_.give(range);
      range = after;
    } else {
      range->state = RangeState::free;
      bins_.insert(range);
    }
    range->freed_at = sequence;
    const int joined = (joins_before ? 1 : 0) + (joins_after ? 1 : 0);
    if (range->whole_segment()) {
      counters.segment_freed(signed_bytes(size), signed_bytes(others));
      counters.split_blocks_changed(-joined);
    } else {
      counters.split_freed(signed_bytes(size));
      counters.split_blocks_changed(1 - joined);
    }
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

  // ---- given addresses: a linear search each, for what is rare ----

  // The free range that [at, at + bytes) lies in; null where not all of it is free.
  Range* free_range_at(Address at, std::uint64_t bytes) const;

  // Cuts off what lies before `at` as a free range of its own; returns the range from `at` on. Precondition: can_split().
  Range* cut_front(Range* range, Address at);

  // `bytes` bytes mapped at `at` become free memory of the arena, one with the segments that they touch.
  void reattach(const Span& span, Address at, std::uint64_t bytes, std::uint64_t sequence);

  void add_span(std::unique_ptr<Span> span) { spans_.push_back(std::move(span)); }
  std::vector<std::unique_ptr<Span>>& spans() { return spans_; }
  const std::vector<std::unique_ptr<Span>>& spans() const { return spans_; }
  Span& span_of(Address at) const;

  std::int64_t segments() const { return segments_; }
  const Bins& bins() const { return bins_; }
  const RangeStore& store() const { return store_; }

 private:
  static std::int64_t signed_bytes(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

  static void link(Range* range, Range* after) {
    range->next = after;
    if (after != nullptr) after->prev = range;
  }

  // For changes of backing; the path of a block counts by itself.
  void insert_free(Range* range) {
    range->state = RangeState::free;
    bins_.insert(range);
    count_split(*range, 1);
  }
  void remove_free(Range* range) {
    bins_.remove(range);
    count_split(*range, -1);
  }
  void count_split(const Range& range, int sign) {
    if (range.whole_segment()) return;
    counters.split_changed(sign * signed_bytes(range.size));
    counters.split_blocks_changed(sign);
  }

  Pool& pool_;
  const Kind kind_;
  Bins bins_;
  RangeStore store_;
  std::vector<std::unique_ptr<Span>> spans_;
  std::int64_t segments_ = 0;
};

}  // namespace reprieve::memory
