// Private pools and graph pools.
#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

constexpr std::uint64_t block_bytes = 16 * MiB;

class PoolsTest : public MemoryTest {
 protected:
  std::int64_t harvested() { return allocator->stats().harvested_bytes; }

  Stream s = stream();
};

TEST_F(PoolsTest, APrivatePoolSharesNothing) {
  const PoolId mine = pool(false);
  void* const block = alloc(s, block_bytes, mine);
  free(block);
  void* const other = alloc(s, block_bytes);
  EXPECT_NE(other, block);
  EXPECT_EQ(reserved(), 2 * block_bytes);
  EXPECT_EQ(alloc(s, block_bytes, mine), block);
  free(block);
  free(other);
}

TEST_F(PoolsTest, APrivatePoolIsNotHarvested) {
  allocator->set_limit(2 * block_bytes);
  const PoolId mine = pool(false);
  free(alloc(s, block_bytes, mine));
  free(alloc(s, block_bytes));
  EXPECT_EQ(alloc_code(s, 2 * block_bytes), Errc::out_of_memory);
  EXPECT_EQ(alloc_code(s, 2 * block_bytes, mine), Errc::out_of_memory);
  EXPECT_EQ(harvested(), 0);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(alloc_code(s, 2 * block_bytes), Errc::ok);
}

TEST_F(PoolsTest, AGraphPoolIsNeitherHarvestedNorEmptied) {
  allocator->set_limit(2 * block_bytes);
  const PoolId graph = pool(true);
  void* const block = alloc(s, block_bytes, graph);
  free(block);
  free(alloc(s, block_bytes));
  EXPECT_EQ(alloc_code(s, 2 * block_bytes), Errc::out_of_memory);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), block_bytes);
  allocator->set_limit(2 * MiB);
  EXPECT_EQ(reserved(), block_bytes);
  // A replay writes there though nobody owns a block.
  write(s, block, block_bytes, 1);
  synchronize();
  EXPECT_TRUE(allocator->destroy_pool(graph).ok());
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

// A graph is replayed on any stream, not on the one that its pool's memory was allocated for.
TEST_F(PoolsTest, AGraphPoolGoesWhenReplaysOnOtherStreamsAreOver) {
  const Stream t = stream();
  const PoolId graph = pool(true);
  void* const block = alloc(s, block_bytes, graph);
  free(block);
  hold(t);
  write(t, block, block_bytes, 1);
  EXPECT_TRUE(allocator->destroy_pool(graph).ok());
  EXPECT_EQ(alloc_code(s, 4 * KiB), Errc::ok);
  EXPECT_EQ(reserved(), block_bytes + 2 * MiB);
  expect_no_faults();
  resume(t);
  synchronize();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(PoolsTest, NoEventOfTheContextWhileAnUnknownStreamCaptures) {
  const Stream unknown = stream();
  const PoolId graph = pool(true);
  free(alloc(s, block_bytes, graph));
  allocator->capture_began();
  capture(unknown);
  EXPECT_TRUE(allocator->destroy_pool(graph).ok());
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), block_bytes);
  end_capture(unknown);
  EXPECT_TRUE(allocator->capture_ended());
  EXPECT_FALSE(allocator->capture_ended());
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

// Puzzles inside one pool: its free memory gets a second address, and keeps the first where a graph may use it.
class OwnPuzzleTest : public PoolsTest, public ::testing::WithParamInterface<bool> {};

TEST_P(OwnPuzzleTest, EveryOtherOfFourThenOneOfTwiceTheSize) {
  const PoolId mine = pool(GetParam());
  for (const bool captures : {true, false}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(alloc(s, block_bytes, mine));
    const std::uint64_t before = reserved();
    if (captures) capture(s);
    free(blocks[0]);
    free(blocks[2]);
    void* const large = alloc(s, 2 * block_bytes, mine);
    EXPECT_EQ(reserved(), before);
    expect_consistent();
    if (captures) end_capture(s);
    if (GetParam()) write(s, blocks[0], block_bytes, 1);  // a replay
    write(s, large, 2 * block_bytes, 2);
    check(s, large, 2 * block_bytes, 2);
    for (void* block : {blocks[1], blocks[3], large}) free(block);
    synchronize();
  }
  EXPECT_EQ(checks_failed, 0);
  EXPECT_EQ(checks_passed, 2);
  EXPECT_GT(harvested(), 0);
  EXPECT_TRUE(allocator->destroy_pool(mine).ok());
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

// Graphs of growing, falling and mixed sizes in one pool, each of which leaves a block live between its others: what the
// largest needs is enough, and two MiB for each of those.
TEST_P(OwnPuzzleTest, GraphsInAnyOrderOfSizes) {
  for (const auto& sizes : std::vector<std::vector<int>>{{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, {3, 1, 5, 2, 4}}) {
    const PoolId mine = pool(GetParam());
    std::vector<void*> kept;
    for (const int size : sizes) {
      capture(s);
      std::vector<void*> blocks;
      for (int i = 0; i < 4; ++i) {
        blocks.push_back(alloc(s, static_cast<std::uint64_t>(size) * 8 * MiB, mine));
        if (i == 1) kept.push_back(alloc(s, 2 * MiB, mine));
      }
      for (void* block : blocks) free(block);
      end_capture(s);
      expect_consistent();
    }
    // Only a graph's pool is cut fine enough for that to be exact.
    const std::uint64_t needed = (4U * 5 * 8 + 5 * 2) * MiB;
    EXPECT_LE(reserved(), GetParam() ? needed : needed + needed / 7) << sizes.front();
    for (void* block : kept) free(block);
    EXPECT_TRUE(allocator->destroy_pool(mine).ok());
    EXPECT_TRUE(allocator->trim(0).ok());
    EXPECT_EQ(reserved(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Pools, OwnPuzzleTest, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "graph" : "mempool"; });

TEST_F(PoolsTest, BlocksOutliveTheirPool) {
  const PoolId graph = pool(true);
  void* const kept = alloc(s, block_bytes, graph);
  void* const small = alloc(s, 4 * KiB, graph);
  free(alloc(s, block_bytes, graph));
  EXPECT_TRUE(allocator->destroy_pool(graph).ok());
  EXPECT_EQ(allocator->destroy_pool(graph).code, Errc::invalid_argument);
  EXPECT_EQ(alloc_code(s, 512, graph), Errc::invalid_argument);
  EXPECT_EQ(allocator->live_blocks(), 2);
  write(s, kept, block_bytes, 1);
  write(s, small, 4 * KiB, 1);
  expect_consistent();
  free(kept);
  free(small);
  synchronize();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(PoolsTest, ADestroyedPoolsAddressesServeTheNext) {
  std::int64_t address_space = 0;
  for (int round = 0; round < 50; ++round) {
    const PoolId mine = pool(round % 2 == 0);
    void* const block = alloc(s, block_bytes, mine);
    write(s, block, block_bytes, 1);
    free(block);
    synchronize();
    EXPECT_TRUE(allocator->destroy_pool(mine).ok());
    EXPECT_EQ(alloc_code(s, 4 * KiB), Errc::ok);  // looks after what is destroyed
    if (round == 1) address_space = allocator->stats().address_space_bytes;
  }
  EXPECT_EQ(allocator->stats().address_space_bytes, address_space);
}

TEST_F(PoolsTest, APoolOnSeveralStreams) {
  const Stream t = stream();
  const PoolId mine = pool(false);
  void* const first = alloc(s, block_bytes, mine);
  void* const second = alloc(t, block_bytes, mine);
  EXPECT_NE(first, second);
  free(first);
  free(second);
  EXPECT_EQ(alloc(t, block_bytes, mine), second);
  free(second);
  EXPECT_TRUE(allocator->destroy_pool(mine).ok());
}

TEST_F(PoolsTest, DestroyedWhileItsStreamIsBusy) {
  const PoolId mine = pool(false);
  void* const block = alloc(s, block_bytes, mine);
  hold(s);
  write(s, block, block_bytes, 1);
  free(block);
  EXPECT_TRUE(allocator->destroy_pool(mine).ok());
  EXPECT_EQ(reserved(), block_bytes);
  expect_consistent();
  resume(s);
  synchronize();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

}  // namespace
}  // namespace reprieve::memory
