// The simulated card under a model: how much memory it has and has given out, and what each call of the driver costs.
//
// It has no memory behind it: a model keeps blocks, and nobody writes to them. Addresses are all different, and fall:
// the driver puts each large allocation below the last one (seen on an H200), and of two free blocks of one size, the
// one at the lower address is taken.
#pragma once

#include <array>
#include <cstdint>

#include "device/device.hpp"

namespace reprieve::replay::models {

class Card {
 public:
  explicit Card(std::uint64_t capacity) : capacity_(capacity) {}

  // cudaMalloc and cudaFree. 0: the card has no room for it.
  std::uint64_t allocate(std::uint64_t bytes);
  void free(std::uint64_t bytes);

  // Address space, in which chunks of one size are mapped one by one.
  std::uint64_t reserve(std::uint64_t bytes);
  void unreserve();
  bool map_chunks(std::uint64_t count, std::uint64_t chunk);  // all or none: false where the card has no room
  void unmap_chunks(std::uint64_t count, std::uint64_t chunk);

  void event_recorded_and_queried();

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }

  struct Costs {
    std::uint64_t malloc_calls = 0, free_calls = 0;
    std::array<std::uint64_t, device::call_kinds> driver_calls{};
    std::uint64_t ns = 0;
  };
  const Costs& costs() const { return costs_; }

 private:
  void charge(device::Call call, std::uint64_t times, std::uint64_t ns_each);

  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
  std::uint64_t next_address_ = 1ULL << 62;
  Costs costs_;
};

}  // namespace reprieve::replay::models
