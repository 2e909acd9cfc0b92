// The bytes of one simulated memory (a device's, or the host's): a sparse file in memory whose ranges are mapped at
// the simulated addresses. Nothing is committed until it is touched.
#pragma once

#include <cstdint>
#include <map>

namespace reprieve::simgpu {

class Backing {
 public:
  explicit Backing(const char* name);
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // A file for mmap; -1 where the system gave none.
  int file() const { return file_; }

  // Takes `bytes` of the file (a multiple of the page size): at `wanted` where that is free, else with room to grow on
  // both sides. Callers ask for the place next to the one mapped at the neighbouring address, so that the kernel
  // makes one mapping of both.
  std::uint64_t take(std::uint64_t bytes, std::uint64_t wanted);

  // Gives them back; what was touched goes back to the system at once.
  void give_back(std::uint64_t offset, std::uint64_t bytes);

  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

 private:
  std::uint64_t take_at(std::uint64_t offset, std::uint64_t bytes);

  int file_ = -1;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset to bytes; neighbours are merged
};

}  // namespace reprieve::simgpu
