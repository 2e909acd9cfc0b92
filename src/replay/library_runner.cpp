// The policy `reprieve`: the library itself, through its C interface.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "replay/runner.hpp"
#include "replay/session.hpp"
#include "replay/timeline.hpp"

namespace reprieve::replay {
namespace {

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

class LibraryRunner final : public Runner {
 public:
  LibraryRunner(const Trace& trace, const reprieve_replay_config& config) : trace_(trace), config_(config) {}

  Outcome measure(reprieve_replay_result& out, std::string& error) override {
    Timings timings;
    for (std::int32_t repeat = 0; repeat < config_.repeats; ++repeat) {
      const Outcome outcome = measure_once(repeat == 0, out, timings, error);
      if (outcome != Outcome::done) return outcome;
      if (out.completed == 0) break;
    }
    out.ns_per_event = median(std::move(timings.first));
    out.ns_per_event_second_pass = median(std::move(timings.second));
    out.total_ns_per_event = median(std::move(timings.first_total));
    out.total_ns_per_event_second_pass = median(std::move(timings.second_total));
    out.driver_us = median(std::move(timings.driver_us));
    out.teardown_driver_us = median(std::move(timings.teardown_us));
    return config_.sample_capacity == 0 ? Outcome::done : sample(out, error);
  }

  Outcome completes(std::uint64_t limit_bytes, bool& yes, std::int64_t& failed_at, std::string& error) override {
    Session session;
    if (const Outcome started = start(session, limit_bytes, error); started != Outcome::done) return started;
    Pass pass;
    if (!session.play(pass) || !session.release_blocks() || !session.shutdown()) return failed(session, error);
    failed_at = pass.failed_at_event;
    yes = failed_at < 0;
    return Outcome::done;
  }

  std::uint64_t smallest_limit() const override { return 32ULL << 20; }  // that of the option `limit`
  std::uint64_t harmless_limit(std::uint64_t peak_reserved) const override { return peak_reserved; }

 private:
  static Outcome failed(const Session& session, std::string& error) {
    error = session.error();
    return Outcome::failed;
  }

  Outcome start(Session& session, std::uint64_t limit, std::string& error) const {
    const Session::Start started = session.start(trace_, config_.device, limit, config_.capacity_bytes);
    if (started == Session::Start::up) return Outcome::done;
    error = session.error();
    return started == Session::Start::refused ? Outcome::refused : Outcome::failed;
  }

  // A fresh library, two passes, everything given back. Fills what does not vary into `out`, the rest into `timings`.
  Outcome measure_once(bool first_repeat, reprieve_replay_result& out, Timings& timings, std::string& error) const {
    Session session;
    if (const Outcome started = start(session, config_.limit_bytes, error); started != Outcome::done) return started;

    const auto events = static_cast<double>(trace_.events.size());
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
    if (!good) return failed(session, error);

    if (first_repeat || !completed) {
      out.completed = completed ? 1 : 0;
      out.failed_at_event = first.failed_at_event;
      out.peak_reserved_bytes = static_cast<std::uint64_t>(after.reserved_bytes.peak);
      out.alloc_retries = after.alloc_retries - before.alloc_retries;
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

  // A run of its own, which stops at the end of each interval to look.
  Outcome sample(reprieve_replay_result& out, std::string& error) const {
    Session session;
    if (const Outcome started = start(session, config_.limit_bytes, error); started != Outcome::done) return started;
    Timeline timeline(trace_, config_.samples, config_.sample_capacity);
    if (!session.play(timeline) || !session.release_blocks() || !session.shutdown()) return failed(session, error);
    out.samples = timeline.count();
    return Outcome::done;
  }

  const Trace& trace_;
  const reprieve_replay_config& config_;
};

}  // namespace

std::unique_ptr<Runner> make_library_runner(const Trace& trace, const reprieve_replay_config& config,
                                            std::string& error) {
  const bool sim = config.device != nullptr && std::strcmp(config.device, "sim") == 0;
  const bool cuda = config.device != nullptr && std::strcmp(config.device, "cuda") == 0;
  if (!sim && !cuda) {
    error = "unknown device, accepted are sim and cuda";
  } else if (cuda && config.capacity_bytes != 0) {
    error = "a capacity is the simulated device's, accepted with device sim only";
  } else if (config.repeats < 1) {
    error = "repeats must be 1 or more";
  } else if (config.alloc_conf != nullptr) {
    error = "an alloc conf is PyTorch's, accepted with the policies native and expandable only";
  }
  return error.empty() ? std::make_unique<LibraryRunner>(trace, config) : nullptr;
}

}  // namespace reprieve::replay
