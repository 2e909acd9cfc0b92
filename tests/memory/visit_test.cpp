// What is shown of segments and blocks.
#include <map>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

struct Seen final : Visitor {
  void segment(const SegmentView& segment) override { segments.emplace_back(segment, std::vector<BlockView>{}); }
  void block(const BlockView& block) override { segments.back().second.push_back(block); }

  std::vector<std::pair<SegmentView, std::vector<BlockView>>> segments;
};

class VisitTest : public MemoryTest {
 protected:
  Seen look() {
    Seen seen;
    allocator->visit(seen);
    return seen;
  }

  Stream s = stream();
  Stream t = stream();
};

TEST_F(VisitTest, NothingBeforeTheFirstBlock) { EXPECT_TRUE(look().segments.empty()); }

TEST_F(VisitTest, BlocksInOrderWithWhatWasAskedFor) {
  free(alloc(s, 48 * MiB));
  void* const a = alloc(s, 16 * MiB - 100);
  void* const b = alloc(s, 16 * MiB);
  void* const c = alloc(s, 16 * MiB);
  record(c, t);
  hold(t);
  write(t, c, 16 * MiB, 1);
  free(b);
  free(c);
  const Seen seen = look();
  ASSERT_EQ(seen.segments.size(), 1U);
  const auto& [segment, blocks] = seen.segments.front();
  EXPECT_EQ(segment.address, address(a));
  EXPECT_EQ(segment.bytes, 48 * MiB);
  EXPECT_EQ(segment.stream, StreamRef::here(s));
  EXPECT_EQ(segment.pool, 0U);
  EXPECT_EQ(segment.kind, Arena::Kind::large);
  ASSERT_EQ(segment.blocks, 3U);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].state, RangeState::live);
  EXPECT_EQ(blocks[0].requested, 16 * MiB - 100);
  EXPECT_EQ(blocks[0].bytes, 16 * MiB);
  EXPECT_EQ(blocks[1].state, RangeState::free);
  EXPECT_EQ(blocks[1].address, address(b));
  EXPECT_EQ(blocks[2].state, RangeState::deferred);
  EXPECT_EQ(blocks[2].requested, 16 * MiB);
  resume(t);
  synchronize();
  free(a);
}

TEST_F(VisitTest, EveryPoolIsShownAndTheBytesAreTheStatistics) {
  const PoolId graph = pool(true);
  std::vector<void*> blocks = {alloc(s, 4 * KiB), alloc(t, 5 * MiB), alloc(s, 6 * MiB, graph)};
  std::uint64_t bytes = 0;
  std::map<std::uint64_t, int> pools;
  for (const auto& [segment, inside] : look().segments) {
    bytes += segment.bytes;
    ++pools[segment.pool];
    std::uint64_t at = segment.address;
    for (const BlockView& block : inside) {
      EXPECT_EQ(block.address, at);
      at += block.bytes;
    }
    EXPECT_EQ(at, segment.address + segment.bytes);
  }
  EXPECT_EQ(bytes, reserved());
  EXPECT_EQ(pools, (std::map<std::uint64_t, int>{{0, 2}, {graph, 1}}));
  free_all(blocks);
}

TEST_F(VisitTest, WhereABlockLies) {
  free(alloc(s, 32 * MiB));
  void* const a = alloc(s, 16 * MiB);
  void* const b = alloc(s, 16 * MiB - 3);
  BlockPlace place;
  ASSERT_TRUE(Allocator::locate(addresses, b, place).ok());
  EXPECT_EQ(place.block.address, address(b));
  EXPECT_EQ(place.block.bytes, 16 * MiB);
  EXPECT_EQ(place.block.requested, 16 * MiB - 3);
  EXPECT_EQ(place.segment.address, address(a));
  EXPECT_EQ(place.segment.bytes, 32 * MiB);
  EXPECT_EQ(place.device, 0);
  EXPECT_EQ(place.block.other_streams, 0U);
  record(b, t);
  ASSERT_TRUE(Allocator::locate(addresses, b, place).ok());
  EXPECT_EQ(place.block.other_streams, 1U);
  EXPECT_EQ(Allocator::locate(addresses, static_cast<char*>(b) + 512, place).code, Errc::invalid_argument);
  EXPECT_EQ(Allocator::locate(addresses, this, place).code, Errc::invalid_argument);
  free(a);
  free(b);
  EXPECT_EQ(Allocator::locate(addresses, b, place).code, Errc::invalid_argument);
}

}  // namespace
}  // namespace reprieve::memory
