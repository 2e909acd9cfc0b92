// One life of the library, from its options to its shutdown, and passes of a trace in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/replay.h"
#include "replay/timeline.hpp"
#include "replay/trace.hpp"

namespace reprieve::replay {

struct Pass {
  std::int64_t failed_at_event = -1;  // -1: the whole trace
  std::int64_t wall_ns = 0;           // of the loop
  std::int64_t driver_wall_ns = 0;    // of that, inside the driver, by the same clock
};

class Session {
 public:
  Session() = default;
  ~Session();  // shuts down what is still up
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  enum class Start : std::uint8_t { up, refused, failed };

  // Sets the options, starts the library and makes the trace's streams and pools. `refused`: an option was not accepted.
  Start start(const Trace& trace, const char* device, std::uint64_t limit_bytes, std::uint64_t capacity_bytes);

  // Plays the trace, then stops where it is: blocks that it leaves live stay so until release_blocks(). False only
  // where a call failed for another reason than a lack of memory.
  bool play(Pass& out);

  // The same, in the timeline's intervals.
  bool play(Timeline& out);

  // Frees what is live and waits for the streams. The memory stays with the allocator: the next pass finds it warm.
  bool release_blocks();

  bool stats(reprieve_stats& out);
  bool validate();

  // Gives all memory back; `driver_ns` is what that cost in the driver.
  bool give_back(std::int64_t& driver_ns);

  // Ends the pools, the streams and the library. To be called last; the destructor's shutdown reports nothing.
  bool shutdown();

  const std::string& error() const { return error_; }

 private:
  bool check(reprieve_status status, const char* what);
  bool set_option(const char* name, const std::string& value);
  reprieve_status loop(std::size_t from, std::size_t to, std::size_t& done);
  bool out_of_memory(reprieve_status status, std::size_t at);  // false: it is another failure

  const Trace* trace_ = nullptr;
  std::vector<reprieve_stream> streams_;  // by Event::stream; trace stream 0 is the legacy default stream
  std::vector<reprieve_pool> pools_;      // by Event::pool; the first is the default pool, 0
  std::vector<void*> blocks_;             // by Event::slot, null where none is live
  std::string error_;
  bool up_ = false;
};

}  // namespace reprieve::replay
