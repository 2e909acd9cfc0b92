#include "memory/all_pools.hpp"

#include <algorithm>

namespace reprieve::memory {

std::int64_t AllPools::sum(Metric metric) const {
  std::int64_t total = 0;
  for (const auto& pool : allocator_.pools_) total += pool->counters.current(metric);
  return total;
}

void AllPools::deal() {
  const auto& pools = allocator_.pools_;
  for (std::size_t m = 0; m < metric_count && !pools.empty(); ++m) {
    const auto metric = static_cast<Metric>(m);
    std::int64_t& peak = allocator_.peaks_[m];
    // A sole pool's allowance is the device's peak.
    if (pools.front()->sole) peak = std::max(peak, pools.front()->counters.allowance(metric));
    const std::int64_t total = sum(metric);
    peak = std::max(peak, total);
    deal_out(metric, peak - total);
  }
  for (const auto& pool : pools) pool->sole = pools.size() == 1;

  std::int64_t segments = 0;
  for (const auto& pool : pools) segments += pool->small.segments() + pool->large.segments();
  Counter& counter = allocator_.segments_;
  (segments > counter.current ? counter.allocated : counter.freed) += std::abs(segments - counter.current);
  counter.current = segments;
  counter.peak = std::max(counter.peak, segments);
}

void AllPools::deal_out(Metric metric, std::int64_t slack) {
  const auto& pools = allocator_.pools_;
  if (pools.size() == 1) {
    Counters& counters = pools.front()->counters;
    counters.note_wish(metric);
    counters.set_allowance(metric, counters.current(metric) + slack);
    return;
  }
  // Where there is not enough for all, it is not always the same pools that go without.
  const std::size_t first = allocator_.first_dealt_++ % pools.size();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    Counters& counters = pools[(first + i) % pools.size()]->counters;
    counters.note_wish(metric);
    const std::int64_t dealt = std::min(slack, counters.wish(metric) - counters.current(metric));
    counters.set_allowance(metric, counters.current(metric) + dealt);
    slack -= dealt;
  }
  const std::int64_t share = slack / static_cast<std::int64_t>(pools.size());
  for (const auto& pool : pools) pool->counters.set_allowance(metric, pool->counters.allowance(metric) + share);
}

void AllPools::reset_peaks() {
  for (std::size_t m = 0; m < metric_count; ++m) {
    allocator_.peaks_[m] = sum(static_cast<Metric>(m));
    for (const auto& pool : allocator_.pools_) {
      pool->counters.set_allowance(static_cast<Metric>(m), pool->counters.current(static_cast<Metric>(m)));
    }
  }
  deal();
  allocator_.segments_.peak = allocator_.segments_.current;
}

}  // namespace reprieve::memory
