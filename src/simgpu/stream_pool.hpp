// A pool of device memory that is given out in stream order: segments taken from the device, cut into blocks.
// Knows nothing of the machine; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "simgpu/pool.hpp"
#include "simgpu/timeline.hpp"

namespace reprieve::simgpu {

class StreamPool {
 public:
  static constexpr std::uint64_t block_unit = 512;
  static constexpr std::uint64_t segment_unit = std::uint64_t{32} << 20;

  // The point of a stream from which on a freed block may be used: a tick of its queue's clock, and the operation that
  // is done when the stream has got there.
  struct Fence {
    const Queue* queue = nullptr;  // null: passed
    std::uint64_t tick = 0;
    std::shared_ptr<Operation> operation;
    VectorClock clock;  // what is ordered before it

    bool passed() const { return queue == nullptr || operation == nullptr || operation->done; }
  };
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Fence fence;
    std::uint64_t id = 0;  // of one in use
  };
  enum class Reuse : std::uint8_t {
    ordered,    // the queue is behind the free anyhow
    completed,  // or the free has run
    waiting,    // or will, before the queue's next work
  };

  explicit StreamPool(int device_number) : device(device_number) {}

  // The smallest free block that is large enough and may be used on the queue in this way, cut to size.
  std::optional<Block> take(std::uint64_t bytes, const Queue& queue, Reuse reuse);
  void give_back(std::uint64_t address, Fence fence);

  void add_segment(std::uint64_t address, std::uint64_t bytes);
  // Segments with nothing in use, and nothing that a stream has still to get past: forgotten here, to be freed by the
  // caller; until `keep_bytes` or less are reserved.
  std::vector<std::uint64_t> release_segments(std::uint64_t keep_bytes);

  bool holds(std::uint64_t address) const;
  // The block in use that holds the address; nothing where there is none.
  std::optional<Block> find_used(std::uint64_t address) const;
  std::uint64_t used_blocks() const { return used_.size(); }

  const int device;
  PoolStats stats;
  bool destroyed = false;

 private:
  using Free = std::map<std::uint64_t, Block>;
  Free::iterator merge(Free::iterator left, Free::iterator right);
  std::uint64_t segment_of(std::uint64_t address) const;

  std::map<std::uint64_t, std::uint64_t> segments_;  // base to bytes
  Free free_;
  struct Used {
    std::uint64_t bytes;
    std::uint64_t asked_bytes;
    std::uint64_t id;
  };
  std::map<std::uint64_t, Used> used_;
};

}  // namespace reprieve::simgpu
