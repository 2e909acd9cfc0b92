// What a program under test did wrong on the simulated GPU. On a real one it would read or write freed memory now and
// then; here it is seen every time, whatever the timing.
#pragma once

#include <cstdint>
#include <string>

namespace reprieve::simgpu {

enum class FaultKind : std::uint8_t {
  // Addresses were unmapped though nothing had told the host that the queued work that uses them is complete: no query
  // that returned done, no wait, no synchronization. That the work happened to have ended is no excuse.
  early_unmap,
  // Two uses of the same physical bytes, at least one a write, through whatever addresses, that neither stream order,
  // nor an event, nor what the host knew in between puts one after the other.
  unordered_use,
  // Work was queued on addresses that are not mapped, or not accessible from its device. It does not run.
  unmapped_use,
  // What was mapped when work was queued no longer is when it runs. Its effect on the bytes is left out.
  changed_backing,
  // The host waits for work that cannot run: its stream is held, or depends on one that is.
  endless_wait,
};

const char* fault_name(FaultKind kind);  // "early unmap", …

struct Fault {
  FaultKind kind{};
  std::uint64_t address = 0;  // where the offending use or unmap begins
  std::uint64_t bytes = 0;
  std::string text;  // one line that names the work, streams and addresses
};

}  // namespace reprieve::simgpu
