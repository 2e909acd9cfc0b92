// Free ranges of something linear (addresses, a file), neighbours merged. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace reprieve::simgpu {

class Holes {
 public:
  using Map = std::map<std::uint64_t, std::uint64_t>;  // begin to bytes

  void add(std::uint64_t begin, std::uint64_t bytes) {
    auto next = map_.lower_bound(begin);
    if (next != map_.end() && next->first == begin + bytes) {
      bytes += next->second;
      next = map_.erase(next);
    }
    if (next != map_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == begin) {
        previous->second += bytes;
        return;
      }
    }
    map_.emplace(begin, bytes);
  }

  // Takes exactly this range; false, and nothing taken, where it is not all free.
  bool take_at(std::uint64_t begin, std::uint64_t bytes) {
    const auto after = map_.upper_bound(begin);
    if (after == map_.begin()) return false;
    const auto hole = std::prev(after);
    const std::uint64_t hole_begin = hole->first;
    const std::uint64_t end = hole_begin + hole->second;
    if (begin + bytes > end) return false;
    if (hole_begin == begin) {
      map_.erase(hole);
    } else {
      hole->second = begin - hole_begin;
    }
    if (begin + bytes < end) map_.emplace(begin + bytes, end - begin - bytes);
    return true;
  }

  // The begin of the lowest hole that is large enough.
  std::optional<std::uint64_t> first_fit(std::uint64_t bytes) const {
    const auto hole = std::find_if(map_.begin(), map_.end(), [&](const auto& entry) { return entry.second >= bytes; });
    return hole == map_.end() ? std::nullopt : std::optional(hole->first);
  }

  // End where there is none.
  Map::const_iterator largest() const {
    return std::max_element(map_.begin(), map_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  }

  const Map& all() const { return map_; }

 private:
  Map map_;
};

}  // namespace reprieve::simgpu
