// A span: addresses reserved from the driver for one arena, with the tables that tell what lies at an address.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>

#include "memory/chunk.hpp"
#include "memory/lazy_array.hpp"
#include "memory/range.hpp"
#include "memory/size_class.hpp"

namespace reprieve::memory {

class Arena;

inline constexpr std::uint64_t span_unit = 1ULL << 30;  // spans begin and end on it: one slot of the address map each

// Address ranges without a mapping, kept coalesced.
class Holes {
 public:
  void add(Address at, std::uint64_t bytes) {
    auto next = holes_.lower_bound(at);
    if (next != holes_.end() && next->first == at + bytes) {
      bytes += next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    holes_.emplace_hint(next, at, bytes);
  }

  // [at, at + bytes) must lie in one hole.
  void remove(Address at, std::uint64_t bytes) {
    auto hole = std::prev(holes_.upper_bound(at));
    const Address begin = hole->first;
    const Address end = begin + hole->second;
    if (begin < at) {
      hole->second = at - begin;
    } else {
      holes_.erase(hole);
    }
    if (at + bytes < end) holes_.emplace(at + bytes, end - (at + bytes));
  }

  // The bytes without a mapping from `at` on, where a hole begins there.
  std::uint64_t room_from(Address at) const {
    const auto hole = holes_.find(at);
    return hole == holes_.end() ? 0 : hole->second;
  }

  bool contains(Address at) const {
    const auto hole = holes_.upper_bound(at);
    return hole != holes_.begin() && std::prev(hole)->first + std::prev(hole)->second > at;
  }

  const std::map<Address, std::uint64_t>& all() const { return holes_; }

 private:
  std::map<Address, std::uint64_t> holes_;
};

struct Span {
  // slot_shift: log2 of the bytes that one slot of `blocks` stands for; at most one live block begins in each.
  Span(Address base_address, std::uint64_t size, unsigned slot_shift, Address reservation_base,
       std::uint64_t reservation_size)
      : base(base_address),
        bytes(size),
        shift(slot_shift),
        reserved_base(reservation_base),
        reserved_bytes(reservation_size),
        blocks(size >> slot_shift),
        pages(size / page_bytes) {
    holes.add(base, bytes);
  }

  Range*& block_slot(Address at) { return blocks[(at - base) >> shift]; }
  Chunk*& page(Address at) { return pages[(at - base) / page_bytes]; }

  void set_pages(Address at, std::uint64_t size, Chunk* chunk) {
    for (std::uint64_t offset = 0; offset < size; offset += page_bytes) page(at + offset) = chunk;
  }

  const Address base;
  const std::uint64_t bytes;
  const unsigned shift;
  const Address reserved_base;  // what the driver gave, which need not begin on a span_unit
  const std::uint64_t reserved_bytes;
  std::atomic<Arena*> arena{nullptr};  // set before the span is in the address map; changes hands only while empty
  LazyArray<Range*> blocks;            // live blocks by their address
  LazyArray<Chunk*> pages;             // the chunk whose home covers a page
  Holes holes;
};

// Address to span in one load, without a lock. One for all devices: their addresses never overlap.
class AddressMap {
 public:
  Span* find(Address at) const {
    const std::uint64_t index = at / span_unit;
    return index < slots ? spans_[index].load(std::memory_order_acquire) : nullptr;
  }

  // Frees of pointers that lie in no span.
  std::atomic<std::int64_t> strays{0};

  // False where the addresses lie beyond what the map covers.
  bool covers(Address base, std::uint64_t bytes) const { return base + bytes <= slots * span_unit; }

  void set(const Span& span, Span* value) {
    for (std::uint64_t at = span.base; at < span.base + span.bytes; at += span_unit) {
      spans_[at / span_unit].store(value, std::memory_order_release);
    }
  }

 private:
  static constexpr std::uint64_t slots = 1ULL << 18;  // 2^48 addresses; x86-64 gives processes 2^47
  LazyArray<std::atomic<Span*>> spans_{slots};
};

}  // namespace reprieve::memory
