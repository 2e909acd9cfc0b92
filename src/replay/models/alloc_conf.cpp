// What is accepted was found out with PyTorch 2.11's own parser. It differs here in that separators are checked, and
// that a number with a minus sign is none.
#include "replay/models/alloc_conf.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <vector>

namespace reprieve::replay::models {
namespace {

constexpr std::uint64_t most_mib = std::numeric_limits<std::uint64_t>::max() / MiB;
constexpr std::uint64_t most_register_threads = 128;

struct Entry {
  std::string key, value;  // a list with its brackets
};

// Fills in one entry; on false `accepted` says what the value must be.
using Reader = bool (*)(const std::string& value, AllocConf& conf, std::string& accepted);

// As std::stoull: what follows a number is not looked at.
bool number(std::string_view text, std::uint64_t& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc{};
}

bool number(std::string_view text, double& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc{};
}

bool mebibytes(const std::string& value, std::uint64_t from, std::uint64_t& bytes, std::string& accepted) {
  std::uint64_t mib = 0;
  if (!number(value, mib) || mib < from) {
    accepted = "whole numbers from " + std::to_string(from) + " up";
    return false;
  }
  bytes = std::min(mib, most_mib) * MiB;
  return true;
}

bool large_segment(const std::string& value, AllocConf& conf, std::string& accepted) {
  if (!mebibytes(value, own_segment_from / MiB + 1, conf.large_segment, accepted)) return false;
  conf.max_non_split_rounding = conf.large_segment;
  return true;
}

bool max_split_size(const std::string& value, AllocConf& conf, std::string& accepted) {
  if (mebibytes(value, conf.large_segment / MiB, conf.max_split_size, accepted)) return true;
  accepted += " (that of large_segment_size_mb)";
  return false;
}

bool max_non_split_rounding(const std::string& value, AllocConf& conf, std::string& accepted) {
  if (mebibytes(value, conf.large_segment / MiB, conf.max_non_split_rounding, accepted)) return true;
  accepted += " (that of large_segment_size_mb)";
  return false;
}

bool garbage_collection(const std::string& value, AllocConf& conf, std::string& accepted) {
  accepted = "numbers above 0 and below 1";
  return number(value, conf.garbage_collection_threshold) && conf.garbage_collection_threshold > 0 &&
         conf.garbage_collection_threshold < 1;
}

bool memory_fraction(const std::string& value, AllocConf& conf, std::string& accepted) {
  accepted = "numbers from 0 to 1";
  return number(value, conf.memory_fraction) && conf.memory_fraction >= 0 && conf.memory_fraction <= 1;
}

// [MIB:DIVISIONS,…,>:DIVISIONS]: from each size on, what is below the first as the first, '>' for all that is beyond.
bool roundup_list(std::string_view list, AllocConf& conf) {
  auto& divisions = conf.roundup_divisions;
  std::size_t last = 0;
  for (bool first = true; !list.empty(); first = false) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const std::size_t colon = item.find(':');
    std::uint64_t mib = 0, value = 0;
    if (colon == std::string_view::npos || !number(item.substr(colon + 1), value)) return false;
    if (value != 0 && !std::has_single_bit(value)) return false;
    if (item.substr(0, colon) == ">") {
      std::fill(std::next(divisions.begin(), static_cast<std::ptrdiff_t>(last + 1)), divisions.end(), value);
      continue;
    }
    if (!number(item.substr(0, colon), mib) || !std::has_single_bit(mib)) return false;
    last = std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(mib)), divisions.size() - 1);
    if (first) std::fill_n(divisions.begin(), last, value);
    divisions[last] = value;
  }
  return true;
}

bool roundup_divisions(const std::string& value, AllocConf& conf, std::string& accepted) {
  accepted = "a power of 2, or a list such as [256:1,512:2,>:4]: powers of 2 in MiB, each with a power of 2 or 0";
  conf.roundup_divisions = {};
  if (value.starts_with('[')) return roundup_list(std::string_view(value).substr(1, value.size() - 2), conf);
  std::uint64_t divisions = 0;
  if (!number(value, divisions) || !std::has_single_bit(divisions)) return false;
  conf.roundup_divisions.fill(divisions);
  return true;
}

bool boolean(const std::string& value, AllocConf&, std::string& accepted) {
  accepted = "True and False";
  return value == "True" || value == "False";
}

bool expandable_segments(const std::string& value, AllocConf& conf, std::string& accepted) {
  conf.expandable_segments = value == "True";
  return boolean(value, conf, accepted);
}

bool backend(const std::string& value, AllocConf&, std::string& accepted) {
  accepted = "native (the models are of that one)";
  return value == "native";
}

bool register_threads(const std::string& value, AllocConf&, std::string& accepted) {
  accepted = "powers of 2 up to " + std::to_string(most_register_threads);
  std::uint64_t threads = 0;
  return number(value, threads) && std::has_single_bit(threads) && threads <= most_register_threads;
}

bool reserve_segment(const std::string& value, AllocConf&, std::string& accepted) {
  std::uint64_t bytes = 0;
  return mebibytes(value, 1, bytes, accepted);
}

struct Key {
  const char* name;
  Reader read;
};

// The first is read before the others, wherever it stands: it sets what two of them accept.
constexpr Key keys[] = {
    {"large_segment_size_mb", large_segment},
    {"max_split_size_mb", max_split_size},
    {"max_non_split_rounding_mb", max_non_split_rounding},
    {"garbage_collection_threshold", garbage_collection},
    {"roundup_power2_divisions", roundup_divisions},
    {"expandable_segments", expandable_segments},
    {"per_process_memory_fraction", memory_fraction},
    {"backend", backend},
};

// These say nothing on how much memory is taken from a device.
constexpr Key other_keys[] = {
    {"release_lock_on_cudamalloc", boolean},           {"release_lock_on_hipmalloc", boolean},
    {"graph_capture_record_stream_reuse", boolean},    {"pinned_use_background_threads", boolean},
    {"pinned_use_cuda_host_register", boolean},        {"pinned_use_hip_host_register", boolean},
    {"pinned_num_register_threads", register_threads}, {"pinned_reserve_segment_size_mb", reserve_segment},
};

bool is_key(std::string_view name) {
  const auto named = [&](const Key& key) { return name == key.name; };
  return std::any_of(std::begin(keys), std::end(keys), named) ||
         std::any_of(std::begin(other_keys), std::end(other_keys), named);
}

std::string accepted_keys() {
  std::string names;
  for (const Key& key : keys) names += std::string(key.name) + ", ";
  return names + "and " + std::to_string(std::size(other_keys)) + " that change nothing here (docs/models.md)";
}

// A part of the text as an error may show it.
std::string quoted(std::string_view part) {
  constexpr std::size_t longest = 60;
  std::string text(part.substr(0, longest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (part.size() > longest ? "…'" : "'");
}

bool split(std::string_view text, std::vector<Entry>& out, std::string& error) {
  constexpr std::string_view separators = ",:[]";
  std::string rest;
  std::copy_if(text.begin(), text.end(), std::back_inserter(rest),
               [](char c) { return std::string_view(" \t\n\v\f\r").find(c) == std::string_view::npos; });
  std::string_view left = rest;
  while (!left.empty()) {
    const std::string_view key = left.substr(0, left.find_first_of(separators));
    if (!is_key(key)) {
      error = "unknown key " + quoted(key.empty() ? left.substr(0, 1) : key) + ", accepted are " + accepted_keys();
      return false;
    }
    left.remove_prefix(key.size());
    std::size_t end = std::min(left.find_first_of(separators, 1), left.size());
    if (left.starts_with(":[")) end = std::min(left.find(']', 2), left.size() - 1) + 1;
    const std::string_view value = left.substr(0, end);
    const bool closed = !value.starts_with(":[") || value.ends_with(']');
    if (!value.starts_with(':') || value.size() < 2 || !closed) {
      error = "the value of " + std::string(key) + (value.size() < 2 ? " is missing" : " is cut short") +
              ", expected " + std::string(key) + ":VALUE";
      return false;
    }
    out.push_back({std::string(key), std::string(value.substr(1))});
    left.remove_prefix(end);
    if (!left.empty() && !left.starts_with(',')) {
      error = "after " + std::string(key) + std::string(value) + " comes " + quoted(left.substr(0, 1)) +
              ", expected a comma or the end";
      return false;
    }
    left.remove_prefix(std::min<std::size_t>(1, left.size()));
  }
  return true;
}

}  // namespace

std::uint64_t AllocConf::block_bytes(std::uint64_t requested) const {
  if (requested < smallest_block) return smallest_block;
  const int power = 63 - std::countl_zero(requested);
  const int interval = std::clamp(power - std::countr_zero(MiB), 0, static_cast<int>(roundup_intervals) - 1);
  const std::uint64_t divisions = roundup_divisions[static_cast<std::size_t>(interval)];
  if (divisions > 1 && requested > smallest_block * divisions) {
    return round_up(requested, (1ULL << power) / divisions);
  }
  return round_up(requested, smallest_block);
}

std::uint64_t AllocConf::segment_bytes(std::uint64_t block) const {
  if (block <= largest_small_block) return small_segment;
  return block < own_segment_from ? large_segment : round_up(block, segment_multiple);
}

bool parse_alloc_conf(std::string_view text, AllocConf& out, std::string& error) {
  std::vector<Entry> entries;
  if (!split(text, entries, error)) return false;
  AllocConf conf;
  const auto read = [&](const Key& key) {
    for (const Entry& entry : entries) {
      std::string accepted;
      if (entry.key != key.name || key.read(entry.value, conf, accepted)) continue;
      error = entry.key + ": " + quoted(entry.value) + " is not accepted, accepted are " + accepted;
      return false;
    }
    return true;
  };
  if (!std::all_of(std::begin(keys), std::end(keys), read)) return false;
  if (!std::all_of(std::begin(other_keys), std::end(other_keys), read)) return false;
  out = conf;
  return true;
}

}  // namespace reprieve::replay::models
