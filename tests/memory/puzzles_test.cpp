// Small known puzzles of packing, each with the reserved bytes that it may take.
#include <algorithm>
#include <functional>
#include <random>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class PuzzlesTest : public MemoryTest {
 protected:
  Stream s = stream();
};

TEST_F(PuzzlesTest, EightOf16ThenFourOf32) {
  std::vector<void*> blocks = alloc_many(s, 8, 16 * MiB);
  EXPECT_EQ(reserved(), 128 * MiB);
  free_all(blocks);
  blocks = alloc_many(s, 4, 32 * MiB);
  EXPECT_EQ(reserved(), 128 * MiB);
  EXPECT_EQ(allocator->stats().reserved_bytes.peak, 128 << 20);
  free_all(blocks);
}

TEST_F(PuzzlesTest, EveryOtherOfFour16ThenOne32) {
  std::vector<void*> blocks = alloc_many(s, 4, 16 * MiB);
  free(blocks[0]);
  free(blocks[2]);
  void* const large = alloc(s, 32 * MiB);
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_GT(allocator->stats().harvested_bytes, 0);
  std::memset(large, 1, 32 * MiB);
  for (void* block : {blocks[1], blocks[3], large}) free(block);
}

// 1,000 rounds: each frees six blocks of changing sizes, every fifth leaves a small one behind. Returns the peak of the
// bytes asked for.
std::uint64_t interleave(const std::function<void*(std::uint64_t)>& alloc, const std::function<void(void*)>& free) {
  std::mt19937_64 random(11);
  std::vector<void*> kept;
  std::uint64_t live = 0;
  std::uint64_t peak = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::vector<void*> brief;
    std::uint64_t brief_bytes = 0;
    const std::uint64_t base = 1 + random() % 24;
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t bytes = (base + random() % 8) * MiB + random() % MiB;
      brief.push_back(alloc(bytes));
      brief_bytes += bytes;
      if (i == 3 && round % 5 == 0) {
        const std::uint64_t small = 64 * KiB + random() % (2 * MiB);
        kept.push_back(alloc(small));
        live += small;
      }
    }
    peak = std::max(peak, live + brief_bytes);
    for (void* block : brief) free(block);
  }
  for (void* block : kept) free(block);
  return peak;
}

TEST_F(PuzzlesTest, LongAndShortLivedInterleaved) {
  const auto take = [this](std::uint64_t bytes) { return alloc(s, bytes); };
  const auto give = [this](void* block) { free(block); };
  const auto peak = static_cast<double>(interleave(take, give));
  EXPECT_LE(static_cast<double>(allocator->stats().reserved_bytes.peak), 1.25 * peak);
}

TEST_F(PuzzlesTest, LongAndShortLivedInterleavedUnderALimit) {
  const std::uint64_t peak = interleave([](std::uint64_t) { return nullptr; }, [](void*) {});
  allocator->set_limit(peak + peak / 5);
  interleave([this](std::uint64_t bytes) { return alloc(s, bytes); }, [this](void* block) { free(block); });
  EXPECT_EQ(allocator->stats().ooms, 0);
  EXPECT_LE(static_cast<std::uint64_t>(allocator->stats().reserved_bytes.peak), peak + peak / 5);
}

TEST_F(PuzzlesTest, TwoMiBThenManyOfHalfAndBack) {
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> blocks = alloc_many(s, 16, 2 * MiB);
    EXPECT_EQ(reserved(), 32 * MiB);
    free_all(blocks);
    blocks = alloc_many(s, 64, MiB / 2);
    EXPECT_EQ(reserved(), 32 * MiB);
    free_all(blocks);
  }
}

TEST_F(PuzzlesTest, ChunksAreCutToTheNeed) {
  void* const block = alloc(s, 5 * MiB);
  EXPECT_EQ(reserved(), 6 * MiB);
  void* const next = alloc(s, MiB + 512);
  EXPECT_EQ(reserved(), 8 * MiB);  // what was left of the last page counts
  free(block);
  free(next);
}

TEST_F(PuzzlesTest, AddressSpaceIsTakenAsItIsNeeded) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) {
    const Stream each = stream();
    blocks.push_back(alloc(each, 2 * MiB));
    blocks.push_back(alloc(each, 4 * KiB));
  }
  // Nine eighths of the card for each of 100 streams would be 450 GiB.
  EXPECT_LE(allocator->stats().address_space_bytes, static_cast<std::int64_t>(204 * GiB));
  free_all(blocks);
}

}  // namespace
}  // namespace reprieve::memory
