// Harvesting: the chunks of free ranges serve another address of the same stream at once, while queued work still goes
// through the old one.
#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class LimboTest : public MemoryTest {
 protected:
  // Four blocks of 16 MiB, filled with 1 to 4 by queued work.
  LimboTest() {
    allocator->set_limit(64 * MiB);
    blocks = alloc_many(s, 4, 16 * MiB);
    for (std::size_t i = 0; i < 4; ++i) write(s, blocks[i], 16 * MiB, static_cast<std::uint8_t>(i + 1), 10 * ms);
  }

  Stream s = stream();
  std::vector<void*> blocks;
};

TEST_F(LimboTest, TheOldMappingStaysUntilTheStreamHasPassed) {
  hold(s);
  check(s, blocks[0], 16 * MiB, 1);
  check(s, blocks[2], 16 * MiB, 3);
  free(blocks[0]);
  free(blocks[2]);
  const std::size_t mappings = machine.mapping_count();
  const std::uint64_t waits = calls(device::Call::event_wait) + calls(device::Call::stream_synchronize);
  const std::uint64_t unmaps = calls(device::Call::unmap);

  void* const large = alloc(s, 32 * MiB);
  EXPECT_EQ(allocator->stats().limbo_bytes, 16 << 20);  // one free range grew by the other's chunks
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_GT(machine.mapping_count(), mappings);
  EXPECT_EQ(calls(device::Call::unmap), unmaps);
  EXPECT_EQ(calls(device::Call::event_wait) + calls(device::Call::stream_synchronize), waits);

  // Queued behind what still reads the old contents through the old addresses, on the same chunks.
  write(s, large, 32 * MiB, 9);
  check(s, large, 32 * MiB, 9);
  check(s, blocks[1], 16 * MiB, 2);
  EXPECT_EQ(checks_passed + checks_failed, 0);
  resume(s);
  synchronize();
  EXPECT_EQ(checks_passed, 4);
  EXPECT_EQ(checks_failed, 0);

  EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok());
  EXPECT_EQ(allocator->stats().limbo_bytes, 0);
  EXPECT_GT(calls(device::Call::unmap), unmaps);
  EXPECT_EQ(calls(device::Call::event_wait) + calls(device::Call::stream_synchronize), waits);
  free(large);
  free(blocks[1]);
  free(blocks[3]);
}

TEST_F(LimboTest, AddressesInLimboAreNotUsedAgain) {
  hold(s);
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB);
  allocator->set_limit(0);
  const std::vector<void*> more = alloc_many(s, 8, 16 * MiB);
  for (void* block : more) {
    EXPECT_NE(block, blocks[0]);
    EXPECT_NE(block, blocks[2]);
    write(s, block, 16 * MiB, 5);
  }
  resume(s);
  for (void* block : more) free(block);
  for (void* block : {large, blocks[1], blocks[3]}) free(block);
}

TEST_F(LimboTest, TheSameChunksMoveAgainWhileInLimbo) {
  hold(s);
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB);
  write(s, large, 32 * MiB, 6);
  check(s, large, 32 * MiB, 6);
  free(large);
  free(blocks[1]);
  void* const larger = alloc(s, 48 * MiB);
  write(s, larger, 48 * MiB, 7);
  check(s, larger, 48 * MiB, 7);
  check(s, blocks[3], 16 * MiB, 4);
  expect_consistent();
  resume(s);
  synchronize();
  EXPECT_EQ(checks_passed, 3);
  EXPECT_EQ(checks_failed, 0);
  free(larger);
  free(blocks[3]);
}

TEST_F(LimboTest, EmptyingTheCacheWaitsForLimbo) {
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB);
  write(s, large, 32 * MiB, 1, 50 * ms);
  free(large);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_GE(machine.now_ns(), 90 * ms);
  EXPECT_EQ(machine.used_bytes(0), 32 * MiB);
  EXPECT_EQ(reserved(), 32 * MiB);
  EXPECT_EQ(allocator->stats().limbo_bytes, 0);
  free(blocks[1]);
  free(blocks[3]);
}

TEST_F(LimboTest, PinnedBackingStaysWhereItIs) {
  EXPECT_TRUE(Allocator::pin_backing(addresses, blocks[0]).ok());
  const std::uint64_t harvested = static_cast<std::uint64_t>(allocator->stats().harvested_bytes);
  free(blocks[0]);
  EXPECT_EQ(alloc_code(s, 32 * MiB), Errc::out_of_memory);
  EXPECT_EQ(static_cast<std::uint64_t>(allocator->stats().harvested_bytes), harvested);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_EQ(alloc(s, 16 * MiB), blocks[0]);
  for (void* block : blocks) free(block);
}

}  // namespace
}  // namespace reprieve::memory
