// PYTORCH_CUDA_ALLOC_CONF as PyTorch 2.11 reads it: which keys there are, what they accept, what steers the models.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "replay/models/sizes.hpp"

namespace reprieve::replay::models {

struct AllocConf {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::size_t roundup_intervals = 16;  // from 1 MiB, each twice the last; the ends take what is beyond

  std::uint64_t large_segment = default_large_segment;
  std::uint64_t max_split_size = unlimited;                      // blocks of this size and more are never split
  std::uint64_t max_non_split_rounding = default_large_segment;  // how much too large a block may be for such a request
  double garbage_collection_threshold = 0;                       // 0: no garbage collection
  std::array<std::uint64_t, roundup_intervals> roundup_divisions{};  // 0 and 1: none
  double memory_fraction = 1;                                        // of the card; 1: no limit
  std::optional<bool> expandable_segments;

  // The size of the block that a request gets.
  std::uint64_t block_bytes(std::uint64_t requested) const;

  // The size of the segment that is made for a block of that size where none has room.
  std::uint64_t segment_bytes(std::uint64_t block) const;
};

// False: `error` is one line that says what is wrong, where, and what is accepted.
bool parse_alloc_conf(std::string_view text, AllocConf& out, std::string& error);

}  // namespace reprieve::replay::models
