// Events that say when queued work has passed a point, shared by whatever hangs on it, reused when nothing does.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.hpp"

namespace reprieve::memory {

class EventCache;

// A recorded event. Returns to its cache when the last reference is dropped.
class Mark {
 public:
  Mark(EventCache& cache, device::Event event) : cache_(cache), event_(event) {}
  // Marks nothing: it has passed from the beginning.
  explicit Mark(EventCache& cache) : cache_(cache), passed_(true) {}
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  // Whether the marked work has ended. A failing query counts as not ended; the error is in `status`.
  bool passed(Status& status);
  // Blocks up to `timeout`.
  bool wait(std::chrono::nanoseconds timeout, Status& status);

 private:
  EventCache& cache_;
  device::Event event_{};
  std::atomic<bool> passed_{false};
};
using MarkRef = std::shared_ptr<Mark>;

// Thread-safe. Must outlive its marks.
class EventCache {
 public:
  explicit EventCache(device::Device& device) : device_(device) {}
  ~EventCache();

  // Marks the work queued on the stream by now. Precondition: the stream is not capturing.
  Status mark(device::Stream stream, MarkRef& out);
  MarkRef passed_mark() { return std::make_shared<Mark>(*this); }
  // Marks the work queued on every stream by now; not_supported on drivers before CUDA 12.5.
  Status mark_all(MarkRef& out);

 private:
  friend class Mark;

  Status take(device::Event& out);
  void give(device::Event event);

  device::Device& device_;
  std::mutex mutex_;
  std::vector<device::Event> idle_;
};

}  // namespace reprieve::memory
