// The allocator's mutex under threads.
#include "memory/fair_mutex.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace reprieve::memory {
namespace {

void wait_for_claims(FairMutex& mutex, std::uint64_t count) {
  while (mutex.claims() < count) std::this_thread::yield();
}

TEST(FairMutex, OneAtATime) {
  constexpr int threads = 8;
  constexpr int rounds = 500;
  FairMutex mutex;
  int counter = 0;  // plain: for the thread sanitizer
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        const std::scoped_lock lock(mutex);
        ++counter;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(counter, threads * rounds);
}

// A thread that takes it again at once comes after those who were waiting.
TEST(FairMutex, InTheOrderOfComing) {
  FairMutex mutex;
  std::vector<int> order;
  mutex.lock();
  std::vector<std::thread> waiting;
  for (int i = 1; i <= 4; ++i) {
    waiting.emplace_back([&, i] {
      const std::scoped_lock lock(mutex);
      order.push_back(i);
    });
    wait_for_claims(mutex, static_cast<std::uint64_t>(i) + 1);
  }
  mutex.unlock();
  mutex.lock();
  order.push_back(5);
  mutex.unlock();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace reprieve::memory
