// A recorded run of allocations, checked and made dense: what the replay's loop reads is arrays and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "replay/replay.h"

namespace reprieve::replay {

enum class Op : std::uint8_t {
  allocate,
  free,     // on the stream that the block was allocated for
  free_on,  // after a last use on another stream
  record,   // work on another stream uses the block
  empty_cache,
};

// `slot` names the block from its allocation to its free, after which another block may have it: the loop's table of
// pointers stays as small as the largest number of blocks live at once (empty_cache has slot 0). `stream` indexes Trace::stream_ids.
struct Event {
  std::uint64_t bytes;  // allocate only, else 0
  std::uint32_t slot : 29;
  Op op : 3;
  std::uint16_t stream;
  std::uint16_t pool;  // allocate only, else 0; indexes Trace::pools
};
static_assert(sizeof(Event) == 16, "a trace may have tens of millions");

struct TracePool {
  std::uint32_t id;  // the trace's own number
  bool graph;        // captured graphs use it
};

struct Trace {
  std::vector<Event> events;
  std::vector<std::uint64_t> times_us;       // of each event, from the first one
  std::vector<std::uint64_t> stream_ids;     // in order of appearance
  std::vector<TracePool> pools{{0, false}};  // the default pool, then the private ones in order of appearance
  std::uint32_t slots = 0;
  std::uint64_t first_event_line = 1;  // 0: the trace has no lines
  std::uint64_t peak_requested_bytes = 0;
  std::uint64_t duration_us = 0;
};

struct ParseError {
  std::uint64_t line = 0;   // from 1; 0 where the trace has no lines
  std::int64_t event = -1;  // from 0; -1 where the trace has lines, or it is no event's fault
  std::string text;         // printable, one line: what is wrong, what is accepted
};

// True: `out` is the trace. False: `error` says what is wrong with it. The form is docs/replay.md's.
bool parse(std::string_view text, Trace& out, ParseError& error);

// The same from events in memory, as replay.h has them.
bool from_events(const reprieve_replay_event* events, std::size_t count, Trace& out, ParseError& error);

}  // namespace reprieve::replay
