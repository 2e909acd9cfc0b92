// Sizes as text: read in binary and decimal units, written the way torch writes them.
#include <gtest/gtest.h>

#include "base/options.hpp"

namespace reprieve {
namespace {

std::uint64_t bytes_of(std::string_view text) {
  std::uint64_t out = 0;
  EXPECT_TRUE(parse_bytes(text, out)) << text;
  return out;
}

bool refused(std::string_view text) {
  std::uint64_t out = 42;
  return !parse_bytes(text, out);
}

TEST(Sizes, BinaryAndDecimalUnits) {
  EXPECT_EQ(bytes_of("4096"), 4096U);
  EXPECT_EQ(bytes_of("17B"), 17U);
  EXPECT_EQ(bytes_of("2k"), 2 * KiB);
  EXPECT_EQ(bytes_of("2KiB"), 2 * KiB);
  EXPECT_EQ(bytes_of("2KB"), 2'000U);
  EXPECT_EQ(bytes_of("3m"), 3 * MiB);
  EXPECT_EQ(bytes_of("3MiB"), 3 * MiB);
  EXPECT_EQ(bytes_of("3MB"), 3'000'000U);
  EXPECT_EQ(bytes_of("24GiB"), 24 * GiB);
  EXPECT_EQ(bytes_of("24g"), 24 * GiB);
  EXPECT_EQ(bytes_of("1.5 GB"), 1'500'000'000U);
  EXPECT_EQ(bytes_of("1T"), 1024 * GiB);
  EXPECT_EQ(bytes_of("1TiB"), 1024 * GiB);
  EXPECT_EQ(bytes_of("1tb"), 1'000'000'000'000U);
  EXPECT_EQ(bytes_of("\t 0.5 mib "), MiB / 2);
  EXPECT_EQ(bytes_of("0"), 0U);
}

TEST(Sizes, WholeNumbersAreExact) {
  EXPECT_EQ(bytes_of("9007199254740993"), 9'007'199'254'740'993U);  // 2^53 + 1: no double
}

TEST(Sizes, WhatIsNone) {
  for (const char* text : {"", " ", "GiB", "-1", "-1GiB", "1 GiBs", "1.2.3", "0x10", "nan", "inf", "1e400", "ten",
                           "9.3e18", "18446744073709551616", "10000000000000000000", "9000000TiB", "12 %"}) {
    EXPECT_TRUE(refused(text)) << "'" << text << "'";
  }
}

TEST(Sizes, WrittenAsTorchDoes) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(17), "17 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(512 * KiB), "512.00 KiB");
  EXPECT_EQ(format_bytes(MiB), "1.00 MiB");
  EXPECT_EQ(format_bytes(5 * GiB + 154 * MiB), "5.15 GiB");
  EXPECT_EQ(format_bytes(2048 * GiB), "2048.00 GiB");
}

}  // namespace
}  // namespace reprieve
