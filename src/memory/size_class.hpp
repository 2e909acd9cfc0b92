// Sizes, and the classes that free ranges are binned by.
//
// Blocks are multiples of 512 bytes. Below 32 KiB a class is one size; above, its width is at most 1/64 of (size +
// 32 KiB): 3.1 % of the size at first, soon 1.6 %.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace reprieve::memory {

inline constexpr std::uint64_t block_unit = 512;              // alignment and granularity of blocks
inline constexpr std::uint64_t page_bytes = 2ULL << 20;       // granularity of chunks and mappings
inline constexpr std::uint64_t small_block_max = 1ULL << 20;  // larger blocks live in the large arena

enum class BlockKind : std::uint8_t { small, large };
inline constexpr std::size_t block_kinds = 2;
inline constexpr BlockKind both_kinds[] = {BlockKind::small, BlockKind::large};

constexpr BlockKind kind_of(std::uint64_t size) {
  return size <= small_block_max ? BlockKind::small : BlockKind::large;
}

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
constexpr std::uint64_t round_down(std::uint64_t bytes, std::uint64_t unit) { return bytes / unit * unit; }

struct SizeClass {
  static constexpr unsigned columns = 64;
  static constexpr unsigned column_bits = 6;
  static constexpr unsigned rows = 32;  // up to 2^46 bytes

  unsigned row, column;

  constexpr bool operator==(const SizeClass&) const = default;

  // bytes: a multiple of block_unit, below 2^46. Counting from 64 units makes the small sizes the first row of the same
  // pattern, so that no size is a special case.
  static constexpr SizeClass of(std::uint64_t bytes) {
    const std::uint64_t units = bytes / block_unit + columns;
    const unsigned power = static_cast<unsigned>(std::bit_width(units)) - 1;
    return {power - column_bits, static_cast<unsigned>(units >> (power - column_bits)) & (columns - 1)};
  }
};

}  // namespace reprieve::memory
