#include "replay/timeline.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::replay {

Timeline::Timeline(const Trace& trace, reprieve_replay_sample* out, std::size_t room)
    : trace_(trace), out_(out), intervals_(room - 1), block_bytes_(trace.slots, 0) {}

std::uint64_t Timeline::interval_of(std::size_t event) const {
  const bool timed = trace_.duration_us != 0;
  const std::uint64_t place = timed ? trace_.times_us[event] : event;
  const std::uint64_t last = timed ? trace_.duration_us : trace_.events.size() - 1;
  // In floating point, since a product of the two may not fit: an interval's end may be off by a few microseconds.
  const double part = last == 0 ? 0 : static_cast<double>(place) / static_cast<double>(last);
  const auto interval = static_cast<std::uint64_t>(part * static_cast<double>(intervals_));
  return std::min<std::uint64_t>(interval, intervals_ - 1);
}

std::size_t Timeline::interval_end(std::size_t from) const {
  const std::uint64_t interval = interval_of(from);
  std::size_t low = from, high = trace_.events.size();  // the first is in the interval, the last is not
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (interval_of(middle) == interval ? low : high) = middle;
  }
  return high;
}

void Timeline::add(std::size_t from, std::size_t to, std::uint64_t peak_reserved) {
  if (from == to) return;
  reprieve_replay_sample& sample = out_[count_++];
  sample = {from, trace_.times_us[from], 0, peak_reserved};
  for (std::size_t i = from; i < to; ++i) {
    const Event& event = trace_.events[i];
    if (event.op == Op::allocate) {
      live_bytes_ += block_bytes_[event.slot] = event.bytes;
    } else if (event.op == Op::free || event.op == Op::free_on) {
      live_bytes_ -= std::exchange(block_bytes_[event.slot], 0);
    }
    if (live_bytes_ <= sample.requested) continue;
    sample.requested = live_bytes_;
    sample.event = i;
    sample.time_us = trace_.times_us[i];
  }
}

void Timeline::fail(std::size_t event, std::uint64_t reserved) {
  out_[count_++] = {event, trace_.times_us[event], live_bytes_, reserved};
}

}  // namespace reprieve::replay
