// A mutex that is given to those who wait in the order in which they came.
//
// std::mutex lets whoever runs take it again before a waiter has woken up. A thread that looks at statistics in a loop
// can then keep every other from growing, the more so where waking takes long, as in a virtual machine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace reprieve::memory {

class FairMutex {
 public:
  void lock() {
    std::unique_lock<std::mutex> guard(mutex_);
    const std::uint64_t ticket = next_++;
    turn_.wait(guard, [&] { return serving_ == ticket; });
  }

  void unlock() {
    {
      const std::scoped_lock guard(mutex_);
      ++serving_;
    }
    turn_.notify_all();
  }

  // How many hold it or wait for it.
  std::uint64_t claims() {
    const std::scoped_lock guard(mutex_);
    return next_ - serving_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace reprieve::memory
