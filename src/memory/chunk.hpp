// A chunk: one physical allocation of the driver, mapped whole. Its home is where blocks may be cut from it; stale
// mappings of it may wait in limbo at the same time.
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "memory/size_class.hpp"

namespace reprieve::memory {

struct Chunk {
  device::Handle handle{};
  std::uint64_t bytes = 0;
  device::Location location = device::Location::device;
  device::Address home = 0;    // 0: none, it only waits to be released
  std::uint32_t mappings = 0;  // home and stale ones
  BlockKind kind{};            // of the arena of its home, or of its last one: whose reserved memory it is
  std::size_t index = 0;       // in the allocator's list
  bool pinned = false;         // registered or exported: never gets another home
  bool doomed = false;         // goes back to the driver with its last mapping
};

}  // namespace reprieve::memory
