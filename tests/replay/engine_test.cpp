#include "replay/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "fake_library.hpp"
#include "replay/replay.h"

namespace reprieve::replay {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;

reprieve_replay_config configured(const char* device, std::uint64_t limit, std::uint64_t capacity,
                                  std::int32_t repeats) {
  reprieve_replay_config config{};
  config.size = sizeof config;
  config.device = device;
  config.limit_bytes = limit;
  config.capacity_bytes = capacity;
  config.repeats = repeats;
  return config;
}

class Engine : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }

  Outcome run_text(const std::string& text) { return measure(run, text); }
  Outcome search_text(const std::string& text) { return measure(find_min_limit, text); }

  // Every call of that name, in order, with its arguments.
  static std::vector<std::string> calls(const std::string& name) {
    std::vector<std::string> found;
    for (const std::string& call : fake::library().log) {
      if (call == name || call.starts_with(name + " ")) found.push_back(call);
    }
    return found;
  }

  // What must hold after every outcome.
  static void expect_everything_given_back() {
    EXPECT_TRUE(fake::library().live.empty());
    EXPECT_FALSE(fake::library().started);
    EXPECT_EQ(calls("stream_create").size(), calls("stream_destroy").size());
  }

  reprieve_replay_config config = configured("sim", 0, 0, 1);
  reprieve_replay_result result{};
  std::string error;

 private:
  template <typename Measurement>
  Outcome measure(Measurement measurement, const std::string& text) {
    Trace trace;
    ParseError parse_error;
    EXPECT_TRUE(parse(text, trace, parse_error)) << parse_error.text;
    return measurement(trace, config, result, error);
  }
};

TEST_F(Engine, MakesTheCallsOfTheTrace) {
  ASSERT_EQ(run_text("a,0,100,0,0\na,1,200,5,1\nr,0,0,5,2\nf,0,,0,3\nf,1,,0,4\n"), Outcome::done) << error;
  const std::vector<std::string> expected = {
      "set_option device=sim", "set_option limit=0", "init", "stream_create 16",
      // First pass; what it costs is known before anything is put away.
      "alloc 100 0", "alloc 200 16", "record_stream 16", "dealloc", "dealloc_on 0", "validate", "stream_synchronize 0",
      "stream_synchronize 16",
      // Second pass, on the memory that the first one left.
      "alloc 100 0", "alloc 200 16", "record_stream 16", "dealloc", "dealloc_on 0", "stream_synchronize 0",
      "stream_synchronize 16", "empty_cache", "stream_destroy 16", "shutdown"};
  EXPECT_EQ(fake::library().log, expected);
  expect_everything_given_back();
}

TEST_F(Engine, TellsMemoryAndDriverOfTheFirstPass) {
  fake::library().overhead_pages = 1;
  ASSERT_EQ(run_text("a,0,2097152,0,0\na,1,2097152,0,0\nf,0,,0,3\n"), Outcome::done) << error;
  EXPECT_EQ(result.completed, 1);
  EXPECT_EQ(result.failed_at_event, -1);
  EXPECT_EQ(result.peak_reserved_bytes, 6 * MiB);
  EXPECT_EQ(result.driver_calls[fake::Library::create_kind], 3);
  EXPECT_EQ(result.driver_calls[fake::Library::release_kind], 0) << "giving back is teardown";
  EXPECT_DOUBLE_EQ(result.driver_us, 3.0);
  EXPECT_DOUBLE_EQ(result.teardown_driver_us, 3.0);
  EXPECT_GT(result.total_ns_per_event, 0);
  EXPECT_GT(result.total_ns_per_event_second_pass, 0);
  EXPECT_EQ(result.min_limit_bytes, 0u);
}

TEST_F(Engine, EveryRepeatIsAFreshStart) {
  config.repeats = 3;
  ASSERT_EQ(run_text("a,0,4,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(fake::library().starts, 3);
  EXPECT_EQ(calls("alloc").size(), 6u);
  EXPECT_EQ(calls("validate").size(), 1u);
  expect_everything_given_back();
}

TEST_F(Engine, BlocksOfZeroBytesAreNeitherRecordedNorKept) {
  ASSERT_EQ(run_text("a,0,0,0,0\nr,0,0,1,0\nf,0,,1,0\n"), Outcome::done) << error;
  EXPECT_TRUE(calls("record_stream").empty());
  expect_everything_given_back();
}

TEST_F(Engine, OutOfMemoryIsAResult) {
  config.limit_bytes = 64 * MiB;
  config.repeats = 5;
  ASSERT_EQ(run_text("a,0,33554432,0,0\na,1,33554432,0,0\na,2,1,0,0\nf,0,,0,3\n"), Outcome::done) << error;
  EXPECT_EQ(result.completed, 0);
  EXPECT_EQ(result.failed_at_event, 2);
  EXPECT_EQ(fake::library().starts, 1) << "a second try would fail as the first one did";
  expect_everything_given_back();
}

TEST_F(Engine, AnyOtherFailureOfACallIsAnErrorThatNamesIt) {
  for (const char* call : {"init", "stream_create", "alloc", "dealloc", "dealloc_on", "record_stream", "validate",
                           "stream_synchronize", "empty_cache", "stream_destroy", "shutdown"}) {
    fake::reset();
    fake::library().failing_call = call;
    EXPECT_EQ(run_text("# h\na,0,100,0,0\na,1,200,5,1\nr,0,0,5,2\nf,0,,0,3\nf,1,,0,4\n"), Outcome::failed) << call;
    EXPECT_TRUE(error.ends_with(": the driver said no")) << error;
    EXPECT_GE(calls("shutdown").size(), 1u) << call;
    if (std::string(call) == "record_stream") {
      EXPECT_EQ(error, "event 2 (line 4 of the trace): the driver said no");
    }
  }
}

TEST_F(Engine, RefusesAConfigurationThatIsNone) {
  const std::string text = "a,0,1,0,0\n";
  config.device = "tpu";
  EXPECT_EQ(run_text(text), Outcome::refused);
  EXPECT_EQ(error, "unknown device, accepted are sim and cuda");
  config = configured("cuda", 0, 1 << 30, 1);
  EXPECT_EQ(run_text(text), Outcome::refused);
  config = configured("sim", 0, 0, 0);
  EXPECT_EQ(run_text(text), Outcome::refused);
  config = configured("sim", 1 << 30, 0, 1);
  EXPECT_EQ(search_text(text), Outcome::refused);
  EXPECT_TRUE(fake::library().log.empty()) << "nothing was begun";
  config = configured("sim", 13, 0, 1);
  EXPECT_EQ(run_text(text), Outcome::refused);
  EXPECT_EQ(error, "limit: 13 is not accepted");
}

TEST_F(Engine, CapacityIsTheSimulatedCards) {
  config.capacity_bytes = 1 << 30;
  ASSERT_EQ(run_text("a,0,1,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(calls("set_option").back(), "set_option sim_capacity=1073741824");
}

TEST_F(Engine, FindsTheSmallestLimit) {
  for (const std::uint64_t overhead : {0u, 1u, 7u, 40u}) {
    fake::reset();
    fake::library().overhead_pages = overhead;
    // 100 MiB and a byte: 51 pages.
    ASSERT_EQ(search_text("a,0,104857600,0,0\na,1,1,0,0\n"), Outcome::done) << error;
    EXPECT_EQ(result.completed, 1);
    EXPECT_EQ(result.failed_at_event, -1);
    EXPECT_EQ(result.min_limit_bytes, (51 + overhead) * 2 * MiB);
    EXPECT_EQ(result.peak_reserved_bytes, (51 + overhead) * 2 * MiB) << "of the run without a limit";
    const std::string last = calls("set_option").back();
    EXPECT_EQ(last, "set_option limit=" + std::to_string(result.min_limit_bytes)) << "the result is checked";
    expect_everything_given_back();
  }
}

TEST_F(Engine, NoLimitBelowTheSmallestThatTheLibraryTakes) {
  ASSERT_EQ(search_text("a,0,1,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(result.min_limit_bytes, 32 * MiB);
}

TEST_F(Engine, NoLimitIsFoundWhereNoneCompletes) {
  // What a limited library needs here grows with every start: no limit that the first run suggests is enough.
  fake::library().overhead_pages = 100;
  fake::library().shrinks_after_starts = 2;
  ASSERT_EQ(search_text("a,0,104857600,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(result.completed, 0);
  EXPECT_EQ(result.failed_at_event, 0);
  EXPECT_EQ(result.min_limit_bytes, 0u);
  expect_everything_given_back();
}

TEST_F(Engine, ALimitThatDoesNotHoldASecondTimeIsAnError) {
  // One run without a limit, one at the top, six halvings of 66 - 50 pages, then the check.
  ASSERT_EQ(search_text("a,0,104857600,0,0\n"), Outcome::done) << error;
  const int starts = fake::library().starts;
  fake::reset();
  fake::library().shrinks_after_starts = static_cast<std::uint64_t>(starts);
  EXPECT_EQ(search_text("a,0,104857600,0,0\n"), Outcome::failed);
  EXPECT_EQ(error, "the limit of 104857600 bytes completed once and then did not");
}

TEST_F(Engine, ACardThatIsTooSmallIsAResultOfTheSearchToo) {
  fake::library().memory_bytes = 64 * MiB;
  ASSERT_EQ(search_text("a,0,104857600,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(result.completed, 0);
  EXPECT_EQ(result.failed_at_event, 0);
  EXPECT_EQ(fake::library().starts, 1);
}

// ---- the C side ----

TEST_F(Engine, CInterfaceGivesTheLineOfABadTrace) {
  reprieve_replay_trace* trace = nullptr;
  reprieve_replay_error wrong{};
  wrong.size = sizeof wrong;
  const std::string text = "a,0,1,0,0\nx,0,1,0,0\n";
  EXPECT_EQ(reprieve_replay_parse(text.data(), text.size(), &trace, &wrong), REPRIEVE_REPLAY_REFUSED);
  EXPECT_EQ(trace, nullptr);
  EXPECT_EQ(wrong.line, 2u);
  EXPECT_TRUE(std::string(wrong.text).starts_with("op 'x' is unknown"));
  EXPECT_EQ(reprieve_replay_parse(text.data(), text.size(), &trace, nullptr), REPRIEVE_REPLAY_REFUSED);
}

TEST_F(Engine, CInterfaceFillsOnlyWhatTheCallerKnows) {
  reprieve_replay_trace* trace = nullptr;
  const std::string text = "# h\na,0,4096,0,0\nf,0,,3,7\n";
  ASSERT_EQ(reprieve_replay_parse(text.data(), text.size(), &trace, nullptr), REPRIEVE_REPLAY_OK);
  reprieve_replay_trace_info info{};
  info.size = sizeof info;
  reprieve_replay_trace_describe(trace, &info);
  EXPECT_EQ(info.size, sizeof info);
  EXPECT_EQ(info.events, 2u);
  EXPECT_EQ(info.streams, 2u);
  EXPECT_EQ(info.first_event_line, 2u);
  EXPECT_EQ(info.peak_requested_bytes, 4096u);
  EXPECT_EQ(info.duration_us, 7u);

  std::memset(&result, 0x5a, sizeof result);
  result.size = offsetof(reprieve_replay_result, min_limit_bytes);
  EXPECT_EQ(reprieve_replay_run(trace, &config, &result, nullptr), REPRIEVE_REPLAY_OK);
  EXPECT_EQ(result.size, offsetof(reprieve_replay_result, min_limit_bytes));
  EXPECT_EQ(result.completed, 1);
  EXPECT_EQ(result.peak_reserved_bytes, 2 * MiB);
  EXPECT_EQ(result.min_limit_bytes, 0x5a5a5a5a5a5a5a5au);
  EXPECT_EQ(reprieve_replay_run(trace, nullptr, &result, nullptr), REPRIEVE_REPLAY_REFUSED);
  reprieve_replay_trace_free(trace);
}

TEST_F(Engine, CInterfaceSearchesAndReports) {
  reprieve_replay_trace* trace = nullptr;
  const std::string text = "a,0,104857600,0,0\n";
  ASSERT_EQ(reprieve_replay_parse(text.data(), text.size(), &trace, nullptr), REPRIEVE_REPLAY_OK);
  result.size = sizeof result;
  EXPECT_EQ(reprieve_replay_min_limit(trace, &config, &result, nullptr), REPRIEVE_REPLAY_OK);
  EXPECT_EQ(result.min_limit_bytes, 100 * MiB);
  fake::library().failing_call = "init";
  reprieve_replay_error wrong{};
  wrong.size = sizeof wrong;
  EXPECT_EQ(reprieve_replay_run(trace, &config, &result, &wrong), REPRIEVE_REPLAY_FAILED);
  EXPECT_STREQ(wrong.text, "start: the driver said no");
  reprieve_replay_trace_free(trace);
}

}  // namespace
}  // namespace reprieve::replay
