// The C side of replay.h: structures by their size, and no exception beyond this file.
#include "replay/replay.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "replay/engine.hpp"
#include "replay/models/alloc_conf.hpp"
#include "replay/trace.hpp"

struct reprieve_replay_trace {
  reprieve::replay::Trace trace;
};

namespace {

using reprieve::replay::Outcome;
using reprieve::replay::ParseError;
using reprieve::replay::Trace;

// Copies as much of a structure as the side with the smaller one knows of, keeping the receiver's own size.
template <typename Struct>
void hand_over(Struct value, Struct* to) {
  const std::size_t size = std::min(to->size, sizeof value);
  value.size = to->size;
  std::memcpy(to, &value, size);
}

int report(reprieve_replay_error* error, int code, std::string_view text, std::uint64_t line = 0,
           std::int64_t event = -1) {
  if (error == nullptr) return code;
  reprieve_replay_error filled{};
  filled.line = line;
  filled.event = event;
  const std::size_t length = std::min(text.size(), sizeof filled.text - 1);
  std::copy_n(text.begin(), length, filled.text);
  std::replace(filled.text, filled.text + length, '\n', ' ');
  hand_over(filled, error);
  return code;
}

template <typename Reader>
int read(reprieve_replay_trace** out, reprieve_replay_error* error, Reader&& reader) {
  try {
    auto trace = std::make_unique<reprieve_replay_trace>();
    ParseError wrong;
    if (!reader(trace->trace, wrong)) {
      return report(error, REPRIEVE_REPLAY_REFUSED, wrong.text, wrong.line, wrong.event);
    }
    *out = trace.release();
    return REPRIEVE_REPLAY_OK;
  } catch (const std::exception& exception) {
    return report(error, REPRIEVE_REPLAY_FAILED, exception.what());
  }
}

using Measurement = Outcome (*)(const Trace&, const reprieve_replay_config&, reprieve_replay_result&, std::string&);

int measured(Measurement measurement, const reprieve_replay_trace* trace, const reprieve_replay_config* config,
             reprieve_replay_result* out, reprieve_replay_error* error) {
  if (trace == nullptr || config == nullptr || out == nullptr) {
    return report(error, REPRIEVE_REPLAY_REFUSED, "a trace, a configuration and a place for the result are needed");
  }
  try {
    reprieve_replay_config known{};
    std::memcpy(&known, config, std::min(config->size, sizeof known));
    reprieve_replay_result result{};
    std::string text;
    switch (measurement(trace->trace, known, result, text)) {
      case Outcome::done: hand_over(result, out); return REPRIEVE_REPLAY_OK;
      case Outcome::refused: return report(error, REPRIEVE_REPLAY_REFUSED, text);
      case Outcome::failed: break;
    }
    return report(error, REPRIEVE_REPLAY_FAILED, text);
  } catch (const std::exception& exception) {
    return report(error, REPRIEVE_REPLAY_FAILED, exception.what());
  }
}

}  // namespace

int reprieve_replay_parse(const char* text, size_t length, reprieve_replay_trace** out, reprieve_replay_error* error) {
  return read(out, error, [&](Trace& trace, ParseError& wrong) {
    return reprieve::replay::parse({text, length}, trace, wrong);
  });
}

int reprieve_replay_from_events(const reprieve_replay_event* events, size_t count, reprieve_replay_trace** out,
                                reprieve_replay_error* error) {
  return read(out, error, [&](Trace& trace, ParseError& wrong) {
    return reprieve::replay::from_events(events, count, trace, wrong);
  });
}

void reprieve_replay_trace_free(reprieve_replay_trace* trace) { delete trace; }

void reprieve_replay_trace_describe(const reprieve_replay_trace* trace, reprieve_replay_trace_info* out) {
  const Trace& known = trace->trace;
  hand_over({0, known.events.size(), known.stream_ids.size(), known.first_event_line, known.peak_requested_bytes,
             known.duration_us, known.pools.size() - 1},
            out);
}

int reprieve_replay_run(const reprieve_replay_trace* trace, const reprieve_replay_config* config,
                        reprieve_replay_result* out, reprieve_replay_error* error) {
  return measured(reprieve::replay::run, trace, config, out, error);
}

int reprieve_replay_min_limit(const reprieve_replay_trace* trace, const reprieve_replay_config* config,
                              reprieve_replay_result* out, reprieve_replay_error* error) {
  return measured(reprieve::replay::find_min_limit, trace, config, out, error);
}

int reprieve_replay_check_alloc_conf(const char* text, reprieve_replay_alloc_conf_info* out,
                                     reprieve_replay_error* error) {
  try {
    reprieve::replay::models::AllocConf conf;
    std::string wrong;
    if (!reprieve::replay::models::parse_alloc_conf(text, conf, wrong)) {
      return report(error, REPRIEVE_REPLAY_REFUSED, wrong);
    }
    hand_over({0, conf.expandable_segments.has_value() ? static_cast<std::int32_t>(*conf.expandable_segments) : -1},
              out);
    return REPRIEVE_REPLAY_OK;
  } catch (const std::exception& exception) {
    return report(error, REPRIEVE_REPLAY_FAILED, exception.what());
  }
}
