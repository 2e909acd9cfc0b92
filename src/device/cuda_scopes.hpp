// What a call changes in the calling thread's state of the driver, and puts back when it ends.
#pragma once

#include "device/driver_api.hpp"

namespace reprieve::device {

// Makes the context current for a scope, unless it is already: then the thread's stack of contexts is not touched.
// result() tells whether it could.
class CurrentContext {
 public:
  CurrentContext(const driver::Api& api, driver::Context wanted) : api_(api) {
    driver::Context current = nullptr;
    result_ = api.context_get_current(&current);
    if (result_ != driver::success || current == wanted) return;
    result_ = api.context_push_current(wanted);
    pushed_ = result_ == driver::success;
  }
  ~CurrentContext() {
    driver::Context popped = nullptr;
    if (pushed_) api_.context_pop_current(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  driver::Result result() const { return result_; }

 private:
  const driver::Api& api_;
  driver::Result result_;
  bool pushed_ = false;
};

// Lets the thread make calls that a capture in global or thread-local mode would forbid, and be spoilt by, though they
// have nothing to do with it: queries of events outside it (table 'What is legal while a stream captures' in
// docs/driver.md).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const driver::Api& api) : api_(api) {
    exchanged_ = api.exchange_capture_mode(&mode_) == driver::success;
  }
  ~RelaxedCapture() {
    if (exchanged_) api_.exchange_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const driver::Api& api_;
  int mode_ = driver::capture_mode_relaxed;  // after the exchange: the thread's own
  bool exchanged_;
};

}  // namespace reprieve::device
