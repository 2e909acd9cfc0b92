// The uses that queued work made, or will make, of the bytes of one physical allocation: enough to tell whether a new
// use is ordered after all earlier ones that it conflicts with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simgpu/vector_clock.hpp"
#include "simgpu/work.hpp"

namespace reprieve::simgpu {

// One piece of queued work, as fault reports name it.
struct WorkId {
  std::uint32_t queue = 0;
  std::uint64_t index = 0;  // the n-th use of memory on that queue, from 1
  std::string name;         // "fill"
  KernelId kernel{};        // where set, instead of the name
  std::uintptr_t stream = 0;
  int device = 0;
};
std::string describe(const WorkId& work);  // "fill on stream 0x1002 of device 0"

struct Use {
  std::shared_ptr<const WorkId> work;
  std::uint64_t address = 0;  // of the first byte used, as the work saw it

  explicit operator bool() const { return work != nullptr; }
};

class UseHistory {
 public:
  // Adds a use of the bytes [begin, end). Returns an earlier use that conflicts (at least one of the two writes) and
  // that `clock`, which must cover the new use itself, does not cover; an empty Use where there is none.
  // `host`: what the host knows to be complete. It is part of every later clock, so those uses are forgotten.
  Use add(std::uint64_t begin, std::uint64_t end, bool write, const Use& use, const VectorClock& clock,
          const VectorClock& host);

  std::size_t size() const { return spans_.size(); }

 private:
  struct Span {
    std::uint64_t end = 0;
    Use write;
    std::vector<Use> reads;  // since the write, at most one (the last) of each queue
  };

  void split_at(std::uint64_t offset);
  void forget(const VectorClock& host);

  std::map<std::uint64_t, Span> spans_;  // by first byte; they do not overlap
  std::size_t forget_at_ = 64;
};

}  // namespace reprieve::simgpu
