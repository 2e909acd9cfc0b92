// Pools of device memory in stream order (cudaMallocAsync), as far as callers see them.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

using PoolId = std::uint64_t;  // 1 + device: that device's default pool, which always exists

struct PoolStats {
  std::uint64_t reserved_bytes = 0;  // taken from the device, in segments of whole 32 MiB
  std::uint64_t reserved_high_bytes = 0;
  std::uint64_t used_bytes = 0;  // allocated and not yet freed, by the host's count
  std::uint64_t used_high_bytes = 0;
  std::uint64_t release_threshold_bytes = 0;  // what synchronizations leave reserved though it is free
};

}  // namespace reprieve::simgpu
