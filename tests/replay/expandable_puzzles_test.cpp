// One rule of PyTorch's allocator with expandable segments each, by hand.
#include <gtest/gtest.h>

#include "model_fixture.hpp"

namespace reprieve::replay::models {
namespace {

class Expandable : public Models {};

TEST_F(Expandable, ChunksOf2And20MiBAreMapped) {
  start(Segments::expandable);
  get(1);
  EXPECT_EQ(reserved_mib(), 2u);
  get(30 * MiB);
  EXPECT_EQ(reserved_mib(), 42u);
  get(15 * MiB);
  EXPECT_EQ(reserved_mib(), 62u) << "10 MiB were left, one more chunk is needed";
  const auto& calls = card_->costs().driver_calls;
  EXPECT_EQ(calls[static_cast<std::size_t>(device::Call::reserve)], 2u);
  EXPECT_EQ(calls[static_cast<std::size_t>(device::Call::create)], 4u);
}

TEST_F(Expandable, BlocksFollowOneAnotherAndAnyRestIsSplitOff) {
  start(Segments::expandable);
  Block* const a = get(30 * MiB);
  Block* const b = get(30 * MiB - 512);
  EXPECT_EQ(b->address, a->address + a->bytes);
  EXPECT_EQ(b->after->bytes, 512u);
  EXPECT_EQ(reserved_mib(), 60u);
}

TEST_F(Expandable, FreeRoomAtTheEndOfTheSegmentGrows) {
  start(Segments::expandable);
  get(20 * MiB);
  Block* const last = get(60 * MiB);
  const std::uint64_t place = last->address;
  put(last);
  EXPECT_EQ(get(70 * MiB)->address, place);
  EXPECT_EQ(reserved_mib(), 100u);
}

// 40, 20, then the end of what is mapped: a request of 10 fits into 40, but the block at the end could grow without
// bound and counts as the largest of all.
TEST_F(Expandable, ABlockThatCanGrowCountsAsLargeAsItCanBecome) {
  start(Segments::expandable);
  Block* const first = get(40 * MiB);
  get(20 * MiB);
  Block* const last = get(20 * MiB);
  const std::uint64_t place = first->address;
  put(first);
  put(last);
  EXPECT_EQ(get(10 * MiB)->address, place);
}

TEST_F(Expandable, WholeFreeChunksAreUnmappedWhereMemoryRunsOut) {
  start(Segments::expandable, "", 200 * MiB);
  Block* const first = get(90 * MiB);
  Block* const second = get(50 * MiB);
  put(first);  // [0, 90) free, [90, 140) in use
  EXPECT_EQ(reserved_mib(), 140u);
  Block* const large = get(100 * MiB);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(model_->retries(), 1u);
  EXPECT_EQ(large->address, second->address + second->bytes);
  EXPECT_EQ(reserved_mib(), 160u) << "of 90 MiB, 80 are whole chunks";
  // The holes are filled first.
  EXPECT_LT(get(30 * MiB)->address, second->address);
  EXPECT_EQ(reserved_mib(), 200u);
}

TEST_F(Expandable, TheLimitIsHeldAgainstTheWholeBlock) {
  start(Segments::expandable, "", 100 * MiB);
  get(70 * MiB);
  EXPECT_EQ(reserved_mib(), 80u);
  EXPECT_EQ(get(25 * MiB), nullptr) << "80 and 25 are more than 100, though 20 would do";
  EXPECT_NE(get(20 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 100u);
}

TEST_F(Expandable, AChunkMayLieOverTheLimit) {
  start(Segments::expandable, "", 100 * MiB);
  get(20 * MiB);
  get(61 * MiB);
  EXPECT_EQ(reserved_mib(), 100u);
  start(Segments::expandable, "", 62 * MiB);
  EXPECT_NE(get(61 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 80u) << "as in PyTorch";
}

TEST_F(Expandable, AFullCardMapsNothing) {
  start(Segments::expandable, "", 0, 100 * MiB);
  get(20 * MiB);
  EXPECT_EQ(get(100 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 20u);
  EXPECT_NE(get(80 * MiB), nullptr);
}

TEST_F(Expandable, AnEmptySegmentsAddressesGoBack) {
  start(Segments::expandable);
  Block* const small = get(1);
  Block* const large = get(30 * MiB, 1);
  put(small);
  put(large);
  model_->empty_cache();
  EXPECT_EQ(reserved_mib(), 0u);
  EXPECT_EQ(model_->block_count(), 0u);
  EXPECT_EQ(card_->costs().driver_calls[static_cast<std::size_t>(device::Call::unreserve)], 2u);
}

TEST_F(Expandable, StreamsAndPoolsHaveSegmentsOfTheirOwn) {
  start(Segments::expandable);
  get(20 * MiB, 0);
  get(20 * MiB, 1);
  get(20 * MiB, 0, 1);
  EXPECT_EQ(card_->costs().driver_calls[static_cast<std::size_t>(device::Call::reserve)], 3u);
}

}  // namespace
}  // namespace reprieve::replay::models
