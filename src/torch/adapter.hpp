// torch's CUDA allocator over the library: a complete c10::cuda::CUDACachingAllocator::CUDAAllocator.
//
// - Every entry may be called from any thread. No lock of ours is held while torch's or the user's code runs, except
//   where torch's interface says that trace trackers run under one.
// - Lock order: Python's GIL, then ours. Where a thread waits for the GPU it lets go of the GIL (gil.hpp).
// - Out of memory is c10::OutOfMemoryError with the beginning of torch's text; any other CUDA error is thrown as itself.
// - A block's DataPtr has the data pointer as its context and raw_deleter() as its deleter: torch compares both.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprieve/reprieve.h"
#include "torch/compat.hpp"
#include "torch/history.hpp"
#include "torch/mempools.hpp"
#include "torch/oom.hpp"

namespace reprieve::torch_adapter {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::cuda::CUDAStream;

class Adapter final : public compat::cca::CUDAAllocator {
 public:
  // The process's one; made at its first use, never destroyed: blocks outlive the interpreter.
  static Adapter& instance();

  // ---- c10::Allocator ----
  DataPtr allocate(size_t bytes) override;
  bool is_simple_data_ptr(const DataPtr& data) const override { return data.get() == data.get_context(); }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  // ---- c10::DeviceAllocator ----
  bool initialized() override { return initialized_.load(std::memory_order_acquire); }
  void emptyCache(MempoolId_t pool = {0, 0}) override;
  void recordStream(const DataPtr& data, CUDAStream stream) override;
  using CUDAAllocator::recordStream;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;

  // ---- CUDAAllocator ----
  void* raw_alloc(size_t bytes) override;
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  // Unlike the deleter of blocks, throws for what is none.
  void raw_delete(void* ptr) override;
  void init(int device_count) override;
  double getMemoryFraction(DeviceIndex device) override;
  void setMemoryFraction(double fraction, DeviceIndex device) override;
  std::vector<compat::cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override;
  void enable(bool value) override { enabled_.store(value, std::memory_order_relaxed); }
  bool isEnabled() const override { return enabled_.load(std::memory_order_relaxed); }
  void cacheInfo(DeviceIndex device, size_t* largest_block) override;
  void* getBaseAllocation(void* ptr, size_t* bytes) override;
  compat::cca::SnapshotInfo snapshot(MempoolId_t pool = {0, 0}, bool include_traces = true) override;

  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override;
  void releasePool(DeviceIndex device, MempoolId_t pool) override;
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override;
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use_on_oom) override;
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override;
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<compat::cca::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override;
  compat::cca::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                      std::shared_ptr<compat::cca::AllocatorState> state) override;

  compat::cca::ShareableHandle shareIpcHandle(void* ptr) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

  bool isHistoryEnabled() override { return history_.recording(); }
  void recordHistory(bool enabled, compat::cca::CreateContextFn recorder, size_t max_entries,
                     compat::cca::RecordContext when, bool clear,
                     const std::vector<std::string>& skip_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override;
  void pushCompileContext(std::string& metadata) override { history_.push_compile_context(metadata); }
  void popCompileContext() override { history_.pop_compile_context(); }
  void setUserMetadata(const std::string& metadata) override { history_.set_user_metadata(metadata); }
  std::string getUserMetadata() override { return history_.user_metadata(); }
  void attachOutOfMemoryObserver(compat::cca::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(compat::cca::AllocatorTraceTracker tracker) override;

  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream,
                          bool p2p_enabled) override;
  std::string name() override { return "reprieve"; }

  // ---- newer versions' (compat.hpp): overriding where the base has them ----
  virtual void attachOomRejectionObserver(std::function<void(int64_t, size_t, size_t, size_t)> observer);
  virtual std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* ptr) {
    return history_.context_of(ptr);
  }
  virtual void markCaptureBegin(DeviceIndex device);
  virtual void markCaptureEnd(DeviceIndex device);
  virtual bool supportsUserMetadata() { return true; }

 private:
  Adapter();

  static void delete_block(void* ptr);
  // Throws for an index that no device has.
  static void check_device(DeviceIndex device);
  DeviceIndex current_device() const;

  // A block for `stream` of `device`; throws where there is none.
  void* take(DeviceIndex device, cudaStream_t stream, size_t bytes);
  [[gnu::noinline, gnu::cold]] void* take_watched(DeviceIndex device, cudaStream_t stream, size_t bytes);
  [[gnu::noinline, gnu::cold]] void* take_failed(reprieve_status status, DeviceIndex device, cudaStream_t stream,
                                                 size_t bytes);
  [[gnu::noinline, gnu::cold]] static void give_watched(void* ptr);
  static void report_to_profiler(void* ptr, int64_t bytes, DeviceIndex device);
  // Sets `watched_`: whether any allocation needs more than the library.
  void watch();

  static void collect(void* user, int device);
  static void segment(void* user, int device, int backed, void* address, size_t bytes, reprieve_stream stream,
                      reprieve_pool pool);

  std::atomic<bool> initialized_{false};
  std::atomic<bool> enabled_{true};
  std::atomic<bool> one_device_{false};  // there is no other: which one is current need not be asked (50 to 80 ns)
  std::atomic<bool> watched_{false};
  Mempools pools_;
  History history_;
  OomObservers observers_;
  std::vector<std::atomic<double>> fractions_;
  // Errors thrown, by device. The library counts each of its refusals, of which a pool for emergencies may make none.
  std::vector<std::atomic<int64_t>> ooms_;
};

// Throws what a failed call of the library stands for; nothing for REPRIEVE_OK. Not for allocations (oom.hpp).
void check(reprieve_status status, const char* what);

}  // namespace reprieve::torch_adapter
