#include "simgpu/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "simgpu/forks.hpp"
#include "simgpu/settings.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t never = ~std::uint64_t{0};

struct Process {
  std::mutex mutex;
  std::weak_ptr<Machine> machine;
  Options options;
  std::atomic<std::uint64_t> made_at_fork{never};
};

Process& process() {
  static auto* const made = new Process;  // never destroyed: threads may call in while the process ends
  return *made;
}

// In a child forked while there was a machine: its lock may be one that no thread will ever give back. What was gone by
// then is no hindrance.
bool forked() {
  const std::uint64_t made = process().made_at_fork.load(std::memory_order_relaxed);
  return made != never && made != forks_of_process() && !process().machine.expired();
}

constexpr std::uint64_t whole_granules(std::uint64_t bytes) { return bytes - bytes % granularity; }

Mode mode_of(const Options& options, User user) {
  if (options.sim_mode == SimMode::automatic) return user == User::standin ? Mode::eager : Mode::lazy;
  return options.sim_mode == SimMode::eager ? Mode::eager : Mode::lazy;
}

Poison poison_of(const Options& options, User user) {
  if (options.sim_poison == SimPoison::automatic) return user == User::standin ? Poison::on_use : Poison::none;
  return options.sim_poison == SimPoison::on ? Poison::on_use : Poison::none;
}

bool same_machine(const Options& a, const Options& b) {
  return a.sim_devices == b.sim_devices && whole_granules(a.sim_capacity) == whole_granules(b.sim_capacity) &&
         a.sim_host_capacity == b.sim_host_capacity;
}

std::shared_ptr<Machine> make(const Options& options, User user, std::string& error) {
  std::vector<FailureRule> failures;
  std::vector<HeldStream> held;
  const auto devices = static_cast<int>(options.sim_devices);
  if (!parse_failures(options.sim_fail, failures, error)) return nullptr;
  if (!parse_held_streams(options.sim_hold, devices, held, error)) return nullptr;
  Config config;
  config.devices = devices;
  config.device_bytes = whole_granules(options.sim_capacity);
  config.host_bytes = options.sim_host_capacity;
  config.mode = mode_of(options, user);
  config.poison = poison_of(options, user);
  auto machine = std::make_shared<Machine>(config);
  for (const FailureRule& rule : failures) machine->fail(rule.call, rule.after, rule.times, rule.code);
  for (const HeldStream& stream : held) {
    if (stream.number == 0) {
      machine->hold(stream.device, legacy_stream);
    } else {
      machine->hold_when_created(stream.device, stream.number);
    }
  }
  return machine;
}

}  // namespace

std::shared_ptr<Machine> process_machine(const Options& options, User user, std::string& error) {
  if (forked()) {
    error =
        "this process was forked from one that uses simulated GPUs; CUDA does not survive that: start it with spawn";
    return nullptr;
  }
  const std::scoped_lock lock(process().mutex);
  if (auto running = process().machine.lock(); running != nullptr) {
    if (!same_machine(options, process().options)) {
      error = fmt::format(
          "the process has {} simulated GPUs of {} beside {} of host memory; sim_devices, sim_capacity "
          "and sim_host_capacity cannot differ from that",
          process().options.sim_devices, format_bytes(process().options.sim_capacity),
          format_bytes(process().options.sim_host_capacity));
      return nullptr;
    }
    // What `auto` means changes with the first stand-in library.
    if (user == User::standin) {
      if (options.sim_mode == SimMode::automatic) running->set_mode(Mode::eager);
      if (options.sim_poison == SimPoison::automatic) running->set_poison(Poison::on_use);
    }
    return running;
  }
  auto made = make(options, user, error);
  if (made == nullptr) return nullptr;
  process().made_at_fork.store(forks_of_process(), std::memory_order_relaxed);
  process().machine = made;
  process().options = options;
  return made;
}

std::shared_ptr<Machine> process_machine(User user, std::string& error) {
  Options options = default_options();
  std::vector<std::string> warnings;
  if (!apply_environment(options, environ, warnings, error)) return nullptr;
  log::set_level(options.log);
  for (const std::string& warning : warnings) log::warn("{}", warning);
  return process_machine(options, user, error);
}

std::shared_ptr<Machine> running_machine() {
  if (forked()) return nullptr;
  const std::scoped_lock lock(process().mutex);
  return process().machine.lock();
}

Options process_options() {
  if (forked()) return default_options();
  const std::scoped_lock lock(process().mutex);
  return process().machine.expired() ? default_options() : process().options;
}

}  // namespace reprieve::simgpu
