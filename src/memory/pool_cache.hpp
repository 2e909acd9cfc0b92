// Each thread's last pools, so that a request finds its own without a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "memory/pool.hpp"

namespace reprieve::memory {

// Entries of allocators that are gone cannot match: their ids are not used twice.
struct CachedPool {
  std::uint64_t allocator;
  Stream stream;
  PoolId id;
  Pool* pool;
};
inline constexpr std::size_t cached_pools = 8;

// Not through __tls_get_addr: 256 bytes of the static space that glibc keeps for libraries loaded late.
// constinit: no look whether it has been initialized.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local std::array<CachedPool, cached_pools> pool_cache;

inline CachedPool& cached_pool(std::uint64_t allocator, Stream stream, PoolId id) {
  const auto bits = static_cast<std::uint64_t>(stream);
  return pool_cache[(bits >> 4 ^ bits >> 9 ^ bits ^ id ^ allocator) & (cached_pools - 1)];
}

}  // namespace reprieve::memory
