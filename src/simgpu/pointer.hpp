// What an address is.
#pragma once

#include <cstdint>

#include "simgpu/costs.hpp"

namespace reprieve::simgpu {

enum class PointerKind : std::uint8_t {
  none,        // not the machine's: pageable host memory, or nothing
  plain,       // Machine::malloc
  managed,     // Machine::malloc with managed set
  pooled,      // Machine::malloc_async
  pinned,      // Machine::host_alloc
  registered,  // Machine::host_register
  mapped,      // Machine::map; accessible only from the devices in `access`
  imported,    // Machine::ipc_import: another process's plain memory
};

struct PointerInfo {
  PointerKind kind = PointerKind::none;
  Location where = Location::host;
  int device = -1;           // whose memory; for pinned and registered memory the device given when it was made
  std::uint64_t base = 0;    // of the allocation (kind `mapped`: of the whole mapping)
  std::uint64_t bytes = 0;   // as asked for
  std::uint64_t id = 0;      // of the allocation: no two in the process's life have the same
  std::uint64_t access = 0;  // one bit for each device that may use it
};

}  // namespace reprieve::simgpu
