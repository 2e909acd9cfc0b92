// One rule of PyTorch's allocator with plain segments each, by hand.
#include <gtest/gtest.h>

#include "model_fixture.hpp"

namespace reprieve::replay::models {
namespace {

class Native : public Models {};

TEST_F(Native, BlocksAreMultiplesOf512) {
  start(Segments::plain);
  EXPECT_EQ(get(1)->bytes, 512u);
  EXPECT_EQ(get(513)->bytes, 1024u);
  EXPECT_EQ(get(5 * MiB + 1)->bytes, 5 * MiB + 512);
}

TEST_F(Native, SegmentsAreOf2And20MiBAndOfABlocksOwnSize) {
  start(Segments::plain);
  get(MiB);
  EXPECT_EQ(reserved_mib(), 2u);
  get(MiB);
  EXPECT_EQ(reserved_mib(), 2u) << "small blocks share a segment";
  get(MiB + 1);
  EXPECT_EQ(reserved_mib(), 22u) << "no small block's room is there for a large one";
  get(10 * MiB - 512);
  EXPECT_EQ(reserved_mib(), 22u) << "what lies between 1 and 10 MiB shares a segment";
  get(10 * MiB);
  EXPECT_EQ(reserved_mib(), 32u);
  get(11 * MiB);
  EXPECT_EQ(reserved_mib(), 44u) << "rounded up to 2 MiB";
}

TEST_F(Native, TheSmallestBlockThatFitsIsTaken) {
  start(Segments::plain);
  Block* const large = get(40 * MiB);
  Block* const middle = get(30 * MiB);
  const std::uint64_t place = middle->address;
  put(large);
  put(middle);
  EXPECT_EQ(get(29 * MiB + 512 * KiB)->address, place);
}

TEST_F(Native, OfEqualBlocksTheOneAtTheLowestAddressIsTaken) {
  start(Segments::plain);
  Block* const first = get(12 * MiB);
  Block* const second = get(12 * MiB);
  EXPECT_LT(second->address, first->address) << "the card's addresses fall";
  const std::uint64_t place = second->address;
  put(first);
  put(second);
  EXPECT_EQ(get(12 * MiB)->address, place);
}

TEST_F(Native, ALargeBlockIsSplitWhereMoreThan1MiBIsLeft) {
  start(Segments::plain);
  Block* block = get(12 * MiB);
  put(block);
  block = get(11 * MiB);
  EXPECT_EQ(block->bytes, 12 * MiB);
  put(block);
  block = get(11 * MiB - 512);
  EXPECT_EQ(block->bytes, 11 * MiB - 512);
  ASSERT_NE(block->after, nullptr);
  EXPECT_EQ(block->after->bytes, MiB + 512);
}

TEST_F(Native, NeighboursAreOneBlockAgain) {
  start(Segments::plain);
  Block* const a = get(4 * MiB);
  Block* const b = get(4 * MiB);
  Block* const c = get(4 * MiB);
  put(a);
  put(c);
  put(b);
  EXPECT_EQ(model_->block_count(), 1u);
  get(9 * MiB);
  EXPECT_EQ(reserved_mib(), 20u);
}

TEST_F(Native, StreamsAndPoolsShareNothing) {
  start(Segments::plain);
  put(get(20 * MiB, 0));
  get(20 * MiB, 1);
  EXPECT_EQ(reserved_mib(), 40u);
  get(20 * MiB, 0, 1);
  EXPECT_EQ(reserved_mib(), 60u);
  get(20 * MiB, 0, 2);
  EXPECT_EQ(reserved_mib(), 80u);
  get(20 * MiB, 0);
  EXPECT_EQ(reserved_mib(), 80u);
}

TEST_F(Native, ABlockThatAnotherStreamUsesWaitsForTheNextAllocation) {
  start(Segments::plain);
  Block* const block = get(20 * MiB);
  model_->record_use(*block, 1);
  put(block);
  EXPECT_FALSE(block->is_free());
  get(20 * MiB);
  EXPECT_EQ(reserved_mib(), 20u) << "events are asked about first";

  Block* const own = get(20 * MiB);
  model_->record_use(*own, 0);
  put(own);
  EXPECT_TRUE(own->is_free()) << "its own stream is no other";
}

TEST_F(Native, WhileAPrivatePoolIsAllocatedFromNothingIsAskedOrReleased) {
  start(Segments::plain, "", 80 * MiB);
  Block* const block = get(20 * MiB, 0, 1);
  model_->record_use(*block, 1);
  put(block);
  get(20 * MiB, 0, 1);
  EXPECT_EQ(reserved_mib(), 40u);
  put(get(40 * MiB));
  EXPECT_EQ(get(40 * MiB, 0, 1), nullptr) << "the default pool's cache stays";
  EXPECT_EQ(model_->retries(), 0u);
  EXPECT_EQ(reserved_mib(), 80u);
  EXPECT_NE(get(20 * MiB, 0, 1), nullptr) << "the default pool's allocation asked about the block";
}

TEST_F(Native, CachedSegmentsAreReleasedBeforeMemoryRunsOut) {
  start(Segments::plain, "", 64 * MiB);
  Block* const kept = get(4 * MiB);  // a segment of 20 MiB that stays split
  put(get(40 * MiB));
  EXPECT_EQ(model_->retries(), 0u);
  EXPECT_NE(get(44 * MiB), nullptr);
  EXPECT_EQ(model_->retries(), 1u);
  EXPECT_EQ(reserved_mib(), 64u);
  EXPECT_EQ(card_->costs().free_calls, 1u);
  EXPECT_EQ(get(17 * MiB), nullptr) << "what is left of the split segment is too small, and cannot go back";
  put(kept);
  EXPECT_NE(get(17 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 64u);
}

TEST_F(Native, TheLimitIsHeldAgainstWhatIsReserved) {
  start(Segments::plain, "", 100 * MiB);
  EXPECT_NE(get(90 * MiB), nullptr);
  EXPECT_EQ(get(5 * MiB), nullptr) << "a segment of 20 MiB would be needed";
  EXPECT_NE(get(10 * MiB), nullptr);
  EXPECT_EQ(get(1), nullptr);
}

TEST_F(Native, TheCardsMemoryIsALimitToo) {
  start(Segments::plain, "", 0, 64 * MiB);
  EXPECT_NE(get(60 * MiB), nullptr);
  EXPECT_EQ(get(5 * MiB), nullptr);
  EXPECT_NE(get(1), nullptr);
  EXPECT_EQ(get(1ULL << 61), nullptr);
}

TEST_F(Native, AFractionInTheConfigurationIsALimit) {
  start(Segments::plain, "per_process_memory_fraction:0.5", 0, 64 * MiB);
  EXPECT_EQ(get(34 * MiB), nullptr);
  EXPECT_NE(get(32 * MiB), nullptr);
}

TEST_F(Native, OversizeBlocksAreNeitherSplitNorGivenToSmallerRequests) {
  start(Segments::plain, "max_split_size_mb:64");
  put(get(100 * MiB));
  get(40 * MiB);
  EXPECT_EQ(reserved_mib(), 140u) << "smaller than the largest that is split";
  get(80 * MiB);
  EXPECT_EQ(reserved_mib(), 220u) << "20 MiB would be lost";
  EXPECT_EQ(get(82 * MiB)->bytes, 100 * MiB);
  EXPECT_EQ(reserved_mib(), 220u);
}

TEST_F(Native, AnOversizeSegmentThatIsLargeEnoughIsReleasedFirst) {
  start(Segments::plain, "max_split_size_mb:64", 300 * MiB);
  put(get(30 * MiB));
  Block* const a = get(150 * MiB);
  put(get(70 * MiB));
  put(a);
  EXPECT_NE(get(100 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 200u) << "150 MiB went, for a request that they were 50 too large for";
  EXPECT_EQ(model_->retries(), 0u);
}

TEST_F(Native, OrSeveralOfThemFromTheLargestDown) {
  start(Segments::plain, "max_split_size_mb:64", 300 * MiB);
  Block* const small = get(30 * MiB);
  Block* const a = get(70 * MiB);
  Block* const b = get(90 * MiB);
  Block* const c = get(66 * MiB);
  for (Block* const block : {small, a, b, c}) put(block);
  EXPECT_NE(get(150 * MiB), nullptr);
  EXPECT_EQ(reserved_mib(), 30u + 66u + 150u) << "90 and 70 MiB went";
  EXPECT_EQ(model_->retries(), 0u);
}

TEST_F(Native, OldSegmentsAreCollectedOverTheThreshold) {
  start(Segments::plain, "garbage_collection_threshold:0.5", 220 * MiB);
  put(get(40 * MiB));
  put(get(60 * MiB));
  put(get(100 * MiB));
  EXPECT_EQ(reserved_mib(), 200u) << "100 MiB were below the threshold of 110";
  get(110 * MiB);
  EXPECT_EQ(model_->retries(), 0u) << "room was made before memory ran out";
  EXPECT_EQ(card_->costs().free_calls, 2u) << "those of average age and more: the old ones";
  EXPECT_EQ(reserved_mib(), 210u);
}

TEST_F(Native, NothingIsCollectedWithoutALimit) {
  start(Segments::plain, "garbage_collection_threshold:0.1");
  put(get(40 * MiB));
  put(get(60 * MiB));
  put(get(100 * MiB));
  EXPECT_EQ(card_->costs().free_calls, 0u);
}

TEST_F(Native, EmptyCacheLeavesPrivatePoolsAlone) {
  start(Segments::plain);
  put(get(40 * MiB));
  put(get(60 * MiB, 0, 1));
  model_->empty_cache();
  EXPECT_EQ(reserved_mib(), 60u);
}

}  // namespace
}  // namespace reprieve::replay::models
