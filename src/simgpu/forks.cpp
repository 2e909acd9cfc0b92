#include "simgpu/forks.hpp"

#include <pthread.h>

#include <atomic>

namespace reprieve::simgpu {
namespace {

std::atomic<std::uint64_t> forks{0};

}  // namespace

std::uint64_t forks_of_process() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace reprieve::simgpu
