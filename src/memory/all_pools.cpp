#include "memory/all_pools.hpp"

#include <algorithm>

namespace reprieve::memory {

std::int64_t AllPools::sum(Metric metric) const {
  std::int64_t total = 0;
  for (const auto& pool : allocator_.pools_) total += pool->current(metric);
  return total;
}

std::int64_t AllPools::sum(Metric metric, BlockKind kind) const {
  std::int64_t total = 0;
  for (const auto& pool : allocator_.pools_) total += pool->arena(kind).counters.current(metric);
  return total;
}

void AllPools::deal() {
  const auto& pools = allocator_.pools_;
  for (std::size_t m = 0; m < metric_count && !pools.empty(); ++m) {
    const auto metric = static_cast<Metric>(m);
    // A sole pool's allowances are the device's peaks.
    const bool sole = pools.front()->sole;
    std::int64_t& peak = allocator_.peaks_.all[m];
    const std::int64_t total = sum(metric);
    peak = std::max({peak, total, sole ? pools.front()->allowances[m].most : 0});
    deal_out(
        peak - total, [=](Pool& pool) { return pool.current(metric); },
        [=](Pool& pool) -> Allowance& { return pool.allowances[m]; });
    for (const BlockKind kind : both_kinds) {
      const auto counters = [=](Pool& pool) -> Counters& { return pool.arena(kind).counters; };
      std::int64_t& kind_peak = allocator_.peaks_.of(kind)[m];
      const std::int64_t kind_total = sum(metric, kind);
      kind_peak = std::max({kind_peak, kind_total, sole ? counters(*pools.front()).allowances[m].most : 0});
      deal_out(
          kind_peak - kind_total, [=](Pool& pool) { return counters(pool).current(metric); },
          [=](Pool& pool) -> Allowance& { return counters(pool).allowances[m]; });
    }
  }
  for (const auto& pool : pools) {
    pool->divide();
    pool->sole = pools.size() == 1;
  }
  count_segments();
}

// Deals `slack` beyond what there is now to the allowances that allowance_of(Pool&) names.
template <typename CurrentOf, typename AllowanceOf>
void AllPools::deal_out(std::int64_t slack, CurrentOf&& current_of, AllowanceOf&& allowance_of) {
  const auto& pools = allocator_.pools_;
  // Where there is not enough for all, it is not always the same pools that go without.
  const std::size_t first = allocator_.first_dealt_++ % pools.size();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    Pool& pool = *pools[(first + i) % pools.size()];
    const std::int64_t current = current_of(pool);
    Allowance& allowance = allowance_of(pool);
    allowance.note(current);
    const std::int64_t dealt = std::min(slack, allowance.wish - current);
    allowance.most = current + dealt;
    slack -= dealt;
  }
  const std::int64_t share = slack / static_cast<std::int64_t>(pools.size());
  for (const auto& pool : pools) allowance_of(*pool).most += share;
}

void AllPools::count_segments() {
  const auto count = [](Counter& counter, std::int64_t now) {
    (now > counter.current ? counter.allocated : counter.freed) += std::abs(now - counter.current);
    counter.current = now;
    counter.peak = std::max(counter.peak, now);
  };
  std::int64_t all = 0;
  for (const BlockKind kind : both_kinds) {
    std::int64_t segments = 0;
    for (const auto& pool : allocator_.pools_) segments += pool->arena(kind).segments();
    count(allocator_.segments_.of(kind), segments);
    all += segments;
  }
  count(allocator_.segments_.all, all);
}

void AllPools::reset_peaks() {
  for (std::size_t m = 0; m < metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    allocator_.peaks_.all[m] = sum(metric);
    for (const BlockKind kind : both_kinds) allocator_.peaks_.of(kind)[m] = sum(metric, kind);
    for (const auto& pool : allocator_.pools_) {
      pool->allowances[m].most = pool->current(metric);
      for (const BlockKind kind : both_kinds) {
        Counters& counters = pool->arena(kind).counters;
        counters.allowances[m].most = counters.current(metric);
      }
    }
  }
  deal();
  allocator_.segments_.each([](Counter& counter) { counter.peak = counter.current; });
}

}  // namespace reprieve::memory
