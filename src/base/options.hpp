// Every option of the library, declared once in the table of options.cpp: from it come parsing, the error for a bad
// value, the check of REPRIEVE_* variables, and docs/options.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"

namespace reprieve {

inline constexpr std::uint64_t KiB = 1ULL << 10;
inline constexpr std::uint64_t MiB = 1ULL << 20;
inline constexpr std::uint64_t GiB = 1ULL << 30;

// An amount of device memory: bytes, or a part of the device (resolved once its size is known). Both 0: not set.
struct Amount {
  std::uint64_t bytes = 0;
  double fraction = 0;

  constexpr bool set() const { return bytes != 0 || fraction != 0; }
  constexpr std::uint64_t of(std::uint64_t total) const {
    return fraction != 0 ? static_cast<std::uint64_t>(fraction * static_cast<double>(total)) : bytes;
  }
};

enum class BackendKind : std::uint8_t { cuda, sim };

// `automatic`: eager and on under the stand-in CUDA runtime, else lazy and off.
enum class SimMode : std::uint8_t { automatic, eager, lazy };
enum class SimPoison : std::uint8_t { automatic, on, off };

struct Options {
  BackendKind device{};
  Amount limit;
  Amount headroom;
  double growth_slack = 0;
  std::uint64_t chunk_max = 0;
  std::uint64_t wait_ms = 0;
  log::Level log{};
  std::uint64_t sim_capacity = 0;
  std::uint64_t sim_devices = 0;
  std::uint64_t sim_host_capacity = 0;
  double sim_capability = 0;  // compute capability, as in 9.0
  SimMode sim_mode{};
  SimPoison sim_poison{};
  std::string sim_fail;  // src/simgpu/settings.hpp has the syntax of these two
  std::string sim_hold;
};

struct OptionText {
  std::string name, environment, type, default_value, accepted, text;
};

// One entry per option, in the order of the table.
const std::vector<OptionText>& option_texts();

// The table's defaults.
Options default_options();

// Sets one option from text. On failure nothing is changed and `error` is one line that names the option, the value and
// what is accepted (or, for an unknown name, the nearest one).
bool set_option(Options& options, std::string_view name, std::string_view value, std::string& error);

// Applies every REPRIEVE_* variable of the environment. A bad value stops with `error` (naming the variable); an unknown
// variable adds a line to `warnings`. `environment` is a null-terminated list such as environ.
bool apply_environment(Options& options, const char* const* environment, std::vector<std::string>& warnings,
                       std::string& error);

// "24GiB", "1.5 GB", "4096": binary and decimal units. False where the text is none, or over 2^63.
bool parse_bytes(std::string_view text, std::uint64_t& out);

// The way torch writes sizes in its messages: "5.15 GiB", "512.00 KiB", "17 bytes".
std::string format_bytes(std::uint64_t bytes);

}  // namespace reprieve
