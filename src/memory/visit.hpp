// What lies where: the segments of a device and the blocks in them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/arena.hpp"

namespace reprieve::memory {

struct SegmentView {
  Address address = 0;
  std::uint64_t bytes = 0;
  StreamRef stream{};
  std::uint64_t pool = 0;  // 0: the stream's default pool
  Arena::Kind kind{};
  std::size_t blocks = 0;  // free ones included
};

struct BlockView {
  Address address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t requested = 0;  // 0 where it is free
  RangeState state{};
  std::size_t other_streams = 0;  // that a live block was said to be used on: its free will wait for them
};

// Where one live block lies.
struct BlockPlace {
  BlockView block;
  SegmentView segment;
  int device = 0;
};

// Called under every lock of the device: it may not call the allocator, nor wait for a thread that does.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void segment(const SegmentView& segment) = 0;
  virtual void block(const BlockView& block) = 0;  // those of the latest segment, in the order of addresses
};

}  // namespace reprieve::memory
