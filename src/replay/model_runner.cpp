// The policies `native` and `expandable`: models of PyTorch's allocator.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "base/options.hpp"
#include "replay/models/player.hpp"
#include "replay/runner.hpp"

namespace reprieve::replay {
namespace {

class ModelRunner final : public Runner {
 public:
  ModelRunner(const Trace& trace, const reprieve_replay_config& config, models::Setting setting)
      : trace_(trace), config_(config), setting_(setting) {}

  Outcome measure(reprieve_replay_result& out, std::string&) override {
    Timeline timeline(trace_, config_.samples, config_.sample_capacity);
    const models::Played played =
        models::play(trace_, setting_, config_.limit_bytes, config_.sample_capacity == 0 ? nullptr : &timeline);
    static_assert(std::size(decltype(out.driver_calls){}) == device::call_kinds);
    out.completed = played.failed_at_event < 0 ? 1 : 0;
    out.failed_at_event = played.failed_at_event;
    out.peak_reserved_bytes = played.peak_reserved;
    std::copy(played.costs.driver_calls.begin(), played.costs.driver_calls.end(), out.driver_calls);
    out.cuda_malloc_calls = static_cast<std::int64_t>(played.costs.malloc_calls);
    out.cuda_free_calls = static_cast<std::int64_t>(played.costs.free_calls);
    out.alloc_retries = static_cast<std::int64_t>(played.retries);
    out.driver_us = static_cast<double>(played.costs.ns) / 1e3;
    out.teardown_driver_us = static_cast<double>(played.teardown_ns) / 1e3;
    out.samples = timeline.count();
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    out.ns_per_event = out.ns_per_event_second_pass = unknown;
    out.total_ns_per_event = out.total_ns_per_event_second_pass = unknown;
    return Outcome::done;
  }

  Outcome completes(std::uint64_t limit_bytes, bool& yes, std::int64_t& failed_at, std::string&) override {
    failed_at = models::play(trace_, setting_, limit_bytes, nullptr).failed_at_event;
    yes = failed_at < 0;
    return Outcome::done;
  }

  std::uint64_t smallest_limit() const override { return 1; }

  // A limit is held against what is reserved and a whole new segment, though less of it may then be mapped.
  std::uint64_t harmless_limit(std::uint64_t peak_reserved) const override {
    std::uint64_t largest = 1;
    for (const Event& event : trace_.events) largest = std::max(largest, event.bytes);
    return peak_reserved + setting_.conf.segment_bytes(setting_.conf.block_bytes(largest));
  }

 private:
  const Trace& trace_;
  const reprieve_replay_config& config_;
  const models::Setting setting_;
};

// As the library would have it: the option's default, the environment's value, or what the caller says.
bool card_capacity(const reprieve_replay_config& config, std::uint64_t& out, std::string& error) {
  Options options = default_options();
  std::vector<std::string> warnings;
  if (!apply_environment(options, environ, warnings, error)) return false;
  if (config.capacity_bytes != 0 &&
      !set_option(options, "sim_capacity", std::to_string(config.capacity_bytes), error)) {
    return false;
  }
  out = options.sim_capacity / (2 * MiB) * (2 * MiB);
  return true;
}

}  // namespace

std::unique_ptr<Runner> make_model_runner(const Trace& trace, const reprieve_replay_config& config,
                                          std::string& error) {
  models::Setting setting;
  setting.segments =
      std::strcmp(config.policy, "expandable") == 0 ? models::Segments::expandable : models::Segments::plain;
  if (config.device == nullptr || std::strcmp(config.device, "sim") != 0) {
    error = "the policy " + std::string(config.policy) + " is a model, accepted with device sim only";
    return nullptr;
  }
  if (config.alloc_conf != nullptr && !models::parse_alloc_conf(config.alloc_conf, setting.conf, error)) return nullptr;
  if (!card_capacity(config, setting.capacity, error)) return nullptr;
  return std::make_unique<ModelRunner>(trace, config, setting);
}

}  // namespace reprieve::replay
