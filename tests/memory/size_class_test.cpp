// Size classes, and the bins that are built on them.
#include "memory/size_class.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "memory/bins.hpp"
#include "memory/span.hpp"

namespace reprieve::memory {
namespace {

std::uint64_t index(std::uint64_t bytes) {
  const SizeClass c = SizeClass::of(bytes);
  EXPECT_LT(c.row, SizeClass::rows) << bytes;
  EXPECT_LT(c.column, SizeClass::columns) << bytes;
  return std::uint64_t{c.row} * SizeClass::columns + c.column;
}

TEST(SizeClass, SmallSizesHaveAClassEach) {
  for (std::uint64_t units = 1; units < 64; ++units) EXPECT_EQ(index(units * block_unit), units);
}

TEST(SizeClass, GrowsWithTheSizeAndIsNarrow) {
  std::uint64_t class_begin = block_unit;
  std::uint64_t last = index(block_unit);
  for (std::uint64_t bytes = block_unit; bytes < (1ULL << 45); bytes += block_unit + bytes / 1000 / 512 * 512) {
    const std::uint64_t here = index(bytes);
    ASSERT_GE(here, last);
    if (here != last) class_begin = bytes;
    EXPECT_LE(static_cast<double>(bytes - class_begin), static_cast<double>(class_begin) / 32) << bytes;
    last = here;
  }
  index((1ULL << 46) - block_unit);
}

Range range_of(std::uint64_t address, std::uint64_t size) {
  Range range{};
  range.address = address;
  range.size = size;
  return range;
}

TEST(Bins, FindsTheBestOfAClassElseALargerOne) {
  Bins bins;
  EXPECT_EQ(bins.find(512), nullptr);
  // One class, 8 KiB wide, whose members differ.
  Range big = range_of(0x10000, 520 * 1024 + 4096);
  Range fitting = range_of(0x20000, 520 * 1024 + 1024);
  Range far = range_of(0x30000, 64 << 20);
  for (Range* range : {&far, &fitting, &big}) bins.insert(range);
  EXPECT_EQ(bins.find(520 * 1024 + 512), &fitting);
  EXPECT_EQ(bins.find(520 * 1024 + 2048), &big);
  EXPECT_EQ(bins.find(520 * 1024 + 4608), &far);
  EXPECT_EQ(bins.find(64 << 20), &far);
  EXPECT_EQ(bins.find((64 << 20) + 512), nullptr);
  bins.remove(&fitting);
  EXPECT_EQ(bins.find(520 * 1024 + 512), &big);
  bins.remove(&big);
  EXPECT_EQ(bins.find(512), &far);
  bins.remove(&far);
  EXPECT_EQ(bins.find(512), nullptr);
}

TEST(Bins, TakesTheLowestAddressOfEqualSizes) {
  Bins bins;
  Range high = range_of(0x30000, 4096);
  Range low = range_of(0x10000, 4096);
  bins.insert(&low);
  bins.insert(&high);
  EXPECT_EQ(bins.find(4096), &low);
}

TEST(Bins, VisitsFromTheLargestClassDown) {
  Bins bins;
  Range ranges[] = {range_of(1 << 20, 512), range_of(2 << 20, 1 << 20), range_of(3 << 20, 1 << 30)};
  for (Range& range : ranges) bins.insert(&range);
  std::vector<std::uint64_t> sizes;
  bins.for_each_from_largest(1024, [&](const Range& range) {
    sizes.push_back(range.size);
    return true;
  });
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{1 << 30, 1 << 20}));
}

TEST(Holes, CoalesceAndSplit) {
  Holes holes;
  holes.add(100, 100);
  holes.remove(120, 30);
  EXPECT_TRUE(holes.contains(100));
  EXPECT_TRUE(holes.contains(119));
  EXPECT_FALSE(holes.contains(120));
  EXPECT_FALSE(holes.contains(149));
  EXPECT_TRUE(holes.contains(150));
  EXPECT_FALSE(holes.contains(200));
  EXPECT_EQ(holes.room_from(150), 50U);
  EXPECT_EQ(holes.room_from(151), 0U);
  holes.add(120, 30);
  EXPECT_EQ(holes.all().size(), 1U);
  EXPECT_EQ(holes.room_from(100), 100U);
  holes.remove(100, 100);
  EXPECT_TRUE(holes.all().empty());
}

}  // namespace
}  // namespace reprieve::memory
