#include <algorithm>

#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"

namespace reprieve::memory {
namespace {

void subtract(Counter& counter, const Counter& base) {
  counter.allocated -= base.allocated;
  counter.freed -= base.freed;
}

Totals since(Totals totals, const Totals& base) {
  for (std::size_t m = 0; m < metric_count; ++m) subtract(totals.metrics[m], base.metrics[m]);
  subtract(totals.reserved_bytes, base.reserved_bytes);
  subtract(totals.segments, base.segments);
  return totals;
}

}  // namespace

// Since the beginning, not since the last reset.
ByKind<Totals> Allocator::totals(const AllPools& all) const {
  ByKind<Totals> out;
  for (std::size_t m = 0; m < metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    Counter& both = out.all.metrics[m];
    both = {all.sum(metric), peaks_.all[m], 0, 0};
    for (const BlockKind kind : both_kinds) {
      Counter& counter = out.of(kind).metrics[m];
      counter = {all.sum(metric, kind), peaks_.of(kind)[m], 0, 0};
      for (const auto* pools : {&pools_, &spare_pools_}) {
        for (const auto& pool : *pools) counter.allocated += pool->arena(kind).counters.risen(metric);
      }
      counter.freed = counter.allocated - counter.current;
      both.allocated += counter.allocated;
      both.freed += counter.freed;
    }
  }
  out.all.reserved_bytes = reserved_.all;
  out.all.segments = segments_.all;
  for (const BlockKind kind : both_kinds) {
    out.of(kind).reserved_bytes = reserved_.of(kind);
    out.of(kind).segments = segments_.of(kind);
  }
  return out;
}

Stats Allocator::stats() {
  const std::scoped_lock lock(mutex_);
  AllPools all(*this, nullptr);
  all.deal();
  const ByKind<Totals> now = totals(all);
  Stats out;
  static_cast<Totals&>(out) = since(now.all, accumulated_base_.all);
  for (std::size_t k = 0; k < block_kinds; ++k) out.kinds[k] = since(now.kinds[k], accumulated_base_.kinds[k]);
  out.alloc_retries = alloc_retries_.load(std::memory_order_relaxed);
  out.ooms = ooms_.load(std::memory_order_relaxed);
  out.invalid_frees = invalid_frees_.load(std::memory_order_relaxed);
  out.harvested_chunks = harvested_chunks_;
  out.harvested_bytes = harvested_bytes_;
  out.limbo_bytes = limbo_bytes_;
  out.address_space_bytes = address_space_bytes_;
  return out;
}

std::int64_t Allocator::live_blocks() {
  const std::scoped_lock lock(mutex_);
  return AllPools(*this, nullptr).sum(allocations);
}

void Allocator::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  AllPools all(*this, nullptr);
  all.deal();
  // Growth goes by the highest peak ever: whoever looks at statistics step by step changes nothing of what is measured.
  peak_before_resets_ = std::max(peak_before_resets_, peaks_.all[active_bytes]);
  all.reset_peaks();
  reserved_.each([](Counter& counter) { counter.peak = counter.current; });
}

void Allocator::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  accumulated_base_ = totals(AllPools(*this, nullptr));
}

}  // namespace reprieve::memory
