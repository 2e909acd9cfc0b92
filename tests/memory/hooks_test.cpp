// What the allocator asks of the layers above, and when.
#include <map>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class HooksTest : public MemoryTest {
 protected:
  HooksTest() {
    hooks.user = this;
    hooks.collect = [](void* user, int device) {
      EXPECT_EQ(device, 0);
      static_cast<HooksTest*>(user)->on_collect();
    };
    hooks.segment = [](void* user, int, bool backed, Address at, std::uint64_t bytes, Stream, std::uint64_t) {
      auto& known = static_cast<HooksTest*>(user)->homes;
      if (backed) {
        EXPECT_TRUE(known.emplace(at, bytes).second) << "backed twice";
      } else {
        const auto found = known.find(at);
        ASSERT_NE(found, known.end()) << "never backed";
        EXPECT_EQ(found->second, bytes);
        known.erase(found);
      }
    };
    hooks.deferred_free = [](void* user, int, Address at) { static_cast<HooksTest*>(user)->deferred.push_back(at); };
    hooks.wait_begin = [](void* user) -> void* {
      ++static_cast<HooksTest*>(user)->waits;
      return user;
    };
    hooks.wait_end = [](void* user, void* token) {
      EXPECT_EQ(token, user);
      ++static_cast<HooksTest*>(user)->waits_over;
    };
    allocator->set_hooks(&hooks);
  }
  ~HooksTest() override { EXPECT_EQ(waits, waits_over); }

  virtual void on_collect() {
    ++collects;
    if (hoard != nullptr) free(std::exchange(hoard, nullptr));
    if (greedy) free(alloc(s, 64 * MiB));
  }
  std::uint64_t homes_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& home : homes) bytes += home.second;
    return bytes;
  }

  Hooks hooks;
  std::map<Address, std::uint64_t> homes;
  std::vector<Address> deferred;
  int collects = 0;
  int waits = 0;
  int waits_over = 0;
  bool greedy = false;
  void* hoard = nullptr;
  Stream s = stream();
  Stream t = stream();
};

TEST_F(HooksTest, OthersCollectOnAMissAndNotOnAHit) {
  hoard = alloc(s, 16 * MiB);
  EXPECT_EQ(collects, 1);
  const std::uint64_t before = reserved();
  void* const block = alloc(s, 16 * MiB);  // what the hoard gives up is enough
  EXPECT_EQ(collects, 2);
  EXPECT_EQ(reserved(), before);
  free(block);
  free(alloc(s, 16 * MiB));
  EXPECT_EQ(collects, 2);
}

TEST_F(HooksTest, WhatCollectingAllocatesDoesNotCollectAgain) {
  greedy = true;
  free(alloc(s, 16 * MiB));
  EXPECT_EQ(collects, 1);
}

TEST_F(HooksTest, SegmentsAreToldAsTheyComeAndGo) {
  std::vector<void*> blocks = alloc_many(s, 4, 16 * MiB);
  EXPECT_EQ(homes_bytes(), reserved());
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB);
  EXPECT_GT(allocator->stats().harvested_bytes, 0);
  EXPECT_EQ(homes_bytes(), reserved());
  for (void* block : {blocks[1], blocks[3], large}) free(block);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_TRUE(homes.empty());
}

TEST_F(HooksTest, ADeferredFreeIsToldWhenItIsOver) {
  void* const block = alloc(s, 16 * MiB);
  record(block, t);
  hold(t);
  write(t, block, 16 * MiB, 1);
  free(block);
  EXPECT_TRUE(deferred.empty());
  resume(t);
  synchronize();
  free(alloc(s, 32 * MiB));
  EXPECT_EQ(deferred, std::vector<Address>{address(block)});
  free(alloc(s, 64 * MiB));
  EXPECT_EQ(deferred.size(), 1U);
}

TEST_F(HooksTest, EveryWaitIsToldBeforeAndAfter) {
  allocator->set_limit(32 * MiB);
  void* const block = alloc(s, 32 * MiB);
  record(block, t);
  write(t, block, 32 * MiB, 1, 5 * ms);
  free(block);
  EXPECT_EQ(waits, 0);
  free(alloc(s, 32 * MiB));
  EXPECT_EQ(waits, 1);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(waits, waits_over);
}

TEST_F(HooksTest, NoneAreAllowed) {
  const Hooks empty;
  allocator->set_hooks(&empty);
  free(alloc(s, 16 * MiB));
  allocator->set_hooks(nullptr);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(collects, 0);
}

}  // namespace
}  // namespace reprieve::memory
