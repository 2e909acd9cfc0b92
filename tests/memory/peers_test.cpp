// Other devices' access to this one's memory.
#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class PeersTest : public MemoryTest {
 protected:
  PeersTest() : MemoryTest({{}, {2, 4 * GiB, 4 * GiB, true, false}}) {
    EXPECT_EQ(machine.stream_create(1, far), simgpu::Code::success);
  }

  // Whether a kernel of device 1 can write the block.
  bool reachable(void* ptr, std::uint64_t bytes) {
    const std::uint64_t faults = machine.fault_count();
    const simgpu::Code code = machine.launch(1, far, {"far", {}, {{address(ptr), bytes}}, 1'000, {}});
    EXPECT_EQ(machine.synchronize(1), simgpu::Code::success);
    const bool fine = code == simgpu::Code::success && machine.fault_count() == faults;
    machine.clear_faults();
    return fine;
  }

  Stream s = stream();
  simgpu::StreamId far = 0;
};

TEST_F(PeersTest, WhatThereIsAndWhatComes) {
  const PoolId graph = pool(true);
  void* const before = alloc(s, 16 * MiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(alloc(s, 16 * MiB, graph));
  free(blocks[0]);
  free(blocks[2]);
  void* const regrouped = alloc(s, 32 * MiB, graph);
  EXPECT_FALSE(reachable(before, 16 * MiB));
  ASSERT_TRUE(allocator->add_peer(1).ok());
  EXPECT_TRUE(allocator->add_peer(1).ok());
  EXPECT_TRUE(allocator->add_peer(0).ok());
  EXPECT_TRUE(reachable(before, 16 * MiB));
  EXPECT_TRUE(reachable(regrouped, 32 * MiB));
  EXPECT_TRUE(reachable(blocks[0], 16 * MiB));  // a graph may still go through the old addresses
  void* const after = alloc(s, 100 * MiB);
  EXPECT_TRUE(reachable(after, 100 * MiB));
  for (void* block : {before, blocks[1], blocks[3], regrouped, after}) free(block);
}

TEST_F(PeersTest, ARefusalLeavesNoPeer) {
  void* const block = alloc(s, 16 * MiB);
  EXPECT_EQ(allocator->add_peer(7).code, Errc::invalid_argument);
  void* const next = alloc(s, 100 * MiB);
  EXPECT_FALSE(reachable(next, 100 * MiB));
  free(block);
  free(next);
}

}  // namespace
}  // namespace reprieve::memory
