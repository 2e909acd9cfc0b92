#include "base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

namespace reprieve::log {
namespace {

std::atomic<Level> current_level{Level::warn};

// The variables by which launchers tell a process its rank: torchrun, Slurm, Open MPI, MPICH.
std::string rank_prefix() {
  constexpr std::array names = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return std::string("reprieve[rank ") + value + "] %l: %v";
    }
  }
  return "reprieve: %l: %v";
}

// Not in spdlog's registry, which the program may share, and never destroyed: lines may be written while it exits.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto* made = new spdlog::logger("reprieve", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(rank_prefix());
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::error: return spdlog::level::err;
    case Level::warn: return spdlog::level::warn;
    case Level::info: return spdlog::level::info;
    case Level::debug: return spdlog::level::debug;
    case Level::off: break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_level(Level level) { current_level.store(level, std::memory_order_relaxed); }

bool enabled(Level level) { return level <= current_level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view line) {
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace reprieve::log
