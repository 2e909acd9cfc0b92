#include "simgpu/settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

namespace reprieve::simgpu {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cuts off what stands before the first `separator`.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = trimmed(text.substr(0, end));
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return part;
}

bool parse_number(std::string_view text, std::uint64_t& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool is_none(std::string_view text) { return trimmed(text).empty() || trimmed(text) == "none"; }

std::string call_names() {
  std::string out;
  for (std::size_t i = 0; i < call_kinds; ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", call_name(static_cast<Call>(i)));
  }
  return out;
}

bool parse_rule(std::string_view text, FailureRule& out, std::string& error) {
  std::string_view rest = text;
  const std::string_view name = next_part(rest, ':');
  const auto call = find_call(name);
  if (!call) {
    error = fmt::format("sim_fail: '{}' is no call; accepted are {}", name, call_names());
    return false;
  }
  out.call = *call;
  while (!rest.empty()) {
    std::string_view pair = next_part(rest, ',');
    const std::string_view key = next_part(pair, '=');
    std::uint64_t value = 0;
    const bool known = key == "after" || key == "times" || key == "code";
    if (!known || !parse_number(trimmed(pair), value) || (key == "code" && (value == 0 || value > 999))) {
      error = fmt::format("sim_fail: '{}' is not accepted: after=N, times=N or code=N (from 1 to 999) behind the call",
                          text);
      return false;
    }
    if (key == "after") out.after = value;
    if (key == "times") out.times = value;
    if (key == "code") out.code = static_cast<Code>(value);
  }
  return true;
}

}  // namespace

bool parse_failures(std::string_view text, std::vector<FailureRule>& out, std::string& error) {
  if (is_none(text)) return true;
  while (!text.empty()) {
    const std::string_view part = next_part(text, ';');
    if (part.empty()) continue;
    FailureRule rule;
    if (!parse_rule(part, rule, error)) return false;
    out.push_back(rule);
  }
  return true;
}

bool parse_held_streams(std::string_view text, int devices, std::vector<HeldStream>& out, std::string& error) {
  if (is_none(text)) return true;
  while (!text.empty()) {
    const std::string_view part = next_part(text, ',');
    std::string_view name = part;
    std::uint64_t device = 0;
    bool good = true;
    if (part.find(':') != std::string_view::npos) good = parse_number(next_part(name, ':'), device);
    HeldStream held;
    if (name != "legacy") good = good && parse_number(name, held.number) && held.number != 0;
    if (!good || device >= static_cast<std::uint64_t>(devices)) {
      error = fmt::format(
          "sim_hold: '{}' is not accepted: legacy or the number of a stream (from 1), behind a device "
          "from 0 to {} and a colon where it is not device 0",
          part, devices - 1);
      return false;
    }
    held.device = static_cast<int>(device);
    out.push_back(held);
  }
  return true;
}

}  // namespace reprieve::simgpu
