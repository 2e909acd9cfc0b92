// The bytes of one simulated memory (a device's, or the host's): a sparse file in memory whose ranges are mapped at
// the simulated addresses. Nothing is committed until it is touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simgpu/holes.hpp"

namespace reprieve::simgpu {

class Backing {
 public:
  explicit Backing(const std::string& name);
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // A file for mmap; -1 where the system gave none.
  int file() const { return file_; }

  // Takes `bytes` of the file (a multiple of the page size): at `wanted` where that is free, else with room to grow on
  // both sides. Callers ask for the place next to the one mapped at the neighbouring address, so that the kernel
  // makes one mapping of both.
  std::uint64_t take(std::uint64_t bytes, std::uint64_t wanted);

  // Gives them back; what was touched goes back to the system at once. A range that another process still has imported
  // is kept from being taken until it has let go.
  void give_back(std::uint64_t offset, std::uint64_t bytes);

  // The bytes go back to the system and read 0 from then on; the range stays taken.
  void empty(std::uint64_t offset, std::uint64_t bytes) const;

  // From now on ranges may be imported by other processes, so that each is checked before it is used again.
  void share() { shared_ = true; }
  bool imported_elsewhere(std::uint64_t offset, std::uint64_t bytes) const;

  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

 private:
  struct Part {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  void look_at_kept();

  int file_ = -1;
  bool shared_ = false;
  Holes free_;              // offsets
  std::vector<Part> kept_;  // given back, but imported elsewhere when last looked at
};

}  // namespace reprieve::simgpu
