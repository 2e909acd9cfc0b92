// Drives the C interface with a trace and measures it. Knows the library by its public header alone, so what is
// measured is what any program gets.
#pragma once

#include <cstdint>
#include <string>

#include "replay/replay.h"
#include "replay/trace.hpp"

namespace reprieve::replay {

enum class Outcome : std::uint8_t {
  done,     // also when memory ran out: that is a result
  failed,   // a call of the library failed for another reason
  refused,  // the configuration is not acceptable
};

// Both leave the library shut down. `error` is one line where the outcome is not `done`. replay.h has the meanings.
Outcome run(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out, std::string& error);
Outcome find_min_limit(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out,
                       std::string& error);

}  // namespace reprieve::replay
