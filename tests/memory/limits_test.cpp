// What may be held, and what goes back to the driver.
#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class LimitsTest : public MemoryTest {
 protected:
  explicit LimitsTest(const Rig& rig = {}) : MemoryTest(rig) {}

  std::uint64_t used() { return machine.used_bytes(0); }

  Stream s = stream();
};

TEST_F(LimitsTest, EmptyingTheCacheGivesAllFreeMemoryBack) {
  std::vector<void*> blocks = alloc_many(s, 8, 16 * MiB);
  std::vector<void*> small = alloc_many(s, 100, 4 * KiB);
  void* const kept = alloc(stream(), 16 * MiB);
  free_all(blocks);
  free_all(small);
  EXPECT_EQ(used(), reserved());
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(used(), 16 * MiB);
  EXPECT_EQ(reserved(), 16 * MiB);
  EXPECT_EQ(allocator->stats().segments.current, 1);
  free(kept);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(used(), 0U);
}

TEST_F(LimitsTest, TrimKeepsWhatItMay) {
  std::vector<void*> blocks = alloc_many(s, 8, 16 * MiB);
  free_all(blocks);
  EXPECT_TRUE(allocator->trim(1 * GiB).ok());
  EXPECT_EQ(used(), 128 * MiB);
  EXPECT_TRUE(allocator->trim(64 * MiB).ok());
  EXPECT_EQ(used(), 64 * MiB);
  EXPECT_TRUE(allocator->trim(63 * MiB).ok());
  EXPECT_LE(used(), 63 * MiB);
  EXPECT_GE(used(), 40 * MiB);  // a chunk at most beyond what was asked
}

TEST_F(LimitsTest, TrimLeavesLiveBlocks) {
  std::vector<void*> blocks = alloc_many(s, 4, 16 * MiB);
  write(s, blocks[1], 16 * MiB, 7);
  free(blocks[0]);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(used(), 48 * MiB);
  check(s, blocks[1], 16 * MiB, 7);
  synchronize();
  EXPECT_EQ(checks_passed, 1);
  for (std::size_t i = 1; i < 4; ++i) free(blocks[i]);
}

TEST_F(LimitsTest, TrimWaitsForWorkOnFreeMemory) {
  void* const block = alloc(s, 16 * MiB);
  write(s, block, 16 * MiB, 1, 100 * ms);
  free(block);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_GE(machine.now_ns(), 100 * ms);
  EXPECT_EQ(used(), 0U);
}

TEST_F(LimitsTest, TrimDoesNotWaitForEver) {
  void* const block = alloc(s, 16 * MiB);
  hold(s);
  write(s, block, 16 * MiB, 1);
  free(block);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(used(), 16 * MiB);
  EXPECT_EQ(reserved(), 16 * MiB);
  resume(s);
  synchronize();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(used(), 0U);
}

TEST_F(LimitsTest, ALimitIsObeyedToTheByte) {
  allocator->set_limit(64 * MiB);
  EXPECT_EQ(allocator->limit(), 64 * MiB);
  std::vector<void*> blocks = alloc_many(s, 32, 2 * MiB);
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_EQ(alloc_code(s, 2 * MiB), Errc::out_of_memory);
  EXPECT_EQ(alloc_code(s, 4 * KiB), Errc::out_of_memory);
  EXPECT_EQ(used(), 64 * MiB);
  allocator->set_limit(66 * MiB);
  EXPECT_EQ(alloc_code(s, 2 * MiB), Errc::ok);
  allocator->set_limit(0);
  EXPECT_EQ(alloc_code(s, 128 * MiB), Errc::ok);
  free_all(blocks);
}

TEST_F(LimitsTest, ALowerLimitTakesFreeMemoryBackAndRefusesGrowth) {
  std::vector<void*> blocks = alloc_many(s, 8, 16 * MiB);
  for (std::size_t i = 4; i < 8; ++i) free(blocks[i]);
  blocks.resize(4);
  allocator->set_limit(96 * MiB);
  EXPECT_LE(used(), 96 * MiB);
  EXPECT_GE(used(), 64 * MiB);
  allocator->set_limit(32 * MiB);
  EXPECT_EQ(used(), 64 * MiB);  // what lives, lives
  EXPECT_EQ(alloc_code(s, 2 * MiB), Errc::out_of_memory);
  free(blocks[3]);
  EXPECT_EQ(alloc_code(s, 2 * MiB), Errc::ok);  // out of what is held
  blocks.pop_back();
  free_all(blocks);
  allocator->set_limit(32 * MiB);
  EXPECT_LE(used(), 32 * MiB);
}

TEST_F(LimitsTest, ALowerLimitDoesNotTouchBusyMemory) {
  void* const block = alloc(s, 16 * MiB);
  hold(s);
  write(s, block, 16 * MiB, 1);
  free(block);
  allocator->set_limit(2 * MiB);
  EXPECT_EQ(used(), 16 * MiB);
  resume(s);
  synchronize();
  allocator->set_limit(2 * MiB);
  EXPECT_EQ(used(), 0U);
}

TEST_F(LimitsTest, TheDriverHasLessThanItSaid) {
  free(alloc(s, 2 * MiB));  // the driver has been asked
  machine.set_capacity(0, 64 * MiB);
  EXPECT_EQ(alloc_code(s, 128 * MiB), Errc::out_of_memory);
  EXPECT_EQ(used(), reserved());
  EXPECT_LE(used(), 64 * MiB);
  std::vector<void*> blocks = alloc_many(s, 4, 14 * MiB);
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 28 * MiB);  // harvested, since nothing can be made
  EXPECT_LE(used(), 64 * MiB);
  for (void* block : {blocks[1], blocks[3], large}) free(block);
  machine.set_capacity(0, 4 * GiB);
  EXPECT_EQ(alloc_code(s, 1 * GiB), Errc::ok);
}

class HeadroomTest : public LimitsTest {
 protected:
  static Rig rig() {
    Rig out;
    out.settings.headroom = 512 * MiB;
    return out;
  }
  HeadroomTest() : LimitsTest(rig()) {}
};

TEST_F(HeadroomTest, IsLeftFree) {
  EXPECT_EQ(alloc_code(s, 4 * GiB - 510 * MiB), Errc::out_of_memory);
  EXPECT_EQ(alloc_code(s, 4 * GiB - 512 * MiB), Errc::ok);
  EXPECT_EQ(used(), 4 * GiB - 512 * MiB);
}

TEST_F(HeadroomTest, OthersUseCounts) {
  machine.set_foreign_use(0, 1 * GiB);
  EXPECT_EQ(alloc_code(s, 2560 * MiB + 2 * MiB), Errc::out_of_memory);
  std::vector<void*> blocks = alloc_many(s, 20, 128 * MiB);
  EXPECT_EQ(alloc_code(s, 2 * MiB), Errc::out_of_memory);
  EXPECT_EQ(used(), 2560 * MiB);
  machine.set_foreign_use(0, 0);
  EXPECT_EQ(alloc_code(s, 1 * GiB), Errc::ok);
  free_all(blocks);
}

TEST_F(HeadroomTest, ALimitComesInItsPlace) {
  allocator->set_limit(4 * GiB);
  EXPECT_EQ(alloc_code(s, 4 * GiB), Errc::ok);
}

}  // namespace
}  // namespace reprieve::memory
