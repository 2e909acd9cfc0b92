// One trace under one policy, as the engine asks for it: the library itself, or a model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "replay/engine.hpp"

namespace reprieve::replay {

class Runner {
 public:
  virtual ~Runner() = default;

  // Plays the trace under config.limit_bytes and fills in everything but min_limit_bytes.
  virtual Outcome measure(reprieve_replay_result& out, std::string& error) = 0;

  // Whether the trace completes under the limit; `failed_at` is the event where it does not, else -1.
  virtual Outcome completes(std::uint64_t limit_bytes, bool& yes, std::int64_t& failed_at, std::string& error) = 0;

  // The least that may be asked of completes().
  virtual std::uint64_t smallest_limit() const = 0;

  // A limit that takes nothing from a run that reserved so much without one.
  virtual std::uint64_t harmless_limit(std::uint64_t peak_reserved) const = 0;
};

// Null where the configuration is refused. The trace and the configuration must outlive it.
std::unique_ptr<Runner> make_library_runner(const Trace& trace, const reprieve_replay_config& config,
                                            std::string& error);
std::unique_ptr<Runner> make_model_runner(const Trace& trace, const reprieve_replay_config& config, std::string& error);

}  // namespace reprieve::replay
