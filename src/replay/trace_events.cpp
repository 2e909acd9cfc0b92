// Traces from events in memory: what the CSV's fields cannot hold, such as pools.
#include <string>

#include "replay/trace_builder.hpp"

namespace reprieve::replay {
namespace {

bool add(TraceBuilder& builder, const reprieve_replay_event& event, std::string& error) {
  const auto refuse = [&](std::string text) {
    error = std::move(text);
    return false;
  };
  const auto number = [&](const char* name, std::uint64_t value) {
    return value <= largest_number ||
           refuse(std::string(name) + " " + std::to_string(value) +
                  " is too large, accepted are whole numbers from 0 to " + std::to_string(largest_number));
  };
  if (!number("bytes", event.bytes) || !number("time_us", event.time_us)) return false;
  std::uint16_t stream = 0, pool = 0;
  const bool allocates = event.op == REPRIEVE_REPLAY_ALLOCATE;
  if (event.op > REPRIEVE_REPLAY_EMPTY_CACHE) {
    return refuse("op " + std::to_string(event.op) +
                  " is unknown, accepted are 0 (allocate), 1 (free), 2 (record) and 3 (empty cache)");
  }
  if (event.flags > (allocates ? REPRIEVE_REPLAY_GRAPH_POOL : 0)) {
    return refuse("flags " + std::to_string(event.flags) + ", accepted are 0, and 1 (a graph's pool) on an allocation");
  }
  if (event.op == REPRIEVE_REPLAY_RECORD && event.bytes != 0) {
    return refuse("bytes " + std::to_string(event.bytes) + " with op 2 (record), accepted is 0");
  }
  if (event.op == REPRIEVE_REPLAY_EMPTY_CACHE) {
    if (event.id != 0 || event.bytes != 0 || event.stream != 0) {
      return refuse("op 3 (empty cache) with an id, bytes or a stream, accepted is 0 for each");
    }
    if (!builder.time(event.time_us)) return refuse(builder.error());
    builder.empty_cache();
    return true;
  }
  bool good = builder.stream(event.stream, stream) && builder.time(event.time_us);
  if (good && allocates) {
    good = builder.pool(event.pool, event.flags == REPRIEVE_REPLAY_GRAPH_POOL, pool) &&
           builder.allocate(event.id, event.bytes, stream, pool, 0);
  } else if (good && event.op == REPRIEVE_REPLAY_FREE) {
    good = builder.free(event.id, event.bytes, event.bytes != 0, stream);
  } else if (good) {
    good = builder.record(event.id, stream);
  }
  return good || refuse(builder.error());
}

}  // namespace

bool from_events(const reprieve_replay_event* events, std::size_t count, Trace& out, ParseError& error) {
  out = {};
  out.first_event_line = 0;
  error = {};
  if (count == 0) {
    error.text = "the trace is empty, it must have at least one event";
    return false;
  }
  out.events.reserve(count);
  out.times_us.reserve(count);
  TraceBuilder builder(out, TraceBuilder::Ids::reusable);
  for (std::size_t i = 0; i < count; ++i) {
    if (add(builder, events[i], error.text)) continue;
    error.event = static_cast<std::int64_t>(i);
    return false;
  }
  builder.finish();
  return true;
}

}  // namespace reprieve::replay
