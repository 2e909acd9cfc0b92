// The models against what PyTorch 2.11's own allocator did with the same traces on an H200 (140 GiB, one process a
// trace, no kernels), within 2 %.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

#include "replay/engine.hpp"

namespace reprieve::replay {
namespace {

namespace fs = std::filesystem;

constexpr double tolerance = 0.02;

struct Recorded {
  double utilization;          // peak requested over peak reserved, without a limit
  double min_limit_over_peak;  // the smallest limit on what is reserved under which the trace completes
};

struct Case {
  const char* trace;
  Recorded native, expandable;
};

void PrintTo(const Case& recorded, std::ostream* out) { *out << recorded.trace; }

fs::path find(const std::string& trace) {
  const char* const given = std::getenv("REPRIEVE_TEST_TRACES");
  const fs::path source = REPRIEVE_SOURCE_DIR;
  for (const fs::path& folder : {given != nullptr ? fs::path(given) : fs::path(), source / "benchmarks" / "traces",
                                 source / ".." / "shared" / "traces"}) {
    fs::path file = folder / (trace + ".csv.gz");
    if (fs::exists(file)) return file;
  }
  return {};
}

std::string unpacked(const fs::path& file) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(("gzip -dc '" + file.string() + "'").c_str(), "r"),
                                                   ::pclose);
  std::array<char, 65536> part;
  while (pipe != nullptr) {
    const std::size_t read = std::fread(part.data(), 1, part.size(), pipe.get());
    if (read == 0) break;
    text.append(part.data(), read);
  }
  return text;
}

class RecordedTraces : public testing::TestWithParam<Case> {
 protected:
  static void compare(const Trace& trace, const char* policy, const Recorded& recorded) {
    SCOPED_TRACE(policy);
    reprieve_replay_config config{};
    config.size = sizeof config;
    config.device = "sim";
    config.capacity_bytes = 150'109'880'320;  // of an H200, as the driver says
    config.repeats = 1;
    config.policy = policy;
    reprieve_replay_result result{};
    std::string error;
    ASSERT_EQ(find_min_limit(trace, config, result, error), Outcome::done) << error;
    ASSERT_EQ(result.completed, 1);
    const auto peak = static_cast<double>(trace.peak_requested_bytes);
    const double utilization = peak / static_cast<double>(result.peak_reserved_bytes);
    const double min_limit = static_cast<double>(result.min_limit_bytes) / peak;
    EXPECT_NEAR(utilization, recorded.utilization, tolerance * recorded.utilization);
    EXPECT_NEAR(min_limit, recorded.min_limit_over_peak, tolerance * recorded.min_limit_over_peak);
  }
};

TEST_P(RecordedTraces, AreMetWithinTwoPercent) {
  const fs::path file = find(GetParam().trace);
  if (file.empty()) {
    GTEST_SKIP() << GetParam().trace
                 << ".csv.gz is not here: the folder with all traces is not part of the repository, "
                 << "REPRIEVE_TEST_TRACES names it";
  }
  Trace trace;
  ParseError error;
  ASSERT_TRUE(parse(unpacked(file), trace, error)) << file << ": " << error.text;
  compare(trace, "native", GetParam().native);
  compare(trace, "expandable", GetParam().expandable);
}

INSTANTIATE_TEST_SUITE_P(H200, RecordedTraces,
                         testing::Values(Case{"llama-lora-cot", {.470, 1.3053}, {.846, 1.0051}},
                                         Case{"resnet-multires", {.802, 1.0171}, {.990, 1.0033}},
                                         Case{"llama-varlen", {.927, 1.0755}, {.949, 1.0032}},
                                         Case{"llama-varlen-ckpt", {.793, 1.2613}, {.876, 1.0095}},
                                         Case{"gpt2-amp", {.985, 1.0154}, {.947, 1.0024}},
                                         Case{"train-eval", {.551, 1.1673}, {.830, 1.0179}},
                                         Case{"packed-large-vocab", {.916, 1.0794}, {.931, 1.0263}},
                                         Case{"grpo", {.710, 1.3863}, {.774, 1.0249}}),
                         [](const testing::TestParamInfo<Case>& recorded) {
                           std::string name;
                           for (const char* c = recorded.param.trace; *c != '\0'; ++c) name += *c == '-' ? '_' : *c;
                           return name;
                         });

}  // namespace
}  // namespace reprieve::replay
