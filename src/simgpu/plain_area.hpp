// Addresses for plain memory (cudaMalloc): large windows in which an address and its place in the backing's file go
// together, so that neighbouring allocations are one mapping of the process, and a program with many allocations does
// not run out of mappings. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simgpu/backing.hpp"
#include "simgpu/holes.hpp"

namespace reprieve::simgpu {

class PlainArea {
 public:
  struct Place {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;  // in the backing
  };

  explicit PlainArea(Backing& backing) : backing_(backing) {}
  ~PlainArea();
  PlainArea(const PlainArea&) = delete;
  PlainArea& operator=(const PlainArea&) = delete;

  // Makes `bytes` (a multiple of 2 MiB) accessible at the lowest free address. False where the system refuses.
  bool take(std::uint64_t bytes, Place& out);
  // Makes them inaccessible, and gives the bytes back to the system unless another process has them imported.
  void give_back(std::uint64_t address, std::uint64_t bytes);

  bool holds(std::uint64_t address) const;
  void abandon() { windows_.clear(); }  // leaves the addresses as they are, for ever

 private:
  struct Window {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // in the backing, of `base`
    Holes holes;               // addresses
  };
  struct Kept {
    Window* window;
    std::uint64_t address;
    std::uint64_t bytes;
  };

  bool take_from(Window& window, std::uint64_t bytes, Place& out);
  bool add_window(std::uint64_t bytes);
  Window* find(std::uint64_t address) const;
  void look_at_kept();

  Backing& backing_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::vector<Kept> kept_;  // given back, but imported elsewhere when last looked at
};

}  // namespace reprieve::simgpu
