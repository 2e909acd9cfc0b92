// Traces from events in memory.
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "replay/trace.hpp"

namespace reprieve::replay {
namespace {

using Events = std::vector<reprieve_replay_event>;

reprieve_replay_event allocate(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream, std::uint64_t time_us,
                               std::uint32_t pool = 0, std::uint16_t flags = 0) {
  return {id, bytes, stream, time_us, pool, REPRIEVE_REPLAY_ALLOCATE, flags};
}
reprieve_replay_event free_on(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream, std::uint64_t time_us) {
  return {id, bytes, stream, time_us, 0, REPRIEVE_REPLAY_FREE, 0};
}
reprieve_replay_event record(std::uint64_t id, std::uint64_t stream, std::uint64_t time_us) {
  return {id, 0, stream, time_us, 0, REPRIEVE_REPLAY_RECORD, 0};
}

TEST(TraceEvents, KeepWhatAReplayNeeds) {
  const Events events = {
      allocate(0x7f00, 100, 0, 5), allocate(9, 200, 0xabc, 6, 4), allocate(10, 1, 0, 6, 8, REPRIEVE_REPLAY_GRAPH_POOL),
      record(0x7f00, 0xabc, 7),    free_on(0x7f00, 100, 0, 8),    allocate(0x7f00, 50, 0xabc, 9, 4),
      free_on(9, 0, 0, 9),         free_on(0x7f00, 0, 0xabc, 30)};
  Trace trace;
  ParseError error;
  ASSERT_TRUE(from_events(events.data(), events.size(), trace, error)) << error.text;
  ASSERT_EQ(trace.events.size(), events.size());
  EXPECT_EQ(trace.first_event_line, 0u) << "there are no lines";
  EXPECT_EQ(trace.stream_ids, (std::vector<std::uint64_t>{0, 0xabc}));
  ASSERT_EQ(trace.pools.size(), 3u);
  EXPECT_EQ(trace.pools[1].id, 4u);
  EXPECT_FALSE(trace.pools[1].graph);
  EXPECT_TRUE(trace.pools[2].graph);
  EXPECT_EQ(trace.events[0].pool, 0);
  EXPECT_EQ(trace.events[1].pool, 1);
  EXPECT_EQ(trace.events[2].pool, 2);
  EXPECT_EQ(trace.events[5].slot, trace.events[0].slot) << "an id may be used again once its block is freed";
  EXPECT_EQ(trace.events[6].op, Op::free_on);
  EXPECT_EQ(trace.events[7].op, Op::free);
  EXPECT_EQ(trace.peak_requested_bytes, 301u);
  EXPECT_EQ(trace.duration_us, 25u);
  EXPECT_EQ(trace.times_us.front(), 0u);
  EXPECT_EQ(trace.times_us.back(), 25u);
}

struct Bad {
  const char* name;
  Events events;
  std::int64_t event;
  const char* message;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadEvents : public testing::TestWithParam<Bad> {};

TEST_P(BadEvents, AreRefusedWithTheEvent) {
  Trace trace;
  ParseError error;
  EXPECT_FALSE(from_events(GetParam().events.data(), GetParam().events.size(), trace, error));
  EXPECT_EQ(error.event, GetParam().event);
  EXPECT_EQ(error.line, 0u);
  EXPECT_EQ(error.text, GetParam().message);
}

Events with(reprieve_replay_event last, std::uint16_t op, std::uint16_t flags) {
  last.op = op;
  last.flags = flags;
  return {allocate(1, 8, 0, 0), last};
}

Events too_many_streams() {
  Events events;
  for (std::uint64_t i = 0; i < 65536; ++i) events.push_back(allocate(i, 1, i, 0));
  return events;
}

Events too_many_pools() {
  Events events;
  for (std::uint32_t i = 0; i <= 65536; ++i) events.push_back(allocate(i, 1, 0, 0, i));
  return events;
}

constexpr std::uint64_t too_large = 1ULL << 63;

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadEvents,
    testing::Values(
        Bad{"Empty", {}, -1, "the trace is empty, it must have at least one event"},
        Bad{"UnknownOp", with(allocate(2, 8, 0, 0), 4, 0), 1,
            "op 4 is unknown, accepted are 0 (allocate), 1 (free), 2 (record) and 3 (empty cache)"},
        Bad{"UnknownFlag", with(allocate(2, 8, 0, 0, 1), REPRIEVE_REPLAY_ALLOCATE, 2), 1,
            "flags 2, accepted are 0, and 1 (a graph's pool) on an allocation"},
        Bad{"FlagOnFree", with(free_on(1, 8, 0, 0), REPRIEVE_REPLAY_FREE, 1), 1,
            "flags 1, accepted are 0, and 1 (a graph's pool) on an allocation"},
        Bad{"Bytes",
            {allocate(1, too_large, 0, 0)},
            0,
            "bytes 9223372036854775808 is too large, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"Time",
            {allocate(1, 1, 0, too_large)},
            0,
            "time_us 9223372036854775808 is too large, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"TimeGoesBack",
            {allocate(1, 8, 0, 9), allocate(2, 8, 0, 8)},
            1,
            "time_us 8 is before the last event's 9, times must not go back"},
        Bad{"IdLive",
            {allocate(1, 8, 0, 0), allocate(1, 8, 0, 0)},
            1,
            "id 1 is allocated while a block of that id is live, it must be freed first"},
        Bad{"FreeOfUnknown", {free_on(1, 8, 0, 0)}, 0, "id 1 is freed but is not allocated, it must be a live block's"},
        Bad{"FreedTwice",
            {allocate(1, 8, 0, 0), free_on(1, 0, 0, 0), free_on(1, 0, 0, 0)},
            2,
            "id 1 is freed but is not allocated, it must be a live block's"},
        Bad{"FreeOfOtherSize",
            {allocate(1, 8, 0, 0), free_on(1, 4, 0, 0)},
            1,
            "id 1 is freed with 4 bytes, accepted are its 8 and nothing"},
        Bad{"RecordOfUnknown",
            {record(1, 0, 0)},
            0,
            "id 1 is recorded but is not allocated, it must be a live block's"},
        Bad{"RecordWithBytes", with(free_on(1, 8, 0, 0), REPRIEVE_REPLAY_RECORD, 0), 1,
            "bytes 8 with op 2 (record), accepted is 0"},
        Bad{"EmptyCacheOfABlock", with(free_on(1, 0, 0, 0), REPRIEVE_REPLAY_EMPTY_CACHE, 0), 1,
            "op 3 (empty cache) with an id, bytes or a stream, accepted is 0 for each"},
        Bad{"EmptyCacheBefore",
            {allocate(1, 8, 0, 5), {0, 0, 0, 4, 0, REPRIEVE_REPLAY_EMPTY_CACHE, 0}},
            1,
            "time_us 4 is before the last event's 5, times must not go back"},
        Bad{"SumOverflows",
            {allocate(1, too_large - 1, 0, 0), allocate(2, 1, 0, 0)},
            1,
            "more than 9223372036854775807 bytes live"},
        Bad{"DefaultPoolOfAGraph",
            {allocate(1, 8, 0, 0, 0, REPRIEVE_REPLAY_GRAPH_POOL)},
            0,
            "pool 0 is marked as a graph's, it is the default pool"},
        Bad{"PoolOfBothKinds",
            {allocate(1, 8, 0, 0, 5, REPRIEVE_REPLAY_GRAPH_POOL), allocate(2, 8, 0, 0, 5)},
            1,
            "pool 5 is a graph's in one event and none in another, it must be the same in all"},
        Bad{"TooManyStreams", too_many_streams(), 65535,
            "stream '65535' is one too many, accepted are 65535 different ones"},
        Bad{"TooManyPools", too_many_pools(), 65536, "pool 65536 is one too many, accepted are 65535 different ones"}),
    [](const testing::TestParamInfo<Bad>& bad) { return bad.param.name; });

}  // namespace
}  // namespace reprieve::replay
