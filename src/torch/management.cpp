// Starting, limits, statistics, and giving memory back.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;

reprieve_stats stats_of(DeviceIndex device) {
  reprieve_stats stats{};
  stats.size = sizeof stats;
  check(reprieve_get_stats(device, &stats), "statistics");
  return stats;
}

void set(Stat& out, const reprieve_counter& counter) {
  out.current = counter.current;
  out.peak = counter.peak;
  out.allocated = counter.allocated;
  out.freed = counter.freed;
}

// The same counter of all blocks, of small ones and of large ones.
void set(StatArray& out, const reprieve_counter& all, const reprieve_counter& small, const reprieve_counter& large) {
  set(out[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)], all);
  set(out[static_cast<size_t>(c10::CachingAllocator::StatType::SMALL_POOL)], small);
  set(out[static_cast<size_t>(c10::CachingAllocator::StatType::LARGE_POOL)], large);
}

size_t device_total(DeviceIndex device) {
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0;
  size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return total;
}

}  // namespace

void Adapter::init(int device_count) {
  if (initialized()) return;
  check(reprieve_init(), "start");
  const double fraction = compat::cca::CUDAAllocatorConfig::per_process_memory_fraction();
  for (DeviceIndex device = 0; fraction < 1.0 && device < device_count; ++device) setMemoryFraction(fraction, device);
  one_device_.store(device_count == 1, std::memory_order_relaxed);
  initialized_.store(true, std::memory_order_release);
}

void Adapter::check_device(DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < c10::cuda::device_count(), "Invalid device argument ", static_cast<int>(device),
              ": did you call init?");
}

double Adapter::getMemoryFraction(DeviceIndex device) {
  check_device(device);
  return fractions_.at(static_cast<size_t>(device)).load(std::memory_order_relaxed);
}

void Adapter::setMemoryFraction(double fraction, DeviceIndex device) {
  TORCH_CHECK(fraction >= 0 && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
  const auto bytes = static_cast<size_t>(fraction * static_cast<double>(device_total(device)));
  // A fraction of 1 is no limit: the headroom is kept then.
  check(reprieve_set_limit(device, fraction == 1 ? 0 : std::max<size_t>(bytes, 1)), "setting the limit");
  fractions_.at(static_cast<size_t>(device)).store(fraction, std::memory_order_relaxed);
}

void Adapter::emptyCache(MempoolId_t) { check(reprieve_empty_cache(-1), "empty_cache"); }

DeviceStats Adapter::getDeviceStats(DeviceIndex device) {
  check_device(device);
  const reprieve_stats stats = stats_of(device);
  DeviceStats out;
  set(out.allocation, stats.allocations, stats.small.allocations, stats.large.allocations);
  set(out.segment, stats.segments, stats.small.segments, stats.large.segments);
  set(out.active, stats.active_blocks, stats.small.active_blocks, stats.large.active_blocks);
  set(out.inactive_split, stats.inactive_split_blocks, stats.small.inactive_split_blocks,
      stats.large.inactive_split_blocks);
  set(out.allocated_bytes, stats.allocated_bytes, stats.small.allocated_bytes, stats.large.allocated_bytes);
  set(out.reserved_bytes, stats.reserved_bytes, stats.small.reserved_bytes, stats.large.reserved_bytes);
  set(out.active_bytes, stats.active_bytes, stats.small.active_bytes, stats.large.active_bytes);
  set(out.inactive_split_bytes, stats.inactive_split_bytes, stats.small.inactive_split_bytes,
      stats.large.inactive_split_bytes);
  set(out.requested_bytes, stats.requested_bytes, stats.small.requested_bytes, stats.large.requested_bytes);
  out.num_alloc_retries = stats.alloc_retries;
  out.num_ooms = ooms_.at(static_cast<size_t>(device)).load(std::memory_order_relaxed);
  for (int kind = 0; kind < REPRIEVE_CALL_KINDS; ++kind) {
    const std::string_view call = reprieve_call_name(kind);
    if (call == "create") out.num_device_alloc = stats.driver_calls[kind];
    if (call == "release") out.num_device_free = stats.driver_calls[kind];
  }
  out.max_split_size = static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return out;
}

void Adapter::resetAccumulatedStats(DeviceIndex device) {
  check_device(device);
  ooms_.at(static_cast<size_t>(device)).store(0, std::memory_order_relaxed);
  check(reprieve_reset_accumulated_stats(device), "resetting statistics");
}

void Adapter::resetPeakStats(DeviceIndex device) {
  check_device(device);
  check(reprieve_reset_peak_stats(device), "resetting peaks");
}

void Adapter::attachOutOfMemoryObserver(compat::cca::OutOfMemoryObserver observer) {
  observers_.add(std::move(observer));
}

// Told of refusals that torch's own allocator makes on purpose (throw_on_cudamalloc_oom); ours makes none.
void Adapter::attachOomRejectionObserver(std::function<void(int64_t, size_t, size_t, size_t)>) {}

void Adapter::recordHistory(bool enabled, compat::cca::CreateContextFn recorder, size_t max_entries,
                            compat::cca::RecordContext when, bool clear, const std::vector<std::string>& skip_actions) {
  history_.set(enabled, recorder, max_entries, when, clear, skip_actions);
  watch();
}

void Adapter::attachAllocatorTraceTracker(compat::cca::AllocatorTraceTracker tracker) {
  history_.add_tracker(std::move(tracker));
  watch();
}

void Adapter::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) {
  history_.annotate(current_device(), metadata);
}

}  // namespace reprieve::torch_adapter
