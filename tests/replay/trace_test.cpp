#include "replay/trace.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace reprieve::replay {
namespace {

Trace parsed(const std::string& text) {
  Trace trace;
  ParseError error;
  EXPECT_TRUE(parse(text, trace, error)) << error.line << ": " << error.text;
  return trace;
}

TEST(Trace, KeepsWhatAReplayNeeds) {
  const Trace trace = parsed(
      "op,id,bytes,stream,time_us\n"
      "a,10,100,0,5\n"
      "a,11,200,7,6\n"
      "r,10,0,7,6\n"
      "f,10,,0,8\n"
      "a,12,50,0,9\n"
      "f,11,200,0,9\n"
      "f,12,,0,25\n");
  ASSERT_EQ(trace.events.size(), 7u);
  EXPECT_EQ(trace.first_event_line, 2u);
  EXPECT_EQ(trace.stream_ids, (std::vector<std::uint64_t>{0, 7}));
  EXPECT_EQ(trace.peak_requested_bytes, 300u);
  EXPECT_EQ(trace.duration_us, 20u);
  EXPECT_EQ(trace.events[1].op, Op::allocate);
  EXPECT_EQ(trace.events[1].bytes, 200u);
  EXPECT_EQ(trace.events[1].stream, 1);
  EXPECT_EQ(trace.events[2].op, Op::record);
  EXPECT_EQ(trace.events[2].slot, trace.events[0].slot);
  EXPECT_EQ(trace.events[3].op, Op::free);
  EXPECT_EQ(trace.events[5].op, Op::free_on) << "freed on another stream than it was allocated for";
  EXPECT_EQ(trace.events[5].stream, 0);
  // The third block has the slot that the first one left.
  EXPECT_EQ(trace.slots, 2u);
  EXPECT_EQ(trace.events[4].slot, trace.events[0].slot);
}

TEST(Trace, TheHeaderMayBeMissingOrAComment) {
  EXPECT_EQ(parsed("a,0,1,0,0\n").first_event_line, 1u);
  EXPECT_EQ(parsed("# op,id,bytes,stream,time_us   op: a=alloc\na,0,1,0,0\n").first_event_line, 2u);
  EXPECT_EQ(parsed("# what\r\na,0,1,0,0\r\n").events.size(), 1u);
}

TEST(Trace, TakesTheLargestNumbers) {
  const Trace trace = parsed("a,9223372036854775807,9223372036854775807,9223372036854775807,9223372036854775807\n");
  EXPECT_EQ(trace.peak_requested_bytes, 9223372036854775807u);
}

struct Bad {
  const char* name;
  std::string text;
  std::uint64_t line;
  const char* message;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadTrace : public testing::TestWithParam<Bad> {};

TEST_P(BadTrace, IsRefusedWithItsLine) {
  Trace trace;
  ParseError error;
  EXPECT_FALSE(parse(GetParam().text, trace, error));
  EXPECT_EQ(error.line, GetParam().line);
  EXPECT_EQ(error.text, GetParam().message);
}

const std::string too_many_streams = [] {
  std::string text;
  for (int i = 0; i <= 65535; ++i) text += "a," + std::to_string(i) + ",1," + std::to_string(i) + ",0\n";
  return text;
}();

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadTrace,
    testing::Values(
        Bad{"Empty", "", 1, "the trace is empty, it must have at least one event op,id,bytes,stream,time_us"},
        Bad{"HeaderOnly", "# op\n", 2,
            "the trace is empty, it must have at least one event op,id,bytes,stream,time_us"},
        Bad{"UnknownOp", "a,0,1,0,0\nx,1,1,0,0\n", 2,
            "op 'x' is unknown, accepted are a (allocate), f (free) and r (record_stream)"},
        Bad{"BinaryOp", std::string("\x01\x80\xff,1,1,0,0\n"), 1,
            "op '?"
            "?"
            "?' is unknown, accepted are a (allocate), f (free) and r (record_stream)"},
        Bad{"LongOp", std::string(50, 'x') + ",1,1,0,0\n", 1,
            "op 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is unknown, accepted are a (allocate), f (free) and r "
            "(record_stream)"},
        Bad{"HeaderInside", "a,0,1,0,0\n# op\n", 2, "1 field, a trace has 5: op,id,bytes,stream,time_us"},
        Bad{"FewFields", "a,0,1,0\n", 1, "4 fields, a trace has 5: op,id,bytes,stream,time_us"},
        Bad{"ManyFields", "a,0,1,0,0,0\n", 1, "6 fields, a trace has 5: op,id,bytes,stream,time_us"},
        Bad{"BlankLine", "a,0,1,0,0\n\n", 2, "1 field, a trace has 5: op,id,bytes,stream,time_us"},
        Bad{"NotANumber", "a,0,12x,0,0\n", 1,
            "bytes '12x' is not a number, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"Spaces", "a, 0,1,0,0\n", 1,
            "id ' 0' is not a number, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"Fraction", "a,0,1,0,1.5\n", 1,
            "time_us '1.5' is not a number, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"Missing", "a,0,,0,0\n", 1,
            "bytes '' is missing, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"Negative", "a,0,-5,0,0\n", 1,
            "bytes '-5' is negative, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"NegativeStream", "a,0,5,-1,0\n", 1,
            "stream '-1' is negative, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"OverSigned", "a,0,9223372036854775808,0,0\n", 1,
            "bytes '9223372036854775808' is too large, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"OverUnsigned", "a,0,99999999999999999999999,0,0\n", 1,
            "bytes '99999999999999999999999' is too large, accepted are whole numbers from 0 to 9223372036854775807"},
        Bad{"SumOverflows", "a,0,9223372036854775807,0,0\na,1,1,0,0\n", 2, "more than 9223372036854775807 bytes live"},
        Bad{"FreeOfUnknown", "a,0,1,0,0\nf,1,,0,0\n", 2,
            "id 1 is freed but was never allocated, it must be a live block's"},
        Bad{"FreedTwice", "a,0,1,0,0\nf,0,,0,0\nf,0,,0,0\n", 3,
            "id 0 is freed but was freed before, it must be a live block's"},
        Bad{"RecordOfUnknown", "r,1,0,0,0\n", 1, "id 1 is recorded but was never allocated, it must be a live block's"},
        Bad{"RecordOfFreed", "a,0,1,0,0\nf,0,,0,0\nr,0,0,1,0\n", 3,
            "id 0 is recorded but was freed before, it must be a live block's"},
        Bad{"RecordWithBytes", "a,0,1,0,0\nr,0,1,1,0\n", 2, "bytes '1' with op r, accepted are 0 and nothing"},
        Bad{"FreeOfOtherSize", "a,0,8,0,0\nf,0,4,0,0\n", 2,
            "id 0 is freed with 4 bytes, accepted are its 8 and nothing"},
        Bad{"IdLive", "# h\na,3,1,0,0\na,3,1,0,0\n", 3,
            "id 3 is allocated again (first on line 2), each id may be allocated once"},
        Bad{"IdUsedBefore", "a,3,1,0,0\nf,3,,0,0\na,3,1,0,0\n", 3,
            "id 3 is allocated again (first on line 1), each id may be allocated once"},
        Bad{"TimeGoesBack", "a,0,1,0,9\na,1,1,0,8\n", 2,
            "time_us 8 is before the line above's 9, times must not go back"},
        Bad{"CutShort", "a,0,1,0,0\nf,0,,0,1", 2, "the file is cut short in this line, every line ends in a newline"},
        Bad{"TooManyStreams", too_many_streams, 65536,
            "stream '65535' is one too many, accepted are 65535 different ones"}),
    [](const testing::TestParamInfo<Bad>& bad) { return bad.param.name; });

}  // namespace
}  // namespace reprieve::replay
