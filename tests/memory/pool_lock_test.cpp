// The pool's lock under threads.
#include "memory/pool_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace reprieve::memory {
namespace {

TEST(PoolLock, OneAtATime) {
  constexpr int threads = 8;
  constexpr int rounds = 5'000;
  PoolLock lock;
  std::atomic<int> holders{0};
  std::uint64_t counter = 0;  // plain: for the thread sanitizer
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        const std::scoped_lock held(lock);
        EXPECT_EQ(++holders, 1);
        if (round % 16 == 0) std::this_thread::yield();  // lets the others meet a lock that is held
        ++counter;
        --holders;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(counter, std::uint64_t{threads} * rounds);
}

TEST(PoolLock, TryLockTakesOnlyWhatIsFree) {
  PoolLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(PoolLock, WaitersThatParkComeBack) {
  PoolLock lock;
  std::atomic<int> through{0};
  std::vector<std::thread> running;
  {
    const std::scoped_lock held(lock);
    for (int i = 0; i < 4; ++i) {
      running.emplace_back([&] {
        const std::scoped_lock waited(lock);
        ++through;
      });
    }
    // Held for longer than the waiters spin, whatever the machine's speed.
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    EXPECT_EQ(through, 0);
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(through, 4);
}

}  // namespace
}  // namespace reprieve::memory
