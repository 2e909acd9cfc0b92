// What was allocated and freed, when and by whom: torch's memory history, its trace trackers, and stacks of live blocks.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprieve::torch_adapter {

class History {
 public:
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  using Annotation = c10::CachingDeviceAllocator::AnnotationEntry;
  using Context = std::shared_ptr<c10::GatheredContext>;
  using Recorder = c10::CachingDeviceAllocator::CreateContextFn;
  using When = c10::CachingDeviceAllocator::RecordContext;
  using Tracker = c10::CachingDeviceAllocator::AllocatorTraceTracker;

  // Whether entries are kept.
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  // Whether there is any use in record(): somebody keeps entries, or is told of them.
  bool listening() const { return listening_.load(std::memory_order_relaxed); }

  void set(bool enabled, Recorder recorder, size_t max_entries, When when, bool clear,
           const std::vector<std::string>& skip_actions);
  void add_tracker(Tracker tracker);

  // The stack of the caller, if contexts are recorded from this level on; calls into Python, so no lock may be held.
  Context gather(When level) const;

  void record(Entry::Action action, int device, size_t address, size_t bytes, cudaStream_t stream,
              c10::MempoolId_t pool, Context context);

  // The free of a block, and its end: at once, or, where it waits for other streams, with deferred_free_over().
  void record_free(const void* ptr, int device, size_t bytes, cudaStream_t stream, c10::MempoolId_t pool,
                   const Context& context, bool deferred);
  void deferred_free_over(const void* ptr);

  // The stack of a block's allocation is kept as long as the block lives.
  void remember(const void* ptr, Context context);
  Context context_of(const void* ptr) const;

  void annotate(int device, const std::vector<std::pair<std::string, std::string>>& metadata);
  void push_compile_context(const std::string& metadata);
  void pop_compile_context();
  void set_user_metadata(const std::string& metadata);
  std::string user_metadata() const;

  // Oldest first, a list a device; times in microseconds since the epoch.
  std::vector<std::vector<Entry>> entries(int devices) const;
  std::vector<Annotation> annotations() const;

 private:
  struct Ring {
    std::vector<Entry> entries;
    size_t next = 0;  // the oldest, once the ring is full
  };

  void update_listening();
  Entry make(Entry::Action action, int device, size_t address, size_t bytes, cudaStream_t stream, c10::MempoolId_t pool,
             Context context) const;
  void keep(Entry entry);

  std::atomic<bool> recording_{false};
  std::atomic<bool> listening_{false};
  std::atomic<Recorder> recorder_{nullptr};
  std::atomic<When> when_{When::NEVER};

  mutable std::mutex mutex_;  // taken under the library's locks: nothing is called under it but trackers
  size_t max_entries_ = 1;
  unsigned skipped_actions_ = 0;  // a bit each
  std::vector<Ring> rings_;       // by device
  std::vector<Annotation> annotations_;
  std::vector<Tracker> trackers_;
  std::unordered_map<const void*, Context> contexts_;
  std::unordered_map<const void*, Entry> deferred_;
};

}  // namespace reprieve::torch_adapter
