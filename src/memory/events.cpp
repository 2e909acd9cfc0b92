#include "memory/events.hpp"

namespace reprieve::memory {

Mark::~Mark() {
  if (event_ != device::Event{}) cache_.give(event_);
}

bool Mark::passed(Status& status) {
  if (passed_.load(std::memory_order_relaxed)) return true;
  bool done = false;
  status = cache_.device_.event_query(event_, done);
  if (!status.ok() || !done) return false;
  passed_.store(true, std::memory_order_relaxed);
  return true;
}

bool Mark::wait(std::chrono::nanoseconds timeout, Status& status) {
  if (passed_.load(std::memory_order_relaxed)) return true;
  bool done = false;
  status = cache_.device_.event_wait(event_, timeout, done);
  if (!status.ok() || !done) return false;
  passed_.store(true, std::memory_order_relaxed);
  return true;
}

EventCache::~EventCache() {
  for (const device::Event event : idle_) {
    [[maybe_unused]] const Status status = device_.event_destroy(event);
  }
}

Status EventCache::mark(device::Stream stream, MarkRef& out) {
  device::Event event{};
  if (const Status status = take(event); !status.ok()) return status;
  auto mark = std::make_shared<Mark>(*this, event);
  if (const Status status = device_.event_record(event, stream); !status.ok()) return status;
  out = std::move(mark);
  return success();
}

Status EventCache::mark_all(MarkRef& out) {
  if (!device_.properties().context_events) {
    return failure(Errc::not_supported, "events of a whole context need a driver for CUDA 12.5 or newer");
  }
  device::Event event{};
  if (const Status status = take(event); !status.ok()) return status;
  auto mark = std::make_shared<Mark>(*this, event);
  if (const Status status = device_.event_record_all(event); !status.ok()) return status;
  out = std::move(mark);
  return success();
}

Status EventCache::take(device::Event& out) {
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      out = idle_.back();
      idle_.pop_back();
      return success();
    }
  }
  return device_.event_create(out);
}

void EventCache::give(device::Event event) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(event);
}

}  // namespace reprieve::memory
