#include "replay/trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "replay/trace_builder.hpp"

namespace reprieve::replay {
namespace {

constexpr std::string_view columns = "op,id,bytes,stream,time_us";
constexpr std::size_t column_count = 5;

// A field as an error may show it: short, and whatever it holds, one line of printable characters.
std::string quoted(std::string_view field) {
  constexpr std::size_t longest = 40;
  std::string text(field.substr(0, longest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (field.size() > longest ? "…'" : "'");
}

class Parser {
 public:
  Parser(Trace& trace, ParseError& error) : trace_(trace), error_(error), builder_(trace, TraceBuilder::Ids::unique) {}

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
    builder_.finish();
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
    if (op == "r" && bytes != 0) {
      return fail("bytes " + quoted(bytes_text) + " with op r, accepted are 0 and nothing");
    }
    bool good = builder_.time(time_us);
    if (good && op == "a") {
      good = builder_.allocate(id, bytes, stream, 0, line_);
    } else if (good && op == "f") {
      good = builder_.free(id, bytes, sized, stream);
    } else if (good) {
      good = builder_.record(id, stream);
    }
    return good || fail(builder_.error());
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
    return number("stream", text, id) && (builder_.stream(id, out) || fail(builder_.error()));
  }

  Trace& trace_;
  ParseError& error_;
  std::uint64_t line_ = 0;
  TraceBuilder builder_;
};

}  // namespace

bool parse(std::string_view text, Trace& out, ParseError& error) {
  out = {};
  return Parser(out, error).run(text);
}

}  // namespace reprieve::replay
