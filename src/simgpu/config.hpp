// What a simulated machine is made with.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

// When queued work runs. Faults are looked for in both modes, by order and not by time, so they are the same.
enum class Mode : std::uint8_t {
  lazy,   // as virtual time passes: because something waits, a call costs time, or advance()
  eager,  // at once: after each call all that can run has run, and virtual time has moved on to its end
};

// Fresh memory that is poisoned reads 0xa5.
enum class Poison : std::uint8_t {
  none,     // fresh memory reads 0
  at_once,  // when it is made accessible: touches every byte
  // Before the first queued work with known ranges uses it, in pieces of 64 KiB: what no such work uses is never
  // committed (and would read 0), so that simulated memory may be far larger than the host's.
  on_use,
};

struct Config {
  int devices = 1;  // 1 to 64
  std::uint64_t device_bytes = std::uint64_t{140} << 30;
  std::uint64_t host_bytes = std::uint64_t{256} << 30;  // pinned, registered, and allocations located in host memory
  bool context_events = true;                           // event_record_all works (CUDA 12.5 and newer)
  bool poison_fresh = false;                            // Poison::at_once
  Poison poison = Poison::none;
  Mode mode = Mode::lazy;
};

}  // namespace reprieve::simgpu
