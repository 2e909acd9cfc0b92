// What every allocation and every free goes through, inlined where it is used.
#pragma once

#include "memory/allocator.hpp"

namespace reprieve::memory {

// Precondition: the pool's lock is held, `range` is free and has room for `size`.
inline void Allocator::commit(Arena& arena, Range* range, std::uint64_t size, std::uint64_t requested, void** out) {
  range = arena.take(range, size, requested);
  addresses_.find(range->address)->block_slot(range->address) = range;
  arena.counters.allocated(static_cast<std::int64_t>(requested), static_cast<std::int64_t>(size));
  *out = reinterpret_cast<void*>(range->address);
}

// Locks the pool in whose addresses `ptr` lies and looks for a live block that begins there. Without one, nothing stays
// locked; `owner` is the pool whose addresses they are, null if nobody's.
[[gnu::always_inline]] inline Allocator::Found Allocator::lock_live(const AddressMap& addresses, void* ptr,
                                                                    Pool*& owner) {
  const auto at = reinterpret_cast<Address>(ptr);
  Span* const span = addresses.find(at);
  if (span == nullptr || at >= span->base + span->bytes || at < span->base) {
    owner = nullptr;
    return {};
  }
  Arena* const arena = span->arena.load(std::memory_order_acquire);
  Pool& pool = arena->pool();
  owner = &pool;
  pool.lock.lock();
  Range* const range = span->block_slot(at);
  if (range == nullptr || range->address != at || range->state != RangeState::live) {
    pool.lock.unlock();
    return {};
  }
  return {&pool, arena, span, range};
}

}  // namespace reprieve::memory
