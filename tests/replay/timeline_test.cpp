#include "replay/timeline.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace reprieve::replay {
namespace {

Trace parsed(const std::string& text) {
  Trace trace;
  ParseError error;
  EXPECT_TRUE(parse(text, trace, error)) << error.text;
  return trace;
}

// The ends of all intervals, in order.
std::vector<std::size_t> ends(const Trace& trace, std::size_t room) {
  std::vector<reprieve_replay_sample> samples(room);
  const Timeline timeline(trace, samples.data(), room);
  std::vector<std::size_t> out;
  for (std::size_t from = 0; from < trace.events.size(); from = out.back()) {
    out.push_back(timeline.interval_end(from));
    EXPECT_GT(out.back(), from);
    if (out.back() <= from) break;
  }
  return out;
}

TEST(Timeline, IntervalsAreOfEqualTime) {
  const Trace trace = parsed("a,0,1,0,0\na,1,1,0,10\na,2,1,0,40\na,3,1,0,60\na,4,1,0,99\na,5,1,0,100\n");
  EXPECT_EQ(ends(trace, 3), (std::vector<std::size_t>{3, 6}));
  EXPECT_EQ(ends(trace, 11), (std::vector<std::size_t>{1, 2, 3, 4, 6})) << "without the empty ones";
  EXPECT_EQ(ends(trace, 2), (std::vector<std::size_t>{6}));
}

TEST(Timeline, IntervalsAreOfEqualCountWhereNoTimePassed) {
  const Trace trace = parsed("a,0,1,0,7\na,1,1,0,7\na,2,1,0,7\na,3,1,0,7\na,4,1,0,7\n");
  EXPECT_EQ(ends(trace, 3), (std::vector<std::size_t>{2, 5}));
  EXPECT_EQ(ends(parsed("a,0,1,0,7\n"), 3), (std::vector<std::size_t>{1}));
}

TEST(Timeline, EachTellsTheMostThatWasLive) {
  const Trace trace = parsed("a,0,100,0,0\na,1,50,0,10\nf,0,,0,20\na,2,20,0,60\nr,2,0,1,61\nf,1,,0,70\na,3,9,0,100\n");
  std::vector<reprieve_replay_sample> samples(3);
  Timeline timeline(trace, samples.data(), samples.size());
  ASSERT_EQ(timeline.interval_end(0), 3u);
  timeline.add(0, 3, 4096);
  timeline.add(3, 6, 8192);
  timeline.fail(6, 2048);
  ASSERT_EQ(timeline.count(), 3u);
  EXPECT_EQ(samples[0].event, 1u);
  EXPECT_EQ(samples[0].time_us, 10u);
  EXPECT_EQ(samples[0].requested, 150u);
  EXPECT_EQ(samples[0].reserved, 4096u);
  EXPECT_EQ(samples[1].event, 3u);
  EXPECT_EQ(samples[1].requested, 70u);
  EXPECT_EQ(samples[2].event, 6u);
  EXPECT_EQ(samples[2].time_us, 100u);
  EXPECT_EQ(samples[2].requested, 20u) << "what is live when memory runs out";
  EXPECT_EQ(samples[2].reserved, 2048u);
}

TEST(Timeline, CoversAnyTraceWithinItsRoom) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string text;
    std::uint64_t time = random() % 1000;
    const std::size_t count = 1 + random() % 300;
    for (std::size_t i = 0; i < count; ++i) {
      if (random() % 3 == 0) time += random() % 2 == 0 ? random() % 5 : random();
      text += "a," + std::to_string(i) + ",1,0," + std::to_string(time) + "\n";
    }
    const std::size_t room = 2 + random() % 100;
    const std::vector<std::size_t> found = ends(parsed(text), room);
    EXPECT_LE(found.size(), room - 1) << "one place is a failure's";
    EXPECT_EQ(found.back(), count);
  }
}

}  // namespace
}  // namespace reprieve::replay
