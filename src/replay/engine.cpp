#include "replay/engine.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "replay/runner.hpp"

namespace reprieve::replay {
namespace {

constexpr std::uint64_t page_bytes = 2ULL << 20;  // what a driver allocates in, so what a limit can tell apart
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

constexpr std::uint64_t pages(std::uint64_t bytes) { return (bytes + page_bytes - 1) / page_bytes; }

std::unique_ptr<Runner> make_runner(const Trace& trace, const reprieve_replay_config& config, std::string& error) {
  error.clear();
  const bool room = config.sample_capacity == 0 || (config.sample_capacity >= 2 && config.samples != nullptr);
  if (!room) {
    error = "a place for 2 samples or more is needed, or none";
    return nullptr;
  }
  if (config.policy == nullptr || std::strcmp(config.policy, "reprieve") == 0) {
    return make_library_runner(trace, config, error);
  }
  if (std::strcmp(config.policy, "native") == 0 || std::strcmp(config.policy, "expandable") == 0) {
    return make_model_runner(trace, config, error);
  }
  error = "unknown policy, accepted are reprieve, native and expandable";
  return nullptr;
}

}  // namespace

Outcome run(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out, std::string& error) {
  const std::unique_ptr<Runner> runner = make_runner(trace, config, error);
  if (runner == nullptr) return Outcome::refused;
  out.min_limit_bytes = 0;
  return runner->measure(out, error);
}

Outcome find_min_limit(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out,
                       std::string& error) {
  if (config.limit_bytes != 0) {
    error = "a limit and the search for the smallest one exclude each other";
    return Outcome::refused;
  }
  const std::unique_ptr<Runner> runner = make_runner(trace, config, error);
  if (runner == nullptr) return Outcome::refused;
  out.min_limit_bytes = 0;
  const Outcome outcome = runner->measure(out, error);
  // Where the whole card is too small, no limit on it is large enough.
  if (outcome != Outcome::done || out.completed == 0) return outcome;

  const std::uint64_t peak = std::min(trace.peak_requested_bytes, most_bytes);
  const std::uint64_t smallest = runner->smallest_limit();
  std::uint64_t impossible = pages(std::max(peak, smallest)) - 1;  // in pages, as `enough`
  std::uint64_t enough = pages(std::max({peak + peak / 10 * 3, out.peak_reserved_bytes, smallest}));
  const auto try_limit = [&](std::uint64_t limit_pages, bool& yes) {
    return runner->completes(limit_pages * page_bytes, yes, out.failed_at_event, error);
  };

  bool yes = false;
  if (const Outcome tried = try_limit(enough, yes); tried != Outcome::done) return tried;
  if (const std::uint64_t most = pages(runner->harmless_limit(out.peak_reserved_bytes)); !yes && most > enough) {
    impossible = std::exchange(enough, most);
    if (const Outcome tried = try_limit(enough, yes); tried != Outcome::done) return tried;
  }
  if (!yes) {
    out.completed = 0;
    return Outcome::done;
  }
  while (enough - impossible > 1) {
    const std::uint64_t middle = impossible + (enough - impossible) / 2;
    if (const Outcome tried = try_limit(middle, yes); tried != Outcome::done) return tried;
    (yes ? enough : impossible) = middle;
  }
  if (const Outcome tried = try_limit(enough, yes); tried != Outcome::done) return tried;
  if (!yes) {
    error = "the limit of " + std::to_string(enough * page_bytes) + " bytes completed once and then did not";
    return Outcome::failed;
  }
  out.min_limit_bytes = enough * page_bytes;
  out.failed_at_event = -1;
  return Outcome::done;
}

}  // namespace reprieve::replay
