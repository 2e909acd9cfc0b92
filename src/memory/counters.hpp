// What a pool counts, cheap enough for every allocation: plain adds under the pool's lock.
//
// Device peaks are exact without a counter that all threads share. Each pool has an allowance for each metric, and the
// allowances of all pools never add up to more than the device's peak: as long as every pool stays within its own, the
// device cannot be at a new peak. A pool that would go beyond takes the slow way, with every pool locked, where the sum
// is looked at and the allowances are dealt anew: first to each pool what it was seen to need before, so that pools in
// a steady state keep to the quick way. A device's only pool needs none of this: its peak is the device's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprieve::memory {

enum Metric : std::size_t {
  requested_bytes,
  allocated_bytes,
  active_bytes,
  allocations,
  active_blocks,
  inactive_split_bytes,
  inactive_split_blocks,
  metric_count,
};

class Counters {
 public:
  std::int64_t current(Metric m) const { return current_[m].load(std::memory_order_relaxed); }
  // Under the pool's lock only. What is active began as allocated.
  std::int64_t risen(Metric m) const {
    return risen_[m == active_bytes ? allocated_bytes : m == active_blocks ? allocations : m];
  }
  std::int64_t allowance(Metric m) const { return allowance_[m]; }
  void set_allowance(Metric m, std::int64_t value) { allowance_[m] = value; }
  // The most that the pool itself was seen to need.
  std::int64_t wish(Metric m) const { return wish_[m]; }
  void note_wish(Metric m) {
    if (current(m) > wish_[m]) wish_[m] = current(m);
  }

  void rise(Metric m, std::uint64_t by) {
    add(m, static_cast<std::int64_t>(by));
    risen_[m] += static_cast<std::int64_t>(by);
  }
  void rise_uncounted(Metric m, std::uint64_t by) { add(m, static_cast<std::int64_t>(by)); }
  void fall(Metric m, std::uint64_t by) { add(m, -static_cast<std::int64_t>(by)); }

  bool would_exceed(Metric m, std::uint64_t by) const {
    return current(m) + static_cast<std::int64_t>(by) > allowance_[m];
  }
  bool exceeds(Metric m) const { return current(m) > allowance_[m]; }

  void raise_allowance_to_current(Metric m) {
    if (exceeds(m)) allowance_[m] = current(m);
  }

 private:
  // Written only under the pool's lock; atomic because growth looks at other pools' without it.
  void add(Metric m, std::int64_t by) { current_[m].store(current(m) + by, std::memory_order_relaxed); }

  std::array<std::atomic<std::int64_t>, metric_count> current_{};
  std::array<std::int64_t, metric_count> allowance_{};
  std::array<std::int64_t, metric_count> wish_{};
  std::array<std::int64_t, metric_count> risen_{};
};

}  // namespace reprieve::memory
