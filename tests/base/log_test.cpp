// Log lines, in child processes: where they go, how they begin, and which are left out.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace reprieve {
namespace {

const char* const rank_variables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

// In the child: with `variable` set, at `level`, writes one line of each kind.
[[noreturn]] void write_all(const char* variable, const char* value, log::Level level) {
  for (const char* name : rank_variables) unsetenv(name);
  if (variable != nullptr) setenv(variable, value, 1);
  log::set_level(level);
  log::error("an error, {}", 1);
  log::warn("a warning, {}", 2);
  log::info("an info, {}", 3);
  log::debug("a debug, {}", 4);
  std::exit(0);
}

class LogDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LogDeathTest, LinesAtTheLevelAndAbove) {
  const auto succeeded = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(write_all(nullptr, "", log::Level::warn), succeeded,
              "^reprieve: error: an error, 1\nreprieve: warning: a warning, 2\n$");
  EXPECT_EXIT(write_all(nullptr, "", log::Level::error), succeeded, "^reprieve: error: an error, 1\n$");
  EXPECT_EXIT(write_all(nullptr, "", log::Level::debug), succeeded, "info: an info, 3\nreprieve: debug: a debug, 4\n$");
}

TEST_F(LogDeathTest, Off) { EXPECT_EXIT(write_all(nullptr, "", log::Level::off), ::testing::ExitedWithCode(0), "^$"); }

TEST_F(LogDeathTest, TheRankIsSaid) {
  for (const char* name : rank_variables) {
    EXPECT_EXIT(write_all(name, "3", log::Level::error), ::testing::ExitedWithCode(0),
                "^reprieve.rank 3. error: an error, 1\n$");
  }
  EXPECT_EXIT(write_all("RANK", "", log::Level::error), ::testing::ExitedWithCode(0), "^reprieve: error");
}

TEST(Log, Enabled) {
  log::set_level(log::Level::info);
  EXPECT_TRUE(log::enabled(log::Level::error));
  EXPECT_TRUE(log::enabled(log::Level::info));
  EXPECT_FALSE(log::enabled(log::Level::debug));
  log::set_level(log::Level::warn);
}

}  // namespace
}  // namespace reprieve
