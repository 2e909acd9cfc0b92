// Blocks at given addresses, as a graph's pool needs them that goes back to an earlier state.
#include <algorithm>
#include <random>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class PlaceTest : public MemoryTest {
 protected:
  Errc place(void* at, std::uint64_t bytes, PoolId in) { return allocator->allocate_at(s, in, at, bytes).code; }
  static void* beyond(void* block, std::uint64_t bytes) { return static_cast<char*>(block) + bytes; }

  Stream s = stream();
  PoolId graph = pool(true);
};

TEST_F(PlaceTest, InTheMiddleOfFreeMemory) {
  void* const block = alloc(s, 32 * MiB, graph);
  free(block);
  void* const middle = beyond(block, 8 * MiB);
  ASSERT_EQ(place(middle, 16 * MiB, graph), Errc::ok);
  expect_consistent();
  EXPECT_EQ(metric(inactive_split_blocks).current, 2);
  EXPECT_EQ(metric(allocated_bytes).current, 16 * 1048576);
  ASSERT_EQ(place(block, 8 * MiB, graph), Errc::ok);
  ASSERT_EQ(place(beyond(block, 24 * MiB), 2 * MiB + 1, graph), Errc::ok);
  expect_consistent();
  write(s, middle, 16 * MiB, 1);
  for (void* each : {middle, block, beyond(block, 24 * MiB)}) free(each);
  EXPECT_EQ(alloc(s, 32 * MiB, graph), block);
  free(block);
}

TEST_F(PlaceTest, WhatIsNotFreeThereIsRefused) {
  void* const block = alloc(s, 16 * MiB, graph);
  void* const other = alloc(s, 16 * MiB);
  const PoolId another = pool(true);
  void* const foreign = alloc(s, 16 * MiB, another);
  free(foreign);
  for (void* at : {block, beyond(block, 8 * MiB), beyond(block, 512 * MiB), other, foreign, beyond(block, 1),
                   static_cast<void*>(nullptr), static_cast<void*>(this)}) {
    EXPECT_EQ(place(at, 2 * MiB, graph), Errc::invalid_argument) << at;
  }
  free(block);
  EXPECT_EQ(place(block, 0, graph), Errc::invalid_argument);
  EXPECT_EQ(place(block, 16 * MiB + 512, graph), Errc::invalid_argument);
  EXPECT_EQ(place(block, 4 * KiB, graph), Errc::invalid_argument);  // small blocks lie elsewhere
  EXPECT_EQ(place(block, ~std::uint64_t{0}, graph), Errc::invalid_argument);
  EXPECT_EQ(place(block, 2 * MiB, 77), Errc::invalid_argument);
  EXPECT_EQ(place(block, 16 * MiB, graph), Errc::ok);
  free(block);
  free(other);
}

// Memory that was regrouped since goes back to where it was, without a driver call.
TEST_F(PlaceTest, RegroupedMemoryGoesBack) {
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(alloc(s, 16 * MiB, graph));
  capture(s);
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB, graph);
  ASSERT_GT(allocator->stats().harvested_bytes, 0);
  EXPECT_EQ(place(blocks[0], 16 * MiB, graph), Errc::invalid_argument);
  free(large);
  const std::uint64_t maps = calls(device::Call::map) + calls(device::Call::set_access) + calls(device::Call::unmap);
  ASSERT_EQ(place(blocks[0], 16 * MiB, graph), Errc::ok);
  ASSERT_EQ(place(blocks[2], 16 * MiB, graph), Errc::ok);
  expect_consistent();
  EXPECT_EQ(place(large, 32 * MiB, graph), Errc::invalid_argument);
  free(blocks[0]);
  free(blocks[2]);
  ASSERT_EQ(place(large, 32 * MiB, graph), Errc::ok);
  EXPECT_EQ(calls(device::Call::map) + calls(device::Call::set_access) + calls(device::Call::unmap), maps);
  end_capture(s);
  expect_consistent();
  for (void* block : {blocks[1], blocks[3], large}) free(block);
}

// Any set of blocks that was live once can be put back, whatever was done since.
TEST_F(PlaceTest, EarlierStatesComeBack) {
  struct Live {
    void* at;
    std::uint64_t bytes;
  };
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Live> live;
  std::vector<std::vector<Live>> states;
  for (int step = 0; step < 1'500; ++step) {
    if (live.size() < 24 && random() % 5 < 3) {
      const std::uint64_t bytes = random() % 3 == 0 ? 1 + random() % MiB : MiB + 1 + random() % (24 * MiB);
      live.push_back({alloc(s, bytes, graph), bytes});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      free(live.back().at);
      live.pop_back();
    }
    if (step % 50 == 0) states.push_back(live);
    if (step % 75 == 74) {
      for (const Live& block : live) free(block.at);
      live = states[random() % states.size()];
      for (const Live& block : live) ASSERT_EQ(place(block.at, block.bytes, graph), Errc::ok) << step;
      expect_consistent();
    }
  }
  for (const Live& block : live) free(block.at);
}

}  // namespace
}  // namespace reprieve::memory
