// The table of options: defaults, what is accepted, and the one line that a bad value gets.
#include "base/options.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprieve {
namespace {

constexpr std::uint64_t device_bytes = 100 * GiB;

struct Parsed {
  Options options = default_options();
  std::string error;
  bool ok;

  Parsed(std::string_view name, std::string_view value) : ok(set_option(options, name, value, error)) {}
};

void accepts(std::string_view name, std::string_view value) {
  const Parsed parsed(name, value);
  EXPECT_TRUE(parsed.ok) << parsed.error;
  EXPECT_EQ(parsed.error, "");
}

void refuses(std::string_view name, std::string_view value, const std::string& accepted) {
  const Parsed parsed(name, value);
  EXPECT_FALSE(parsed.ok) << name << "=" << value;
  EXPECT_EQ(parsed.error, std::string(name) + ": '" + std::string(value) + "' is not accepted: " + accepted);
}

const std::string size_from_32 =
    "0, or a size such as 24GiB or 512MiB from 32.00 MiB, or a part of the device such as "
    "0.8 or 80%";

TEST(Options, Defaults) {
  const Options options = default_options();
  EXPECT_EQ(options.device, BackendKind::cuda);
  EXPECT_FALSE(options.limit.set());
  EXPECT_FALSE(options.headroom.set());
  EXPECT_DOUBLE_EQ(options.growth_slack, 0.01);
  EXPECT_EQ(options.chunk_max, 64 * MiB);
  EXPECT_EQ(options.wait_ms, 10'000U);
  EXPECT_EQ(options.log, log::Level::warn);
  EXPECT_EQ(options.sim_capacity, 141 * GiB);
  EXPECT_EQ(options.sim_devices, 1U);
  EXPECT_EQ(options.sim_host_capacity, 256 * GiB);
  EXPECT_DOUBLE_EQ(options.sim_capability, 9.0);
  EXPECT_EQ(options.sim_mode, SimMode::automatic);
  EXPECT_EQ(options.sim_poison, SimPoison::automatic);
  EXPECT_EQ(options.sim_fail, "none");
  EXPECT_EQ(options.sim_hold, "none");
}

TEST(Options, EveryDefaultIsAcceptedAsItIsWritten) {
  for (const OptionText& text : option_texts()) accepts(text.name, text.default_value);
}

TEST(Options, TheTableDescribesEachOption) {
  EXPECT_EQ(option_texts().size(), 15U);
  for (const OptionText& text : option_texts()) {
    std::string upper = "REPRIEVE_" + text.name;
    std::ranges::transform(upper, upper.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    EXPECT_EQ(text.environment, upper);
    EXPECT_FALSE(text.type.empty()) << text.name;
    EXPECT_FALSE(text.accepted.empty()) << text.name;
    EXPECT_FALSE(text.text.empty()) << text.name;
    EXPECT_EQ(text.text.find('\n'), std::string::npos) << text.name;
  }
}

TEST(Options, Device) {
  EXPECT_EQ(Parsed("device", "sim").options.device, BackendKind::sim);
  EXPECT_EQ(Parsed("device", " CUDA ").options.device, BackendKind::cuda);
  refuses("device", "rocm", "one of cuda, sim");
  refuses("device", "", "one of cuda, sim");
}

TEST(Options, Log) {
  EXPECT_EQ(Parsed("log", "off").options.log, log::Level::off);
  EXPECT_EQ(Parsed("log", "error").options.log, log::Level::error);
  EXPECT_EQ(Parsed("log", "Warn").options.log, log::Level::warn);
  EXPECT_EQ(Parsed("log", "info").options.log, log::Level::info);
  EXPECT_EQ(Parsed("log", "DEBUG").options.log, log::Level::debug);
  refuses("log", "warning", "one of off, error, warn, info, debug");
  refuses("log", "2", "one of off, error, warn, info, debug");
}

TEST(Options, LimitAsASize) {
  EXPECT_EQ(Parsed("limit", "24GiB").options.limit.of(device_bytes), 24 * GiB);
  EXPECT_EQ(Parsed("limit", "32MiB").options.limit.of(device_bytes), 32 * MiB);
  EXPECT_FALSE(Parsed("limit", "0").options.limit.set());
  refuses("limit", "31MiB", size_from_32);
  refuses("limit", "1", size_from_32);
  refuses("limit", "-5GiB", size_from_32);
  refuses("limit", "99999999TiB", size_from_32);
  refuses("limit", "lots", size_from_32);
}

TEST(Options, LimitAsAPartOfTheDevice) {
  EXPECT_EQ(Parsed("limit", "0.8").options.limit.of(device_bytes), 80 * GiB);
  EXPECT_EQ(Parsed("limit", "80%").options.limit.of(device_bytes), 80 * GiB);
  EXPECT_EQ(Parsed("limit", "12.5 %").options.limit.of(device_bytes), device_bytes / 8);
  EXPECT_EQ(Parsed("limit", "1.0").options.limit.of(device_bytes), device_bytes);
  EXPECT_EQ(Parsed("limit", "100%").options.limit.of(device_bytes), device_bytes);
  for (const char* value : {"1.01", "101%", "0.0", "0%", "-0.5", "-10%", "nan", "inf"}) {
    refuses("limit", value, size_from_32);
  }
}

TEST(Options, Headroom) {
  const std::string accepted = "a size such as 24GiB or 512MiB, or a part of the device such as 0.8 or 80%";
  EXPECT_EQ(Parsed("headroom", "1").options.headroom.of(device_bytes), 1U);
  EXPECT_EQ(Parsed("headroom", "2%").options.headroom.of(device_bytes), 2 * GiB);
  EXPECT_FALSE(Parsed("headroom", "0").options.headroom.set());
  refuses("headroom", "none", accepted);
  refuses("headroom", "200%", accepted);
}

TEST(Options, GrowthSlack) {
  EXPECT_DOUBLE_EQ(Parsed("growth_slack", "0").options.growth_slack, 0);
  EXPECT_DOUBLE_EQ(Parsed("growth_slack", "1").options.growth_slack, 1);
  EXPECT_DOUBLE_EQ(Parsed("growth_slack", "3%").options.growth_slack, 0.03);
  for (const char* value : {"-0.1", "1.1", "101%", "half", "", "0.1GiB", "nan"}) {
    refuses("growth_slack", value, "a fraction from 0 to 1");
  }
}

TEST(Options, ChunkMax) {
  const std::string accepted = "a size such as 24GiB or 512MiB from 2.00 MiB to 1.00 GiB";
  EXPECT_EQ(Parsed("chunk_max", "2MiB").options.chunk_max, 2 * MiB);
  EXPECT_EQ(Parsed("chunk_max", "1GiB").options.chunk_max, GiB);
  for (const char* value : {"0", "2097151", "1073741825", "0.5", "50%", "big"}) refuses("chunk_max", value, accepted);
}

TEST(Options, WaitMs) {
  const std::string accepted = "milliseconds such as 500, 500ms or 10s, from 0 to 600000";
  EXPECT_EQ(Parsed("wait_ms", "0").options.wait_ms, 0U);
  EXPECT_EQ(Parsed("wait_ms", "500").options.wait_ms, 500U);
  EXPECT_EQ(Parsed("wait_ms", "500ms").options.wait_ms, 500U);
  EXPECT_EQ(Parsed("wait_ms", "1.5 s").options.wait_ms, 1'500U);
  EXPECT_EQ(Parsed("wait_ms", "600s").options.wait_ms, 600'000U);
  for (const char* value : {"-1", "600001", "601s", "0.5", "1h", "", "1e300"}) refuses("wait_ms", value, accepted);
}

TEST(Options, SimCapacity) {
  EXPECT_EQ(Parsed("sim_capacity", "2MiB").options.sim_capacity, 2 * MiB);
  for (const char* value : {"0", "1MiB", "-1", "80%", "9.3e18"}) {
    refuses("sim_capacity", value, "a size such as 24GiB or 512MiB from 2.00 MiB");
  }
}

TEST(Options, SimDevices) {
  EXPECT_EQ(Parsed("sim_devices", "64").options.sim_devices, 64U);
  for (const char* value : {"0", "65", "1.5", "-1", "two", "1e30", "8ms"}) {
    refuses("sim_devices", value, "a whole number from 1 to 64");
  }
}

TEST(Options, Simulation) {
  EXPECT_EQ(Parsed("sim_host_capacity", "1TiB").options.sim_host_capacity, 1024 * GiB);
  EXPECT_EQ(Parsed("sim_mode", "eager").options.sim_mode, SimMode::eager);
  EXPECT_EQ(Parsed("sim_mode", "LAZY").options.sim_mode, SimMode::lazy);
  EXPECT_EQ(Parsed("sim_poison", "off").options.sim_poison, SimPoison::off);
  EXPECT_DOUBLE_EQ(Parsed("sim_capability", "12.1").options.sim_capability, 12.1);
  for (const char* value : {"4.9", "13", "9.05", "900%", "nine", ""}) {
    refuses("sim_capability", value, "a number with one decimal from 5.0 to 12.9");
  }
  refuses("sim_mode", "quick", "one of auto, eager, lazy");
  refuses("sim_poison", "0xa5", "one of auto, on, off");
  // Lists are taken as they are: the simulation reads them.
  EXPECT_EQ(Parsed("sim_fail", " create:times=2 ").options.sim_fail, "create:times=2");
  EXPECT_EQ(Parsed("sim_hold", "legacy").options.sim_hold, "legacy");
}

TEST(Options, ABadValueChangesNothing) {
  Options options = default_options();
  std::string error;
  ASSERT_TRUE(set_option(options, "limit", "24GiB", error));
  EXPECT_FALSE(set_option(options, "limit", "31MiB", error));
  EXPECT_EQ(options.limit.bytes, 24 * GiB);
  EXPECT_FALSE(set_option(options, "log", "loud", error));
  EXPECT_EQ(options.log, log::Level::warn);
}

TEST(Options, AnUnknownNameIsToldTheNearest) {
  EXPECT_EQ(Parsed("limits", "1GiB").error, "unknown option 'limits'; the nearest is 'limit'");
  EXPECT_EQ(Parsed("chunkmax", "1").error, "unknown option 'chunkmax'; the nearest is 'chunk_max'");
  EXPECT_EQ(Parsed("LIMIT", "1GiB").ok, false);
}

struct Environment {
  Options options = default_options();
  std::vector<std::string> warnings;
  std::string error;
  bool ok;

  explicit Environment(std::vector<const char*> lines) {
    lines.push_back(nullptr);
    ok = apply_environment(options, lines.data(), warnings, error);
  }
};

TEST(OptionsEnvironment, SetsWhatItNames) {
  const Environment read({"PATH=/bin", "REPRIEVE_LIMIT=80%", "REPRIEVE_LOG=debug", "NO_EQUALS_SIGN"});
  EXPECT_TRUE(read.ok);
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_DOUBLE_EQ(read.options.limit.fraction, 0.8);
  EXPECT_EQ(read.options.log, log::Level::debug);
}

TEST(OptionsEnvironment, ABadValueNamesTheVariable) {
  const Environment read({"REPRIEVE_LIMIT=31MiB"});
  EXPECT_FALSE(read.ok);
  EXPECT_EQ(read.error, "REPRIEVE_LIMIT: '31MiB' is not accepted: " + size_from_32);
  EXPECT_FALSE(Environment({"REPRIEVE_LIMIT="}).ok);
}

TEST(OptionsEnvironment, AnUnknownVariableIsToldTheNearest) {
  const Environment read({"REPRIEVE_LIMITS=1GiB", "REPRIEVE_limit=1GiB", "REPRIEVE_WAIT_MS=1"});
  EXPECT_TRUE(read.ok);
  ASSERT_EQ(read.warnings.size(), 2U);
  EXPECT_EQ(read.warnings[0], "unknown variable REPRIEVE_LIMITS; the nearest is REPRIEVE_LIMIT");
  EXPECT_EQ(read.warnings[1], "unknown variable REPRIEVE_limit; the nearest is REPRIEVE_LIMIT");
  EXPECT_FALSE(read.options.limit.set());
  EXPECT_EQ(read.options.wait_ms, 1U);
}

TEST(OptionsEnvironment, TheCommandLinesOwnVariablesAreNoMistake) {
  EXPECT_TRUE(Environment({"REPRIEVE_LIBRARY_DIR=/lib"}).warnings.empty());
}

}  // namespace
}  // namespace reprieve
