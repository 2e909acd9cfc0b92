// A range of backed addresses: a block, or free memory between blocks. Ranges of a segment are linked in address order,
// so that neighbours coalesce without a search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace reprieve::memory {

using device::Address;
using device::Stream;

// Tells threads apart; never 0.
std::uint64_t this_thread();

// A stream as it can be named from any thread: the per-thread default stream needs its thread beside it.
struct StreamRef {
  Stream stream;
  std::uint64_t thread;  // 0 but for the per-thread default stream

  static StreamRef here(Stream s) {
    s = device::normalize(s);
    return {s, s == device::per_thread_stream ? this_thread() : 0};
  }
  // The per-thread stream of another thread cannot be reached by its handle.
  bool reachable() const { return thread == 0 || thread == this_thread(); }
  auto operator<=>(const StreamRef&) const = default;
};

// Stands for a stream that is gone, and whose work was over before it went.
inline constexpr StreamRef idle_stream{Stream{~std::uintptr_t{0}}, 0};

// The streams, other than its own, that work on a block was said to run on.
using Uses = std::vector<StreamRef>;

enum class RangeState : std::uint8_t {
  unused,    // a record that stands for nothing
  free,      // in a bin
  live,      // a caller has it
  deferred,  // freed by its caller, still in use on another stream
};

struct alignas(64) Range {
  Address address;
  std::uint64_t size;
  Range* prev;  // neighbours in the same segment; null at its ends
  Range* next;
  struct Bin {
    Range* prev;
    Range* next;
  };
  struct Block {
    std::uint64_t requested;
    Uses* uses;  // owned; null as long as no other stream was named
  };
  union {
    Bin bin;      // of a free range
    Block block;  // of a live one
  };
  std::uint64_t freed_at;  // the pool's sequence number at the newest free inside a free range
  RangeState state;

  Address end() const { return address + size; }
  bool whole_segment() const { return prev == nullptr && next == nullptr; }
};
static_assert(sizeof(Range) == 64, "one cache line");

// Records of ranges, from slabs that are kept until the store is destroyed. Not thread-safe: under the pool's lock.
class RangeStore {
 public:
  bool empty() const { return free_list_ == nullptr; }

  // Makes at least `count` records available. Throws std::bad_alloc.
  void reserve(std::size_t count) {
    while (available_ < count) add_slab();
  }

  Range* take() {  // precondition: not empty
    Range* range = free_list_;
    free_list_ = range->bin.next;
    --available_;
    return range;
  }

  void give(Range* range) {
    range->state = RangeState::unused;
    range->bin.next = free_list_;
    free_list_ = range;
    ++available_;
  }

  // visit(Range&): the records are the arena's own, its content may be changed through them.
  template <typename F>
  void for_each(F&& visit) const {
    for (const auto& slab : slabs_) {
      for (std::size_t i = 0; i < slab_ranges; ++i) {
        if (slab[i].state != RangeState::unused) visit(slab[i]);
      }
    }
  }

 private:
  static constexpr std::size_t slab_ranges = 256;

  void add_slab() {
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back(std::make_unique<Range[]>(slab_ranges));
    for (std::size_t i = slab_ranges; i-- > 0;) give(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Range[]>> slabs_;
  Range* free_list_ = nullptr;
  std::size_t available_ = 0;
};

}  // namespace reprieve::memory
