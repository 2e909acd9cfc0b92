#include "replay/engine.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "replay/session.hpp"

namespace reprieve::replay {
namespace {

constexpr std::uint64_t page_bytes = 2ULL << 20;       // what a driver allocates in, so what a limit can tell apart
constexpr std::uint64_t smallest_limit = 32ULL << 20;  // the least that the option `limit` accepts
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

constexpr std::uint64_t pages(std::uint64_t bytes) { return (bytes + page_bytes - 1) / page_bytes; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// What is timed, once a repeat: clocks vary, so the median of each is told.
struct Timings {
  std::vector<double> first, second, first_total, second_total, driver_us, teardown_us;
};

bool accepted(const reprieve_replay_config& config, std::string& error) {
  const bool sim = config.device != nullptr && std::strcmp(config.device, "sim") == 0;
  const bool cuda = config.device != nullptr && std::strcmp(config.device, "cuda") == 0;
  if (!sim && !cuda) {
    error = "unknown device, accepted are sim and cuda";
  } else if (cuda && config.capacity_bytes != 0) {
    error = "a capacity is the simulated device's, accepted with device sim only";
  } else if (config.repeats < 1) {
    error = "repeats must be 1 or more";
  }
  return error.empty();
}

Outcome start(Session& session, const Trace& trace, const reprieve_replay_config& config, std::uint64_t limit,
              std::string& error) {
  const Session::Start started = session.start(trace, config.device, limit, config.capacity_bytes);
  if (started == Session::Start::up) return Outcome::done;
  error = session.error();
  return started == Session::Start::refused ? Outcome::refused : Outcome::failed;
}

// A fresh library, two passes, everything given back. Fills what does not vary into `out`, the rest into `timings`.
Outcome measure(const Trace& trace, const reprieve_replay_config& config, bool first_repeat,
                reprieve_replay_result& out, Timings& timings, std::string& error) {
  Session session;
  const Outcome started = start(session, trace, config, config.limit_bytes, error);
  if (started != Outcome::done) return started;

  const auto events = static_cast<double>(trace.events.size());
  const auto own_ns = [&](const Pass& pass) {
    return static_cast<double>(std::max<std::int64_t>(pass.wall_ns - pass.driver_wall_ns, 0)) / events;
  };
  const auto total_ns = [&](const Pass& pass) { return static_cast<double>(pass.wall_ns) / events; };

  reprieve_stats before{}, after{};
  Pass first, second;
  std::int64_t teardown_ns = 0;
  bool good = session.stats(before) && session.play(first) && session.stats(after);
  if (good && first_repeat) good = session.validate();
  good = good && session.release_blocks();
  const bool completed = first.failed_at_event < 0;
  if (good && completed) good = session.play(second) && session.release_blocks();
  good = good && session.give_back(teardown_ns) && session.shutdown();
  if (!good) {
    error = session.error();
    return Outcome::failed;
  }

  if (first_repeat || !completed) {
    out.completed = completed ? 1 : 0;
    out.failed_at_event = first.failed_at_event;
    out.peak_reserved_bytes = static_cast<std::uint64_t>(after.reserved_bytes.peak);
    for (std::size_t kind = 0; kind < std::size(out.driver_calls); ++kind) {
      out.driver_calls[kind] = after.driver_calls[kind] - before.driver_calls[kind];
    }
  }
  timings.first.push_back(own_ns(first));
  timings.first_total.push_back(total_ns(first));
  timings.second.push_back(own_ns(second));
  timings.second_total.push_back(total_ns(second));
  timings.driver_us.push_back(static_cast<double>(after.driver_ns - before.driver_ns) / 1e3);
  timings.teardown_us.push_back(static_cast<double>(teardown_ns) / 1e3);
  return Outcome::done;
}

// Whether the trace completes under the limit; `failed_at` is the event where it does not.
Outcome completes(const Trace& trace, const reprieve_replay_config& config, std::uint64_t limit_bytes, bool& yes,
                  std::int64_t& failed_at, std::string& error) {
  Session session;
  const Outcome started = start(session, trace, config, limit_bytes, error);
  if (started != Outcome::done) return started;
  Pass pass;
  if (!session.play(pass) || !session.release_blocks() || !session.shutdown()) {
    error = session.error();
    return Outcome::failed;
  }
  failed_at = pass.failed_at_event;
  yes = failed_at < 0;
  return Outcome::done;
}

}  // namespace

Outcome run(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out, std::string& error) {
  error.clear();
  if (!accepted(config, error)) return Outcome::refused;
  out.failed_at_event = -1;
  out.min_limit_bytes = 0;
  Timings timings;
  for (std::int32_t repeat = 0; repeat < config.repeats; ++repeat) {
    const Outcome outcome = measure(trace, config, repeat == 0, out, timings, error);
    if (outcome != Outcome::done) return outcome;
    if (out.completed == 0) break;
  }
  out.ns_per_event = median(std::move(timings.first));
  out.ns_per_event_second_pass = median(std::move(timings.second));
  out.total_ns_per_event = median(std::move(timings.first_total));
  out.total_ns_per_event_second_pass = median(std::move(timings.second_total));
  out.driver_us = median(std::move(timings.driver_us));
  out.teardown_driver_us = median(std::move(timings.teardown_us));
  return Outcome::done;
}

Outcome find_min_limit(const Trace& trace, const reprieve_replay_config& config, reprieve_replay_result& out,
                       std::string& error) {
  error.clear();
  if (config.limit_bytes != 0) {
    error = "a limit and the search for the smallest one exclude each other";
    return Outcome::refused;
  }
  const Outcome outcome = run(trace, config, out, error);
  // Where the whole card is too small, no limit on it is large enough.
  if (outcome != Outcome::done || out.completed == 0) return outcome;

  const std::uint64_t peak = std::min(trace.peak_requested_bytes, most_bytes);
  std::uint64_t impossible = pages(std::max(peak, smallest_limit)) - 1;  // in pages, as `enough`
  std::uint64_t enough = pages(std::max({peak + peak / 10 * 3, out.peak_reserved_bytes, smallest_limit}));
  const auto try_limit = [&](std::uint64_t limit_pages, bool& yes) {
    return completes(trace, config, limit_pages * page_bytes, yes, out.failed_at_event, error);
  };

  bool yes = false;
  if (const Outcome tried = try_limit(enough, yes); tried != Outcome::done) return tried;
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
