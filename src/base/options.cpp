#include "base/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <variant>

namespace reprieve {
namespace {

using Choices = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> device_choices = {"cuda", "sim"};
constexpr std::array<std::string_view, 3> sim_mode_choices = {"auto", "eager", "lazy"};
constexpr std::array<std::string_view, 3> sim_poison_choices = {"auto", "on", "off"};
// Of a text, what is accepted.
constexpr std::array<std::string_view, 1> sim_fail_syntax = {
    "none, or CALL:after=N,times=N,code=N with a ; between several, such as create:after=3,times=1,code=2"};
constexpr std::array<std::string_view, 1> sim_hold_syntax = {
    "none, or legacy and numbers of streams with a comma between, such as legacy,2 or, on device 1, 1:2"};
constexpr std::array<std::string_view, 5> log_choices = {"off", "error", "warn", "info", "debug"};

// What an option is: the member it sets says its type, min and max its range.
using Member = std::variant<Amount Options::*, double Options::*, std::uint64_t Options::*, BackendKind Options::*,
                            log::Level Options::*, SimMode Options::*, SimPoison Options::*, std::string Options::*>;
enum class Unit : std::uint8_t { bytes, fraction, one_decimal, count, milliseconds, choice, text };

struct Entry {
  std::string_view name;
  Member member;
  Unit unit;
  double min, max;
  Choices choices;
  std::string_view default_value;
  std::string_view text;
};

constexpr double no_max = 9.2e18;

// clang-format off
const std::array<Entry, 15> table = {{
  {"device", &Options::device, Unit::choice, 0, 0, device_choices, "cuda",
   "The driver underneath: `cuda`, or `sim`, the simulated GPU."},
  {"limit", &Options::limit, Unit::bytes, 32.0 * MiB, no_max, {}, "0",
   "The most memory that may be reserved on each device, as if it had no more: bytes or a part of the device. "
   "0: as much as the driver has, less `headroom`."},
  {"headroom", &Options::headroom, Unit::bytes, 0, no_max, {}, "0",
   "Without a limit: memory that growth leaves free for what lives outside any allocator (modules loaded late, cuBLAS, "
   "NCCL). 0: 512 MiB or 1 % of the device, whichever is more, and at most a sixteenth of it."},
  {"growth_slack", &Options::growth_slack, Unit::fraction, 0, 1, {}, "0.01",
   "How far reserved memory may exceed the peak of live memory before free memory is regrouped instead of taking more "
   "from the driver. Larger: fewer driver calls, more memory."},
  {"chunk_max", &Options::chunk_max, Unit::bytes, 2.0 * MiB, 1.0 * GiB, {}, "64MiB",
   "The largest physical allocation that large blocks are backed with; rounded down to 2 MiB."},
  {"wait_ms", &Options::wait_ms, Unit::milliseconds, 0, 600'000, {}, "10000",
   "The longest that one allocation that would fail waits for memory in use on other streams."},
  {"log", &Options::log, Unit::choice, 0, 0, log_choices, "warn",
   "What is written to stderr."},
  {"sim_capacity", &Options::sim_capacity, Unit::bytes, 2.0 * MiB, no_max, {}, "141GiB",
   "Memory of each simulated GPU; rounded down to 2 MiB."},
  {"sim_devices", &Options::sim_devices, Unit::count, 1, 64, {}, "1",
   "Number of simulated GPUs."},
  {"sim_host_capacity", &Options::sim_host_capacity, Unit::bytes, 0, no_max, {}, "256GiB",
   "Memory of the simulated host for pinned and registered memory and for allocations located in host memory."},
  {"sim_capability", &Options::sim_capability, Unit::one_decimal, 5.0, 12.9, {}, "9.0",
   "Compute capability that the stand-in CUDA runtime shows."},
  {"sim_mode", &Options::sim_mode, Unit::choice, 0, 0, sim_mode_choices, "auto",
   "When queued work of simulated GPUs runs: `eager`, at once; `lazy`, as virtual time passes, so that a missing wait "
   "always shows. `auto`: eager under the stand-in CUDA runtime, else lazy."},
  {"sim_poison", &Options::sim_poison, Unit::choice, 0, 0, sim_poison_choices, "auto",
   "Whether fresh simulated memory reads 0xa5 instead of 0. `auto`: on under the stand-in CUDA runtime, else off."},
  {"sim_fail", &Options::sim_fail, Unit::text, 0, 0, sim_fail_syntax, "none",
   "Calls of the simulated driver that fail: after `after` calls of the kind (0) the next `times` (1) give `code` (2, out "
   "of memory)."},
  {"sim_hold", &Options::sim_hold, Unit::text, 0, 0, sim_hold_syntax, "none",
   "Streams of simulated GPUs on which nothing runs: the legacy default stream, or the N-th that is created (from 1)."},
}};
// clang-format on

// Variables of the project that are no options of the library: the command line's.
constexpr std::array<std::string_view, 1> other_variables = {"REPRIEVE_LIBRARY_DIR"};

constexpr std::string_view variable_prefix = "REPRIEVE_";

std::string environment_name(std::string_view option) {
  std::string out(variable_prefix);
  for (const char c : option) out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// Splits "1.5GiB" into its number and what follows.
bool parse_number(std::string_view text, double& number, std::string_view& rest) {
  text = trimmed(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || !std::isfinite(number)) return false;
  rest = trimmed(text.substr(static_cast<std::size_t>(result.ptr - text.data())));
  return true;
}

struct Suffix {
  std::string_view name;
  double factor;
};
constexpr std::array<Suffix, 14> byte_suffixes = {{{"", 1},
                                                   {"b", 1},
                                                   {"k", 1024.0},
                                                   {"kib", 1024.0},
                                                   {"kb", 1e3},
                                                   {"m", 1.0 * MiB},
                                                   {"mib", 1.0 * MiB},
                                                   {"mb", 1e6},
                                                   {"g", 1.0 * GiB},
                                                   {"gib", 1.0 * GiB},
                                                   {"gb", 1e9},
                                                   {"t", 1024.0 * GiB},
                                                   {"tib", 1024.0 * GiB},
                                                   {"tb", 1e12}}};

bool in_range(const Entry& entry, double value) {
  const bool zero_means_default = value == 0 && entry.default_value == "0";
  return zero_means_default || (value >= entry.min && value <= entry.max);
}

bool parse_amount(const Entry& entry, std::string_view text, Amount& out) {
  double number = 0;
  std::string_view rest;
  if (!parse_number(text, number, rest)) return false;
  const bool percent = rest == "%";
  const bool part = percent || (rest.empty() && text.find('.') != std::string_view::npos);
  if (part) {
    const double fraction = percent ? number / 100 : number;
    if (!(fraction > 0 && fraction <= 1)) return false;
    out = {0, fraction};
    return true;
  }
  std::uint64_t bytes = 0;
  if (!parse_bytes(text, bytes) || !in_range(entry, static_cast<double>(bytes))) return false;
  out = {bytes, 0};
  return true;
}

bool parse_integer(const Entry& entry, std::string_view text, std::uint64_t& out) {
  std::uint64_t value = 0;
  if (entry.unit == Unit::bytes) {
    if (!parse_bytes(text, value)) return false;
  } else {
    double number = 0;
    std::string_view rest;
    if (!parse_number(text, number, rest)) return false;
    if (entry.unit == Unit::milliseconds && same_letters(rest, "s")) {
      number *= 1000;
    } else if (!(rest.empty() || (entry.unit == Unit::milliseconds && same_letters(rest, "ms")))) {
      return false;
    }
    if (number < 0 || number > entry.max || number != std::floor(number)) return false;
    value = static_cast<std::uint64_t>(number);
  }
  if (!in_range(entry, static_cast<double>(value))) return false;
  out = value;
  return true;
}

bool parse_fraction(const Entry& entry, std::string_view text, double& out) {
  double number = 0;
  std::string_view rest;
  if (!parse_number(text, number, rest)) return false;
  const bool percent = rest == "%" && entry.unit == Unit::fraction;
  if (percent) number /= 100;
  const bool finer = std::abs(number * 10 - std::round(number * 10)) > 1e-9;
  if (entry.unit == Unit::one_decimal && finer) return false;
  if (!(rest.empty() || percent) || number < entry.min || number > entry.max) return false;
  out = number;
  return true;
}

std::optional<std::size_t> parse_choice(Choices choices, std::string_view text) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (same_letters(choices[i], trimmed(text))) return i;
  }
  return std::nullopt;
}

bool parse_into(const Entry& entry, std::string_view text, Options& options) {
  const auto set = [&](auto member) {
    auto& target = options.*member;
    using Target = std::remove_reference_t<decltype(target)>;
    if constexpr (std::is_same_v<Target, Amount>) {
      return parse_amount(entry, text, target);
    } else if constexpr (std::is_same_v<Target, double>) {
      return parse_fraction(entry, text, target);
    } else if constexpr (std::is_same_v<Target, std::string>) {
      target = trimmed(text);
      return true;
    } else if constexpr (std::is_same_v<Target, std::uint64_t>) {
      return parse_integer(entry, text, target);
    } else {
      const auto index = parse_choice(entry.choices, text);
      if (index) target = static_cast<Target>(*index);
      return index.has_value();
    }
  };
  return std::visit(set, entry.member);
}

std::string accepted_text(const Entry& entry) {
  const auto size_text = [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  const std::string zero = entry.default_value == "0" && entry.min > 0 ? "0, or " : "";
  switch (entry.unit) {
    case Unit::bytes: {
      const bool part = std::holds_alternative<Amount Options::*>(entry.member);
      std::string range = "a size such as 24GiB or 512MiB";
      if (entry.min > 0) range += " from " + size_text(entry.min);
      if (entry.max < no_max) range += " to " + size_text(entry.max);
      return zero + range + (part ? ", or a part of the device such as 0.8 or 80%" : "");
    }
    case Unit::fraction: return fmt::format("a fraction from {} to {}", entry.min, entry.max);
    case Unit::one_decimal: return fmt::format("a number with one decimal from {:.1f} to {:.1f}", entry.min, entry.max);
    case Unit::text: return std::string(entry.choices.front());
    case Unit::count: return fmt::format("a whole number from {} to {}", entry.min, entry.max);
    case Unit::milliseconds:
      return fmt::format("milliseconds such as 500, 500ms or 10s, from {} to {}", entry.min, entry.max);
    case Unit::choice: return fmt::format("one of {}", fmt::join(entry.choices, ", "));
  }
  return {};
}

std::string_view type_text(const Entry& entry) {
  switch (entry.unit) {
    case Unit::bytes: return std::holds_alternative<Amount Options::*>(entry.member) ? "size or fraction" : "size";
    case Unit::fraction: return "fraction";
    case Unit::one_decimal: return "number";
    case Unit::text: return "text";
    case Unit::count: return "integer";
    case Unit::milliseconds: return "duration";
    case Unit::choice: return "choice";
  }
  return {};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_option(std::string_view name) {
  return std::ranges::min_element(table, {}, [&](const Entry& e) { return edit_distance(e.name, name); })->name;
}

const Entry* find_entry(std::string_view name) {
  const auto* found = std::ranges::find(table, name, &Entry::name);
  return found == table.end() ? nullptr : found;
}

}  // namespace

bool parse_bytes(std::string_view text, std::uint64_t& out) {
  text = trimmed(text);
  // Whole numbers of bytes are read exactly; a double would lose the low bits above 2^53.
  if (!text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
    return result.ec == std::errc() && out <= static_cast<std::uint64_t>(no_max);
  }
  double number = 0;
  std::string_view rest;
  if (!parse_number(text, number, rest) || number < 0) return false;
  for (const Suffix& suffix : byte_suffixes) {
    if (!same_letters(suffix.name, rest)) continue;
    const double bytes = number * suffix.factor;
    if (bytes > no_max) return false;
    out = static_cast<std::uint64_t>(bytes);
    return true;
  }
  return false;
}

std::string format_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= GiB) return fmt::format("{:.2f} GiB", value / static_cast<double>(GiB));
  if (bytes >= MiB) return fmt::format("{:.2f} MiB", value / static_cast<double>(MiB));
  if (bytes >= KiB) return fmt::format("{:.2f} KiB", value / static_cast<double>(KiB));
  return fmt::format("{} bytes", bytes);
}

const std::vector<OptionText>& option_texts() {
  static const auto* const texts = [] {
    auto* made = new std::vector<OptionText>;
    for (const Entry& entry : table) {
      made->push_back({std::string(entry.name), environment_name(entry.name), std::string(type_text(entry)),
                       std::string(entry.default_value), accepted_text(entry), std::string(entry.text)});
    }
    return made;
  }();
  return *texts;
}

Options default_options() {
  Options options;
  for (const Entry& entry : table) {
    [[maybe_unused]] const bool parsed = parse_into(entry, entry.default_value, options);
  }
  return options;
}

bool set_option(Options& options, std::string_view name, std::string_view value, std::string& error) {
  const Entry* entry = find_entry(name);
  if (entry == nullptr) {
    error = fmt::format("unknown option '{}'; the nearest is '{}'", name, nearest_option(name));
    return false;
  }
  if (!parse_into(*entry, value, options)) {
    error = fmt::format("{}: '{}' is not accepted: {}", name, value, accepted_text(*entry));
    return false;
  }
  return true;
}

bool apply_environment(Options& options, const char* const* environment, std::vector<std::string>& warnings,
                       std::string& error) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view line(*environment);
    const std::size_t equals = line.find('=');
    if (!line.starts_with(variable_prefix) || equals == std::string_view::npos) continue;
    const std::string_view variable = line.substr(0, equals);
    if (std::ranges::find(other_variables, variable) != other_variables.end()) continue;
    std::string name;
    for (const char c : variable.substr(variable_prefix.size())) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const Entry* entry = find_entry(name);
    if (entry == nullptr || environment_name(entry->name) != variable) {
      warnings.push_back(
          fmt::format("unknown variable {}; the nearest is {}", variable, environment_name(nearest_option(name))));
      continue;
    }
    const std::string_view value = line.substr(equals + 1);
    if (!parse_into(*entry, value, options)) {
      error = fmt::format("{}: '{}' is not accepted: {}", variable, value, accepted_text(*entry));
      return false;
    }
  }
  return true;
}

}  // namespace reprieve
