// The fuzzer's instructions. Each makes sense in any state (what does not apply is passed over), so that any part of a
// list is a list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace reprieve::fuzz {

inline constexpr std::uint32_t slots = 512;     // places for blocks; every instruction on a block names its slot
inline constexpr std::uint32_t pool_slots = 4;  // places for private pools; as an argument 1 to 4, 0: the default pool
inline constexpr std::uint32_t threads = 3;
// Streams of one device, by their number there: 0 legacy, 1 legacy by its other handle, 2 the per-thread default stream
// of whichever thread runs the instruction, then streams made by the program. Stream s is number s % 6 of device s / 6.
inline constexpr std::uint32_t device_streams = 6;

enum class Op : std::uint8_t {
  allocate,       // slot, stream, other: pool, n: bytes
  reallocate,     // slot: freed and allocated again at once with its size, which must not fail
  free,           // slot; n 1: without ordering the block's stream behind the others that use it, if these are recorded
  free_on,        // slot, stream
  free_again,     // slot: the address that was freed last in it
  free_interior,  // slot, n: distance from the block's beginning
  free_unknown,   // n: the address
  record_stream,  // slot, stream
  write,          // slot, stream, other 1: record_stream if the stream is not the block's, n: duration in ns
  read,           // as write
  order,          // stream waits for what is queued on stream `other`
  advance,        // n: ns
  synchronize,    // stream: its device, with the host
  synchronize_stream,  // stream
  hold,                // stream
  resume,              // stream
  fail,                // slot: simgpu::Call, stream: after how many, other: how many, n: code
  clear_failures,
  empty_cache,        // stream: the device
  trim,               // stream: the device, n: bytes
  set_limit,          // stream: the device, n: bytes
  set_capacity,       // stream: the device, n: bytes
  set_foreign_use,    // stream: the device, n: bytes
  create_pool,        // other: pool, stream: the device, n 1: for graphs
  destroy_pool,       // other: pool
  replay_graph,       // other: pool: work that reads freed blocks of a graph pool
  pin_backing,        // slot
  begin_capture,      // stream, n: simgpu::CaptureMode
  end_capture,        // stream
  destroy_stream,     // stream; another takes its number
  switch_thread,      // n: the thread that runs what follows
  reset_peaks,        // stream: the device
  reset_accumulated,  // stream: the device
  check_stats,        // stream: the device
  validate,           // stream: the device
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::validate) + 1;

struct Instruction {
  Op op{};
  std::uint32_t slot = 0;
  std::uint32_t stream = 0;
  std::uint32_t other = 0;
  std::uint64_t n = 0;
};

// What a list runs on.
struct Setup {
  int devices = 1;
  std::uint64_t device_bytes = 256 * MiB;
  std::uint64_t chunk_max = 64 * MiB;
  double growth_slack = 0.01;
  std::uint64_t limit = 0;
  std::uint64_t headroom = 0;
  std::uint64_t wait_ms = 10'000;
  bool context_events = true;
  bool poison_fresh = false;
  bool settle_at_end = true;  // the host waits for all work before the allocator is destroyed
};

using List = std::vector<Instruction>;

// A regression test that runs the list.
std::string as_code(const Setup& setup, const List& list, const std::string& comment);

}  // namespace reprieve::fuzz
