// What an actor knows to have happened: for each queue of the machine, how many of its uses of memory. One use is
// ordered before another exactly when the other's clock covers it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprieve::simgpu {

class VectorClock {
 public:
  bool covers(std::uint32_t queue, std::uint64_t index) const {
    return queue < known_.size() && known_[queue] >= index;
  }

  void set(std::uint32_t queue, std::uint64_t index) {
    if (queue >= known_.size()) known_.resize(queue + std::size_t{1}, 0);
    known_[queue] = index;
  }

  void join(const VectorClock& other) {
    if (other.known_.size() > known_.size()) known_.resize(other.known_.size(), 0);
    for (std::size_t i = 0; i < other.known_.size(); ++i) known_[i] = std::max(known_[i], other.known_[i]);
  }

 private:
  std::vector<std::uint64_t> known_;
};

}  // namespace reprieve::simgpu
