// What an adapter to a framework needs: segments and blocks, blocks at given addresses, hooks.
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "capi_test.hpp"

namespace {

class AdapterTest : public CapiTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(reprieve_set_hooks(nullptr), REPRIEVE_OK);
    CapiTest::TearDown();
  }
};

struct Seen {
  std::vector<reprieve_segment_info> segments;
  std::vector<reprieve_block_info> blocks;
};

Seen look(int device) {
  Seen seen;
  reprieve_visitor visitor{};
  visitor.size = sizeof visitor;
  visitor.user = &seen;
  visitor.segment = [](void* user, const reprieve_segment_info* segment) {
    static_cast<Seen*>(user)->segments.push_back(*segment);
  };
  visitor.block = [](void* user, const reprieve_block_info* block) {
    static_cast<Seen*>(user)->blocks.push_back(*block);
  };
  EXPECT_EQ(reprieve_visit(device, &visitor), REPRIEVE_OK) << last_error();
  return seen;
}

TEST_F(AdapterTest, SegmentsAndBlocks) {
  const reprieve_stream s = stream(1);
  free(alloc(32 * MiB, 1, s));
  void* const block = alloc(16 * MiB - 5, 1, s);
  const Seen seen = look(1);
  ASSERT_EQ(seen.segments.size(), 1U);
  const reprieve_segment_info& segment = seen.segments.front();
  EXPECT_EQ(segment.address, block);
  EXPECT_EQ(segment.bytes, 32 * MiB);
  EXPECT_EQ(segment.device, 1);
  EXPECT_EQ(segment.stream, s);
  EXPECT_EQ(segment.pool, 0U);
  EXPECT_EQ(segment.large, 1);
  ASSERT_EQ(segment.blocks, 2U);
  ASSERT_EQ(seen.blocks.size(), 2U);
  EXPECT_EQ(seen.blocks[0].state, REPRIEVE_BLOCK_LIVE);
  EXPECT_EQ(seen.blocks[0].requested, 16 * MiB - 5);
  EXPECT_EQ(seen.blocks[1].state, REPRIEVE_BLOCK_FREE);
  EXPECT_TRUE(look(0).segments.empty());

  reprieve_block_info info{};
  info.size = sizeof info;
  reprieve_segment_info where{};
  where.size = sizeof where;
  ASSERT_EQ(reprieve_get_block_info(block, &info, &where), REPRIEVE_OK) << last_error();
  EXPECT_EQ(info.requested, 16 * MiB - 5);
  EXPECT_EQ(where.address, segment.address);
  EXPECT_EQ(where.device, 1);
  EXPECT_EQ(reprieve_get_block_info(block, &info, nullptr), REPRIEVE_OK);
  free(block);
  expect_invalid(reprieve_get_block_info(block, &info, nullptr),
                 fmt::format("{}: not the beginning of a live block", block));
}

TEST_F(AdapterTest, BadVisitors) {
  expect_invalid(reprieve_visit(0, nullptr), "the structure's size is not that of a version up to this library's");
  reprieve_visitor visitor{};
  visitor.size = sizeof visitor;
  expect_invalid(reprieve_visit(0, &visitor), "a visitor needs both functions");
}

TEST_F(AdapterTest, BlocksAtGivenAddresses) {
  reprieve_pool graph = 0;
  ASSERT_EQ(reprieve_pool_create(0, REPRIEVE_POOL_GRAPH, &graph), REPRIEVE_OK);
  void* block = nullptr;
  ASSERT_EQ(reprieve_alloc_in_pool(&block, 8 * MiB, 0, nullptr, graph), REPRIEVE_OK);
  expect_invalid(reprieve_alloc_at(block, 8 * MiB, 0, nullptr, graph),
                 fmt::format("8388608 bytes at {} of pool 1: these addresses are not free in this pool", block));
  free(block);
  EXPECT_EQ(reprieve_alloc_at(block, 8 * MiB, 0, nullptr, graph), REPRIEVE_OK) << last_error();
  EXPECT_EQ(stats().allocations.current, 1);
  free(block);
  EXPECT_EQ(reprieve_pool_destroy(0, graph), REPRIEVE_OK);
}

TEST_F(AdapterTest, PeerAccess) {
  void* const before = alloc(8 * MiB, 0);
  ASSERT_EQ(reprieve_enable_peer_access(0, 1), REPRIEVE_OK) << last_error();
  EXPECT_EQ(reprieve_enable_peer_access(0, 1), REPRIEVE_OK);
  EXPECT_EQ(reprieve_enable_peer_access(0, 0), REPRIEVE_OK);
  expect_invalid(reprieve_enable_peer_access(0, 7), "device 7: there are 2 (0 to 1)");
  void* const after = alloc(64 * MiB, 0);
  free(before);
  free(after);
}

struct Told {
  int collects = 0;
  long long backed_bytes = 0;
};

TEST_F(AdapterTest, HooksOfEveryDevice) {
  Told told;
  reprieve_hooks hooks{};
  hooks.size = sizeof hooks;
  hooks.user = &told;
  hooks.collect = [](void* user, int device) { static_cast<Told*>(user)->collects += 1 + 100 * device; };
  hooks.segment = [](void* user, int, int backed, void*, size_t bytes, reprieve_stream, reprieve_pool) {
    static_cast<Told*>(user)->backed_bytes +=
        backed != 0 ? static_cast<long long>(bytes) : -static_cast<long long>(bytes);
  };
  free(alloc(8 * MiB, 0));
  ASSERT_EQ(reprieve_set_hooks(&hooks), REPRIEVE_OK);
  free(alloc(16 * MiB, 0));
  free(alloc(16 * MiB, 1));
  EXPECT_EQ(told.collects, 102);
  EXPECT_GT(told.backed_bytes, 0);
  ASSERT_EQ(reprieve_set_hooks(nullptr), REPRIEVE_OK);
  free(alloc(64 * MiB, 0));
  EXPECT_EQ(told.collects, 102);
}

TEST_F(AdapterTest, BadHooks) {
  reprieve_hooks hooks{};
  expect_invalid(reprieve_set_hooks(&hooks), "the structure's size is not that of a version up to this library's");
  hooks.size = sizeof hooks;
  hooks.wait_end = [](void*, void*) {};
  expect_invalid(reprieve_set_hooks(&hooks), "wait_begin and wait_end come together");
}

}  // namespace
