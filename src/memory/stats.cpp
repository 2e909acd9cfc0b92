#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"

namespace reprieve::memory {
namespace {

void subtract(Counter& counter, const Counter& base) {
  counter.allocated -= base.allocated;
  counter.freed -= base.freed;
}

}  // namespace

// Since the beginning, not since the last reset.
Stats Allocator::totals(const AllPools& all) const {
  Stats out;
  for (std::size_t m = 0; m < metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    Counter& counter = out.metrics[m];
    counter.current = all.sum(metric);
    counter.peak = peaks_[m];
    for (const auto* pools : {&pools_, &spare_pools_}) {
      for (const auto& pool : *pools) counter.allocated += pool->counters.risen(metric);
    }
    counter.freed = counter.allocated - counter.current;
  }
  out.reserved_bytes = reserved_;
  out.segments = segments_;
  return out;
}

Stats Allocator::stats() {
  const std::scoped_lock lock(mutex_);
  AllPools all(*this, nullptr);
  all.deal();
  Stats out = totals(all);
  for (std::size_t m = 0; m < metric_count; ++m) subtract(out.metrics[m], accumulated_base_.metrics[m]);
  subtract(out.reserved_bytes, accumulated_base_.reserved_bytes);
  subtract(out.segments, accumulated_base_.segments);
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
  AllPools(*this, nullptr).reset_peaks();
  reserved_.peak = reserved_.current;
}

void Allocator::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  accumulated_base_ = totals(AllPools(*this, nullptr));
}

}  // namespace reprieve::memory
