#include "replay/models/alloc_conf.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace reprieve::replay::models {
namespace {

AllocConf parsed(const std::string& text) {
  AllocConf conf;
  std::string error;
  EXPECT_TRUE(parse_alloc_conf(text, conf, error)) << text << ": " << error;
  return conf;
}

TEST(AllocConf, EmptyIsTheDefaults) {
  const AllocConf conf = parsed("");
  EXPECT_EQ(conf.large_segment, 20 * MiB);
  EXPECT_EQ(conf.max_split_size, AllocConf::unlimited);
  EXPECT_EQ(conf.max_non_split_rounding, 20 * MiB);
  EXPECT_EQ(conf.garbage_collection_threshold, 0);
  EXPECT_EQ(conf.memory_fraction, 1);
  EXPECT_FALSE(conf.expandable_segments.has_value());
}

TEST(AllocConf, ReadsWhatSteersTheModels) {
  const AllocConf conf = parsed(
      " max_split_size_mb: 128, garbage_collection_threshold:0.6,per_process_memory_fraction:.5,"
      "max_non_split_rounding_mb:40,expandable_segments:True,");
  EXPECT_EQ(conf.max_split_size, 128 * MiB);
  EXPECT_EQ(conf.garbage_collection_threshold, 0.6);
  EXPECT_EQ(conf.memory_fraction, 0.5);
  EXPECT_EQ(conf.max_non_split_rounding, 40 * MiB);
  EXPECT_EQ(conf.expandable_segments, true);
  EXPECT_EQ(parsed("expandable_segments:True,expandable_segments:False").expandable_segments, false);
}

TEST(AllocConf, TheLargeSegmentCountsWhereverItStands) {
  const AllocConf conf = parsed("max_split_size_mb:40,large_segment_size_mb:40");
  EXPECT_EQ(conf.large_segment, 40 * MiB);
  EXPECT_EQ(conf.max_non_split_rounding, 40 * MiB);
  EXPECT_EQ(conf.segment_bytes(2 * MiB), 40 * MiB);
}

TEST(AllocConf, NumbersAreReadAsTorchReadsThem) {
  EXPECT_EQ(parsed("max_split_size_mb:30.7").max_split_size, 30 * MiB);
  EXPECT_EQ(parsed("max_split_size_mb:+30").max_split_size, 30 * MiB);
  EXPECT_EQ(parsed("garbage_collection_threshold:0.5x").garbage_collection_threshold, 0.5);
  EXPECT_EQ(parsed("garbage_collection_threshold:1e-3").garbage_collection_threshold, 1e-3);
  EXPECT_EQ(parsed("max_split_size_mb:18446744073709551615").max_split_size, 18446744073708503040U);
}

TEST(AllocConf, RoundsUpToPartsOfPowersOfTwo) {
  const AllocConf four = parsed("roundup_power2_divisions:4");
  EXPECT_EQ(four.block_bytes(1200), 1536u) << "512 x 4 and less is rounded as ever";
  EXPECT_EQ(four.block_bytes(2049), 2560u);
  EXPECT_EQ(four.block_bytes(33 * MiB), 40 * MiB);
  EXPECT_EQ(four.block_bytes(32 * MiB), 32 * MiB);
  EXPECT_EQ(four.block_bytes(63 * MiB), 64 * MiB);

  const AllocConf list = parsed("roundup_power2_divisions:[256:1,512:2,>:4]");
  EXPECT_EQ(list.block_bytes(300 * MiB), 300 * MiB);
  EXPECT_EQ(list.block_bytes(100 * MiB + 1), 100 * MiB + 512) << "below the first size as there";
  EXPECT_EQ(list.block_bytes(600 * MiB), 768 * MiB);
  EXPECT_EQ(list.block_bytes(1100 * MiB), 1280 * MiB);
  EXPECT_EQ(parsed("roundup_power2_divisions:[>:4]").block_bytes(MiB + 1), MiB + 512) << "'>' leaves the first out";
  EXPECT_EQ(parsed("roundup_power2_divisions:[65536:2,131072:4]").roundup_divisions[15], 4u);
  EXPECT_EQ(parsed("roundup_power2_divisions:[1:2,]").block_bytes(5 * MiB), 5 * MiB);
}

TEST(AllocConf, TakesSilentlyWhatDoesNotSteerTheModels) {
  for (const char* text : {"backend:native", "release_lock_on_cudamalloc:True", "release_lock_on_hipmalloc:False",
                           "graph_capture_record_stream_reuse:True", "pinned_use_background_threads:True",
                           "pinned_use_cuda_host_register:True", "pinned_use_hip_host_register:False",
                           "pinned_num_register_threads:128", "pinned_reserve_segment_size_mb:1"}) {
    parsed(text);
  }
}

struct Bad {
  const char* name;
  const char* text;
  const char* error;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadAllocConf : public testing::TestWithParam<Bad> {};

TEST_P(BadAllocConf, IsRefusedInOneLine) {
  AllocConf conf;
  conf.max_split_size = 7;
  std::string error;
  EXPECT_FALSE(parse_alloc_conf(GetParam().text, conf, error));
  EXPECT_TRUE(error.starts_with(GetParam().error)) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_LT(error.size(), 400u) << "it would be cut";
  EXPECT_EQ(conf.max_split_size, 7u) << "nothing half done";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadAllocConf,
    testing::Values(
        Bad{"UnknownKey", "max_split_size_mb:30,roundup_bypass_threshold_mb:100",
            "unknown key 'roundup_bypass_threshold_mb', accepted are large_segment_size_mb, max_split_size_mb, "},
        Bad{"KeyOfLaterTorch", "throw_on_cudamalloc_oom:True", "unknown key 'throw_on_cudamalloc_oom', accepted are "},
        Bad{"Capital", "Max_split_size_mb:30", "unknown key 'Max_split_size_mb'"},
        Bad{"EqualsSign", "max_split_size_mb=30", "unknown key 'max_split_size_mb=30'"},
        Bad{"TwoCommas", "max_split_size_mb:30,,expandable_segments:True", "unknown key ','"},
        Bad{"Comma", ",", "unknown key ','"}, Bad{"Colon", ":", "unknown key ':'"},
        Bad{"Binary", "\x01\x80:1",
            "unknown key '?"
            "?'"},
        Bad{"NoColon", "max_split_size_mb",
            "the value of max_split_size_mb is missing, expected max_split_size_mb:VALUE"},
        Bad{"NoValue", "max_split_size_mb:", "the value of max_split_size_mb is missing"},
        Bad{"NoValueButMore", "max_split_size_mb:,expandable_segments:True",
            "the value of max_split_size_mb is missing"},
        Bad{"TwoColons", "max_split_size_mb::30", "the value of max_split_size_mb is missing"},
        Bad{"ListCutShort", "roundup_power2_divisions:[256:1", "the value of roundup_power2_divisions is cut short"},
        Bad{"NothingAfterBracket", "roundup_power2_divisions:[", "the value of roundup_power2_divisions is cut short"},
        Bad{"AfterList", "roundup_power2_divisions:[256:1]x",
            "after roundup_power2_divisions:[256:1] comes 'x', expected a comma or the end"},
        Bad{"AfterValue", "max_split_size_mb:30:40",
            "after max_split_size_mb:30 comes ':', expected a comma or the end"},
        Bad{"SplitSmall", "max_split_size_mb:19",
            "max_split_size_mb: '19' is not accepted, accepted are whole numbers from 20 up (that of "
            "large_segment_size_mb)"},
        Bad{"SplitBelowSegment", "max_split_size_mb:30,large_segment_size_mb:40",
            "max_split_size_mb: '30' is not accepted, accepted are whole numbers from 40 up"},
        Bad{"SplitNegative", "max_split_size_mb:-1", "max_split_size_mb: '-1' is not accepted"},
        Bad{"SplitText", "max_split_size_mb:x", "max_split_size_mb: 'x' is not accepted"},
        Bad{"SplitHuge", "max_split_size_mb:18446744073709551616", "max_split_size_mb: '18446744073709551616' is not"},
        Bad{"SplitList", "max_split_size_mb:[30]", "max_split_size_mb: '[30]' is not accepted"},
        Bad{"RoundingSmall", "max_non_split_rounding_mb:19", "max_non_split_rounding_mb: '19' is not accepted"},
        Bad{"SegmentSmall", "large_segment_size_mb:10",
            "large_segment_size_mb: '10' is not accepted, accepted are whole numbers from 11 up"},
        Bad{"ThresholdZero", "garbage_collection_threshold:0",
            "garbage_collection_threshold: '0' is not accepted, accepted are numbers above 0 and below 1"},
        Bad{"ThresholdOne", "garbage_collection_threshold:1", "garbage_collection_threshold: '1' is not accepted"},
        Bad{"ThresholdNan", "garbage_collection_threshold:nan", "garbage_collection_threshold: 'nan' is not accepted"},
        Bad{"DivisionsOdd", "roundup_power2_divisions:3",
            "roundup_power2_divisions: '3' is not accepted, accepted are a power of 2, or a list such as "},
        Bad{"DivisionsZero", "roundup_power2_divisions:0", "roundup_power2_divisions: '0' is not accepted"},
        Bad{"ListValue", "roundup_power2_divisions:[256:3]", "roundup_power2_divisions: '[256:3]' is not accepted"},
        Bad{"ListSize", "roundup_power2_divisions:[255:2]", "roundup_power2_divisions: '[255:2]' is not accepted"},
        Bad{"ListSizeZero", "roundup_power2_divisions:[0:2]", "roundup_power2_divisions: '[0:2]' is not accepted"},
        Bad{"ListNoColon", "roundup_power2_divisions:[256]", "roundup_power2_divisions: '[256]' is not accepted"},
        Bad{"ListText", "roundup_power2_divisions:[256:x]", "roundup_power2_divisions: '[256:x]' is not accepted"},
        Bad{"LowerCase", "expandable_segments:true",
            "expandable_segments: 'true' is not accepted, accepted are True and False"},
        Bad{"Fraction", "per_process_memory_fraction:1.5",
            "per_process_memory_fraction: '1.5' is not accepted, accepted are numbers from 0 to 1"},
        Bad{"FractionNegative", "per_process_memory_fraction:-0.1", "per_process_memory_fraction: '-0.1' is not"},
        Bad{"Async", "backend:cudaMallocAsync",
            "backend: 'cudaMallocAsync' is not accepted, accepted are native (the models are of that one)"},
        Bad{"LockNumber", "release_lock_on_cudamalloc:1", "release_lock_on_cudamalloc: '1' is not accepted"},
        Bad{"ThreadsOdd", "pinned_num_register_threads:3", "pinned_num_register_threads: '3' is not accepted"},
        Bad{"ThreadsMany", "pinned_num_register_threads:256", "pinned_num_register_threads: '256' is not accepted"},
        Bad{"ReserveZero", "pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb: '0' is not accepted"}),
    [](const testing::TestParamInfo<Bad>& bad) { return bad.param.name; });

}  // namespace
}  // namespace reprieve::replay::models
