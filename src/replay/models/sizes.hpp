// The sizes that PyTorch's allocator works with (release 2.11, c10/cuda/CUDACachingAllocator.cpp).
#pragma once

#include <cstdint>

namespace reprieve::replay::models {

inline constexpr std::uint64_t KiB = 1ULL << 10;
inline constexpr std::uint64_t MiB = 1ULL << 20;

inline constexpr std::uint64_t smallest_block = 512;           // blocks are multiples of it
inline constexpr std::uint64_t largest_small_block = 1 * MiB;  // larger ones come from the pool for large blocks
inline constexpr std::uint64_t small_segment = 2 * MiB;
inline constexpr std::uint64_t own_segment_from = 10 * MiB;  // such a block gets a segment of its own size
inline constexpr std::uint64_t segment_multiple = 2 * MiB;   // to which that size is rounded up
inline constexpr std::uint64_t default_large_segment = 20 * MiB;
inline constexpr std::uint64_t largest_request = 1ULL << 60;  // more is out of memory without a look

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace reprieve::replay::models
