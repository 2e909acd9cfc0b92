// What must be true of the allocators, kept apart from them: the blocks, their contents, and each device's totals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "memory/allocator.hpp"
#include "simgpu/machine.hpp"

namespace reprieve::fuzz {

using LaneId = std::uint32_t;
inline constexpr std::uint32_t nobody = ~std::uint32_t{0};

// One queue of a device. The number that a program calls it by may mean another one in another thread, or later.
struct Lane {
  int device = 0;
  simgpu::StreamId id = 0;    // good in any thread
  device::Stream handle{};    // as the allocator gets it; of a per-thread stream: only in thread `thread`
  simgpu::EventId event = 0;  // for ordering others behind it
  bool legacy = false;
  std::uint32_t thread = nobody;  // set for a per-thread stream
  bool dead = false;
  bool held = false;
  bool known = false;  // the allocator has been asked for memory on it
  bool capturing = false;
  bool capture_hidden = false;  // when it began, the allocator could not know of it
  std::uint32_t capture_thread = nobody;
  simgpu::CaptureMode capture_mode{};
};

// All uses of a block are ordered one after the other; the list sees to that, as a correct program does.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  int device = 0;
  LaneId home = 0;
  LaneId holder = 0;              // where its latest use was queued, or what has been ordered behind that
  std::uint32_t pool = 0;         // slot of a private pool, 0: none
  std::uint64_t pool_serial = 0;  // of the pool that was there then
  std::vector<LaneId> foreign;    // other lanes that used it since `home` was last ordered behind all uses
  std::vector<LaneId> recorded;   // lanes named to record_stream
  std::uint64_t value = 0;        // what it holds in the places that are looked at; 0: never written
  bool orphan = false;            // a lane of it has been destroyed: it can only be freed

  std::uint64_t size() const { return memory::round_up(bytes, memory::block_unit); }
  bool all_recorded(LaneId besides) const {
    return std::all_of(foreign.begin(), foreign.end(), [&](LaneId lane) {
      return lane == besides || std::find(recorded.begin(), recorded.end(), lane) != recorded.end();
    });
  }
};

struct PrivatePool {
  bool made = false;  // once, so that `id` means something
  bool live = false;
  bool graph = false;
  int device = 0;
  memory::PoolId id = 0;
  std::uint64_t serial = 0;
  // Freed blocks that a graph may still use: begin and size, and the lane that they were used on.
  struct Remembered {
    std::uint64_t address, bytes;
    LaneId lane;
  };
  std::vector<Remembered> remembered;
};

struct Total {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void rise(std::uint64_t by) {
    current += static_cast<std::int64_t>(by);
    allocated += static_cast<std::int64_t>(by);
    peak = std::max(peak, current);
  }
  void fall(std::uint64_t by) {
    current -= static_cast<std::int64_t>(by);
    freed += static_cast<std::int64_t>(by);
  }
};

// What the live blocks of one kind, or of both, add up to.
struct Totals {
  Total requested, allocated, allocations;

  void rise(std::uint64_t bytes, std::uint64_t size) {
    requested.rise(bytes);
    allocated.rise(size);
    allocations.rise(1);
  }
  void fall(std::uint64_t bytes, std::uint64_t size) {
    requested.fall(bytes);
    allocated.fall(size);
    allocations.fall(1);
  }
  void reset_peaks() {
    for (Total* total : {&requested, &allocated, &allocations}) total->peak = total->current;
  }
  void reset_accumulated() {
    for (Total* total : {&requested, &allocated, &allocations}) total->allocated = total->freed = 0;
  }
};

struct DeviceShadow {
  memory::ByKind<Totals> totals;
  std::int64_t ooms = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> live;  // begin and end
  std::uint64_t limit = 0;
  std::uint64_t capacity = 0;
  std::uint64_t foreign_use = 0;
  std::uint64_t most_allowed = 0;  // what may have been reserved at most, since the peak was reset
  std::int64_t reserved_peak = 0;
  bool pinned = false;        // some chunk never leaves any more
  bool private_used = false;  // private pools have had memory of it
  bool may_be_stuck = false;  // a deferred free may hang on a stream that no event can mark

  // The pages that live blocks lie on, in bytes.
  std::uint64_t live_page_bytes() const {
    std::uint64_t bytes = 0;
    std::uint64_t done = 0;
    for (const auto& [begin, end] : live) {
      const std::uint64_t first = std::max(done, memory::round_down(begin, memory::page_bytes));
      done = std::max(done, memory::round_up(end, memory::page_bytes));
      if (done > first) bytes += done - first;
    }
    return bytes;
  }
};

}  // namespace reprieve::fuzz
