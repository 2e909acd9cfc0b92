// What the layers above do for the allocator, which knows no torch and no Python.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/range.hpp"

namespace reprieve::memory {

// Any may be null. They are called from whatever thread is in the allocator, so they must be thread-safe.
struct Hooks {
  void* user = nullptr;

  // A request found no free memory: others may free some of theirs now. No lock is held; what it allocates itself does
  // not call it again.
  void (*collect)(void* user, int device) = nullptr;

  // A chunk became memory of a pool at this address (backed), or ceased to be. Called under locks: it may not call the
  // library, wait for a thread that does, or take Python's GIL.
  void (*segment)(void* user, int device, bool backed, Address address, std::uint64_t bytes, Stream stream,
                  std::uint64_t pool) = nullptr;

  // A block that was freed while other streams still used it is free memory now. Called under locks, as segment().
  void (*deferred_free)(void* user, int device, Address address) = nullptr;

  // Around every wait for the GPU, with no lock held: here a thread lets go of Python's GIL. What the first returns is
  // given to the second.
  void* (*wait_begin)(void* user) = nullptr;
  void (*wait_end)(void* user, void* token) = nullptr;
};

}  // namespace reprieve::memory
