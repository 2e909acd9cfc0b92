// Policies, private pools and samples, as the engine's callers ask for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "fake_library.hpp"
#include "replay/engine.hpp"

namespace reprieve::replay {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;

class Policies : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    config.size = sizeof config;
    config.device = "sim";
    config.repeats = 1;
  }

  Outcome measure(const std::string& text) { return ask(run, text); }
  Outcome search(const std::string& text) { return ask(find_min_limit, text); }

  reprieve_replay_config config{};
  reprieve_replay_result result{};
  std::string error;

 private:
  template <typename Function>
  Outcome ask(Function function, const std::string& text) {
    Trace trace;
    ParseError parse_error;
    EXPECT_TRUE(parse(text, trace, parse_error)) << parse_error.text;
    result = {};
    return function(trace, config, result, error);
  }
};

// 30 MiB come and go, then 40: plain segments keep both, an expandable one grows.
const std::string growing = "a,0,31457280,0,0\nf,0,,0,5\na,1,41943040,0,9\nf,1,,0,10\n";

TEST_F(Policies, AModelNeedsNoLibrary) {
  config.policy = "native";
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.completed, 1);
  EXPECT_EQ(result.failed_at_event, -1);
  EXPECT_EQ(result.peak_reserved_bytes, 70 * MiB);
  EXPECT_EQ(result.cuda_malloc_calls, 2);
  EXPECT_EQ(result.cuda_free_calls, 0) << "giving back is teardown";
  EXPECT_GT(result.driver_us, 128);
  EXPECT_GT(result.teardown_driver_us, 94);
  EXPECT_EQ(result.alloc_retries, 0);
  EXPECT_TRUE(std::isnan(result.ns_per_event)) << "a model's own time is not PyTorch's";
  EXPECT_TRUE(std::isnan(result.total_ns_per_event_second_pass));
  EXPECT_TRUE(fake::library().log.empty());

  config.policy = "expandable";
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.peak_reserved_bytes, 40 * MiB);
  EXPECT_EQ(result.cuda_malloc_calls, 0);
  EXPECT_EQ(result.driver_calls[fake::Library::create_kind], 2);
}

TEST_F(Policies, OutOfMemoryIsAResult) {
  config.policy = "native";
  config.limit_bytes = 39 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.completed, 0);
  EXPECT_EQ(result.failed_at_event, 2);
  EXPECT_EQ(result.alloc_retries, 1);
  config.limit_bytes = 0;
  config.capacity_bytes = 36 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.failed_at_event, 2) << "the card's end is one as well";
}

TEST_F(Policies, TheSmallestLimitOfAModel) {
  config.policy = "native";
  ASSERT_EQ(search(growing), Outcome::done) << error;
  EXPECT_EQ(result.min_limit_bytes, 40 * MiB);
  EXPECT_EQ(result.peak_reserved_bytes, 70 * MiB) << "of the run without a limit";
  ASSERT_EQ(search("a,0,1,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(result.min_limit_bytes, 2 * MiB);

  // 40 MiB are mapped for 21, and the limit is held against 21 in multiples of 2; then against 40 and 25, though 20 more
  // are mapped: more than is reserved without a limit, and than 1.3 x the peak.
  config.policy = "expandable";
  ASSERT_EQ(search("a,0,22020096,0,0\na,1,26214400,0,0\n"), Outcome::done) << error;
  EXPECT_EQ(result.completed, 1);
  EXPECT_EQ(result.peak_reserved_bytes, 60 * MiB);
  EXPECT_EQ(result.min_limit_bytes, 66 * MiB);
}

TEST_F(Policies, TheConfigurationSteersTheModels) {
  config.policy = "native";
  config.alloc_conf = "roundup_power2_divisions:1,per_process_memory_fraction:0.5";
  config.capacity_bytes = 128 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.failed_at_event, -1);
  config.capacity_bytes = 64 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.failed_at_event, 2) << "half of the card is less than 40 MiB";
}

TEST_F(Policies, TheNameDecidesOnExpandableSegments) {
  config.policy = "native";
  config.alloc_conf = "expandable_segments:True";
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.cuda_malloc_calls, 2);
  config.policy = "expandable";
  config.alloc_conf = "expandable_segments:False";
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(result.cuda_malloc_calls, 0);
}

TEST_F(Policies, WhatIsNotAcceptedIsRefusedBeforeAnythingBegins) {
  const auto refused = [&](const char* policy, const char* device, const char* conf) {
    config.policy = policy;
    config.device = device;
    config.alloc_conf = conf;
    EXPECT_EQ(measure(growing), Outcome::refused);
    EXPECT_EQ(search(growing), Outcome::refused);
    EXPECT_TRUE(fake::library().log.empty());
    return error;
  };
  EXPECT_EQ(refused("bfc", "sim", nullptr), "unknown policy, accepted are reprieve, native and expandable");
  EXPECT_EQ(refused("native", "cuda", nullptr), "the policy native is a model, accepted with device sim only");
  EXPECT_EQ(refused("expandable", "tpu", nullptr), "the policy expandable is a model, accepted with device sim only");
  EXPECT_EQ(refused("reprieve", "sim", ""),
            "an alloc conf is PyTorch's, accepted with the policies native and expandable only");
  EXPECT_TRUE(refused("native", "sim", "max_split_size_mb:1").starts_with("max_split_size_mb: '1' is not accepted"));
  config.capacity_bytes = 5;
  EXPECT_TRUE(refused("native", "sim", nullptr).starts_with("sim_capacity")) << error;
  config.capacity_bytes = 0;
  config.sample_capacity = 1;
  EXPECT_EQ(refused("native", "sim", nullptr), "a place for 2 samples or more is needed, or none");
  config.sample_capacity = 2;
  EXPECT_EQ(refused(nullptr, "sim", nullptr), "a place for 2 samples or more is needed, or none");
}

TEST_F(Policies, SamplesAreThoseOfTheRun) {
  std::vector<reprieve_replay_sample> samples(100);
  config.samples = samples.data();
  config.sample_capacity = samples.size();
  config.policy = "native";
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  ASSERT_EQ(result.samples, 4u);
  EXPECT_EQ(samples[0].requested, 30 * MiB);
  EXPECT_EQ(samples[0].reserved, 30 * MiB);
  EXPECT_EQ(samples[1].requested, 0u);
  EXPECT_EQ(samples[2].time_us, 9u);
  EXPECT_EQ(samples[2].reserved, 70 * MiB);
  EXPECT_EQ(result.peak_reserved_bytes, 70 * MiB);

  config.limit_bytes = 39 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  ASSERT_EQ(result.samples, 3u);
  EXPECT_EQ(samples[2].event, 2u);
  EXPECT_EQ(samples[2].requested, 0u);
  EXPECT_EQ(samples[2].reserved, 0u) << "all cached memory was released before";
}

TEST_F(Policies, SamplesOfTheLibraryAreOfARunOfTheirOwn) {
  std::vector<reprieve_replay_sample> samples(100);
  config.samples = samples.data();
  config.sample_capacity = samples.size();
  config.repeats = 2;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  EXPECT_EQ(fake::library().starts, 3);
  ASSERT_EQ(result.samples, 4u);
  EXPECT_EQ(samples[1].reserved, 30 * MiB);
  EXPECT_EQ(samples[2].requested, 40 * MiB);
  EXPECT_EQ(samples[2].reserved, 40 * MiB);

  config.limit_bytes = 32 * MiB;
  ASSERT_EQ(measure(growing), Outcome::done) << error;
  ASSERT_EQ(result.samples, 3u);
  EXPECT_EQ(samples[2].event, 2u);
  EXPECT_EQ(samples[2].reserved, 30 * MiB);
  EXPECT_TRUE(fake::library().live.empty());
  EXPECT_FALSE(fake::library().started);
}

TEST_F(Policies, PrivatePoolsAreTheLibrarysPools) {
  const std::vector<reprieve_replay_event> events = {
      {1, 8, 0, 0, 7, REPRIEVE_REPLAY_ALLOCATE, 0},
      {2, 8, 0, 0, 3, REPRIEVE_REPLAY_ALLOCATE, REPRIEVE_REPLAY_GRAPH_POOL},
      {3, 8, 0, 0, 0, REPRIEVE_REPLAY_ALLOCATE, 0}};
  Trace trace;
  ParseError wrong;
  ASSERT_TRUE(from_events(events.data(), events.size(), trace, wrong)) << wrong.text;
  ASSERT_EQ(run(trace, config, result, error), Outcome::done) << error;
  const std::vector<std::string> begin = {"set_option device=sim", "set_option limit=0", "init",
                                          "pool_create 0",         "pool_create 1",      "alloc 8 0 from pool 1",
                                          "alloc 8 0 from pool 2", "alloc 8 0"};
  const std::vector<std::string>& log = fake::library().log;
  ASSERT_GT(log.size(), begin.size());
  EXPECT_EQ(std::vector<std::string>(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(begin.size())), begin);
  const std::vector<std::string> end = {"empty_cache", "pool_destroy 1", "pool_destroy 2", "shutdown"};
  EXPECT_EQ(std::vector<std::string>(log.end() - static_cast<std::ptrdiff_t>(end.size()), log.end()), end);

  for (const char* call : {"pool_create", "pool_destroy", "alloc"}) {
    fake::reset();
    fake::library().failing_call = call;
    EXPECT_EQ(run(trace, config, result, error), Outcome::failed) << call;
    EXPECT_TRUE(error.ends_with(": the driver said no")) << error;
    if (std::string(call) != "alloc") continue;
    EXPECT_EQ(error, "event 0: the driver said no") << "there is no line to name";
  }
}

TEST_F(Policies, EmptyCacheIsAskedOfEachPolicy) {
  const std::vector<reprieve_replay_event> events = {{0, 0, 0, 0, 0, REPRIEVE_REPLAY_EMPTY_CACHE, 0},
                                                     {1, 30 * MiB, 0, 1, 0, REPRIEVE_REPLAY_ALLOCATE, 0},
                                                     {1, 0, 0, 2, 0, REPRIEVE_REPLAY_FREE, 0},
                                                     {0, 0, 0, 3, 0, REPRIEVE_REPLAY_EMPTY_CACHE, 0},
                                                     {1, 40 * MiB, 0, 4, 0, REPRIEVE_REPLAY_ALLOCATE, 0}};
  Trace trace;
  ParseError wrong;
  ASSERT_TRUE(from_events(events.data(), events.size(), trace, wrong)) << wrong.text;
  EXPECT_EQ(trace.duration_us, 4u);
  for (const char* policy : {"native", "expandable"}) {
    config.policy = policy;
    ASSERT_EQ(run(trace, config, result, error), Outcome::done) << error;
    EXPECT_EQ(result.peak_reserved_bytes, 40 * MiB);
  }
  config.policy = "reprieve";
  ASSERT_EQ(run(trace, config, result, error), Outcome::done) << error;
  EXPECT_EQ(std::count(fake::library().log.begin(), fake::library().log.end(), "empty_cache"), 5)
      << "two in each pass, one at the end";
  ASSERT_TRUE(from_events(events.data(), 1, trace, wrong)) << wrong.text;
  ASSERT_EQ(run(trace, config, result, error), Outcome::done) << "a trace may have no block at all";
}

TEST_F(Policies, CInterfaceReadsAnAllocConf) {
  reprieve_replay_alloc_conf_info info{};
  info.size = sizeof info;
  EXPECT_EQ(reprieve_replay_check_alloc_conf("max_split_size_mb:64", &info, nullptr), REPRIEVE_REPLAY_OK);
  EXPECT_EQ(info.expandable_segments, -1);
  EXPECT_EQ(reprieve_replay_check_alloc_conf("expandable_segments:True", &info, nullptr), REPRIEVE_REPLAY_OK);
  EXPECT_EQ(info.expandable_segments, 1);
  EXPECT_EQ(reprieve_replay_check_alloc_conf("expandable_segments:False", &info, nullptr), REPRIEVE_REPLAY_OK);
  EXPECT_EQ(info.expandable_segments, 0);
  reprieve_replay_error wrong{};
  wrong.size = sizeof wrong;
  EXPECT_EQ(reprieve_replay_check_alloc_conf("x", &info, &wrong), REPRIEVE_REPLAY_REFUSED);
  EXPECT_TRUE(std::string(wrong.text).starts_with("unknown key 'x'")) << wrong.text;
  EXPECT_EQ(wrong.event, -1);
}

}  // namespace
}  // namespace reprieve::replay
