// A run in as many intervals as a picture of it has room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/replay.h"
#include "replay/trace.hpp"

namespace reprieve::replay {

class Timeline {
 public:
  // `room` is 2 or more. Intervals have the same length in recorded time, or in events where no time passed; what would
  // be empty is left out. One place is kept for a failure.
  Timeline(const Trace& trace, reprieve_replay_sample* out, std::size_t room);

  // Where the interval that begins at that event ends: at the event that is not in it any more.
  std::size_t interval_end(std::size_t from) const;

  // The events [from, to) were played, and at most so many bytes reserved meanwhile. In order, nothing left out.
  void add(std::size_t from, std::size_t to, std::uint64_t peak_reserved);

  // Memory ran out at that event, with so many bytes reserved.
  void fail(std::size_t event, std::uint64_t reserved);

  std::size_t count() const { return count_; }

 private:
  std::uint64_t interval_of(std::size_t event) const;

  const Trace& trace_;
  reprieve_replay_sample* out_;
  std::size_t intervals_;
  std::size_t count_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::vector<std::uint64_t> block_bytes_;  // by Event::slot
};

}  // namespace reprieve::replay
