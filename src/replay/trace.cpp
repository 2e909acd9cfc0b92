#include "replay/trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>

namespace reprieve::replay {
namespace {

constexpr std::string_view columns = "op,id,bytes,stream,time_us";
constexpr std::size_t column_count = 5;
constexpr std::uint64_t largest_number = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t largest_stream_count = std::numeric_limits<std::uint16_t>::max();

// A field as an error may show it: short, and whatever it holds, one line of printable characters.
std::string quoted(std::string_view field) {
  constexpr std::size_t longest = 40;
  std::string text(field.substr(0, longest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (field.size() > longest ? "…'" : "'");
}

struct Block {
  std::uint64_t bytes;
  std::uint64_t line;  // of its allocation
  std::uint32_t slot;
  std::uint16_t stream;
  bool live;
};

class Parser {
 public:
  Parser(Trace& trace, ParseError& error) : trace_(trace), error_(error) {}

  bool run(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      // A number cut in its middle is still a number: only the end of the line shows that it is whole.
      if (end == std::string_view::npos)
        return fail("the file is cut short in this line, every line ends in a newline");
      std::string_view row = text.substr(0, end);
      text.remove_prefix(end + 1);
      if (row.ends_with('\r')) row.remove_suffix(1);
      if (line_ == 1 && (row.starts_with('#') || row == columns)) {
        trace_.first_event_line = 2;
        continue;
      }
      if (!event(row)) return false;
    }
    if (trace_.events.empty()) {
      ++line_;
      return fail("the trace is empty, it must have at least one event " + std::string(columns));
    }
    trace_.duration_us = last_us_ - first_us_;
    return true;
  }

 private:
  bool fail(std::string text) {
    error_.line = line_;
    error_.text = std::move(text);
    return false;
  }

  bool event(std::string_view row) {
    std::array<std::string_view, column_count> field;
    const auto found = static_cast<std::size_t>(std::count(row.begin(), row.end(), ',')) + 1;
    if (found != column_count) {
      return fail(std::to_string(found) + (found == 1 ? " field" : " fields") + ", a trace has " +
                  std::to_string(column_count) + ": " + std::string(columns));
    }
    for (std::string_view& f : field) {
      const std::size_t comma = std::min(row.find(','), row.size());
      f = row.substr(0, comma);
      row.remove_prefix(std::min(comma + 1, row.size()));
    }
    const auto& [op, id_text, bytes_text, stream_text, time_text] = field;
    if (op != "a" && op != "f" && op != "r") {
      return fail("op " + quoted(op) + " is unknown, accepted are a (allocate), f (free) and r (record_stream)");
    }
    std::uint64_t id = 0, bytes = 0, time_us = 0;
    std::uint16_t stream = 0;
    const bool sized = op == "a" || !bytes_text.empty();
    if (!number("id", id_text, id) || (sized && !number("bytes", bytes_text, bytes)) ||
        !stream_index(stream_text, stream) || !number("time_us", time_text, time_us)) {
      return false;
    }
    if (!time(time_us)) return false;
    if (op == "a") return allocate(id, bytes, stream);
    const auto found_block = blocks_.find(id);
    const char* verb = op == "f" ? "freed" : "recorded";
    if (found_block == blocks_.end()) {
      return fail("id " + std::to_string(id) + " is " + verb + " but was never allocated, it must be a live block's");
    }
    Block& block = found_block->second;
    if (!block.live) {
      return fail("id " + std::to_string(id) + " is " + verb + " but was freed before, it must be a live block's");
    }
    if (op == "f") return free(id, block, bytes_text.empty() ? block.bytes : bytes, stream);
    if (bytes != 0) return fail("bytes " + quoted(bytes_text) + " with op r, accepted are 0 and nothing");
    trace_.events.push_back({0, block.slot, stream, Op::record});
    return true;
  }

  bool number(const char* column, std::string_view text, std::uint64_t& out) {
    const auto reason = [&](const char* what) {
      return fail(std::string(column) + " " + quoted(text) + " is " + what + ", accepted are whole numbers from 0 to " +
                  std::to_string(largest_number));
    };
    if (text.empty()) return reason("missing");
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
    const bool whole = end == text.data() + text.size();
    if (whole && code == std::errc{} && out <= largest_number) return true;
    if (whole && code != std::errc::invalid_argument) return reason("too large");
    std::int64_t negative = 0;
    const auto [minus_end, minus_code] = std::from_chars(text.data(), text.data() + text.size(), negative);
    const bool is_negative = minus_end == text.data() + text.size() && text.front() == '-';
    return reason(is_negative && minus_code != std::errc::invalid_argument ? "negative" : "not a number");
  }

  bool stream_index(std::string_view text, std::uint16_t& out) {
    std::uint64_t id = 0;
    if (!number("stream", text, id)) return false;
    if (const auto known = streams_.find(id); known != streams_.end()) {
      out = known->second;
      return true;
    }
    if (trace_.stream_ids.size() == largest_stream_count) {
      return fail("stream " + quoted(text) + " is one too many, accepted are " + std::to_string(largest_stream_count) +
                  " different ones");
    }
    out = static_cast<std::uint16_t>(trace_.stream_ids.size());
    streams_.emplace(id, out);
    trace_.stream_ids.push_back(id);
    return true;
  }

  bool time(std::uint64_t time_us) {
    if (trace_.events.empty()) {
      first_us_ = time_us;
    } else if (time_us < last_us_) {
      return fail("time_us " + std::to_string(time_us) + " is before the line above's " + std::to_string(last_us_) +
                  ", times must not go back");
    }
    last_us_ = time_us;
    return true;
  }

  bool allocate(std::uint64_t id, std::uint64_t bytes, std::uint16_t stream) {
    if (bytes > largest_number - live_bytes_)
      return fail("more than " + std::to_string(largest_number) + " bytes live");
    const auto [place, is_new] = blocks_.try_emplace(id, Block{bytes, line_, 0, stream, true});
    if (!is_new) {
      return fail("id " + std::to_string(id) + " is allocated again (first on line " +
                  std::to_string(place->second.line) + "), each id may be allocated once");
    }
    std::uint32_t slot = trace_.slots;
    if (free_slots_.empty()) {
      ++trace_.slots;
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    place->second.slot = slot;
    live_bytes_ += bytes;
    trace_.peak_requested_bytes = std::max(trace_.peak_requested_bytes, live_bytes_);
    trace_.events.push_back({bytes, slot, stream, Op::allocate});
    return true;
  }

  bool free(std::uint64_t id, Block& block, std::uint64_t bytes, std::uint16_t stream) {
    if (bytes != block.bytes) {
      return fail("id " + std::to_string(id) + " is freed with " + std::to_string(bytes) + " bytes, accepted are its " +
                  std::to_string(block.bytes) + " and nothing");
    }
    block.live = false;
    live_bytes_ -= block.bytes;
    free_slots_.push_back(block.slot);
    trace_.events.push_back({0, block.slot, stream, stream == block.stream ? Op::free : Op::free_on});
    return true;
  }

  Trace& trace_;
  ParseError& error_;
  std::uint64_t line_ = 0;
  std::uint64_t first_us_ = 0, last_us_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::unordered_map<std::uint64_t, Block> blocks_;  // every id of the trace, freed ones too: ids are not used again
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace

bool parse(std::string_view text, Trace& out, ParseError& error) {
  out = {};
  return Parser(out, error).run(text);
}

}  // namespace reprieve::replay
