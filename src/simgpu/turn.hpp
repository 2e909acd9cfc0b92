// One call from outside upon the machine: holds the lock, counts the call, and makes it fail where it should.
#pragma once

#include <mutex>

#include "simgpu/machine.hpp"

namespace reprieve::simgpu {

class Machine::Turn {
 public:
  explicit Turn(Machine& machine) : machine_(machine), lock_(machine.mutex_, std::defer_lock) {
    // In a forked child the lock may be one that no thread will ever give back.
    if (machine.usable()) lock_.lock();
  }
  ~Turn() {
    if (lock_.owns_lock()) machine_.drain(lock_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False in a forked child: nothing may be looked at.
  explicit operator bool() const { return lock_.owns_lock(); }

  // To be asked first by every call of the driver's. Success, or what the call fails with. Without a kind it is neither
  // counted nor made to fail.
  Code begin();
  Code begin(Call call);

  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Machine& machine_;
  std::unique_lock<std::mutex> lock_;
};

// Whether the calling thread is inside a host function.
bool in_host_function();

}  // namespace reprieve::simgpu
