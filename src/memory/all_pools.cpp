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
  if (!pools.empty()) {
    const auto count = static_cast<std::int64_t>(pools.size());
    for (std::size_t m = 0; m < metric_count; ++m) {
      const auto metric = static_cast<Metric>(m);
      // A sole pool's allowance is the device's peak.
      if (pools.front()->sole) {
        allocator_.peaks_[m] = std::max(allocator_.peaks_[m], pools.front()->counters.allowance(metric));
      }
      const std::int64_t total = sum(metric);
      std::int64_t& peak = allocator_.peaks_[m];
      peak = std::max(peak, total);
      const std::int64_t share = (peak - total) / count;
      for (const auto& pool : pools) pool->counters.set_allowance(metric, pool->counters.current(metric) + share);
      if (count == 1) pools.front()->counters.set_allowance(metric, peak);
    }
    for (const auto& pool : pools) pool->sole = count == 1;
  }

  std::int64_t segments = 0;
  for (const auto& pool : pools) segments += pool->small.segments() + pool->large.segments();
  Counter& counter = allocator_.segments_;
  (segments > counter.current ? counter.allocated : counter.freed) += std::abs(segments - counter.current);
  counter.current = segments;
  counter.peak = std::max(counter.peak, segments);
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
