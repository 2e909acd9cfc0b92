// The one function of libreprieve_simgpu.so through which libreprieve.so reaches the simulation.
#include <fmt/format.h>

#include <string_view>

#include "device/sim.hpp"
#include "simgpu/process.hpp"
#include "simgpu/sim.h"

void* reprieve_sim_open_backend(const char* version, const void* options, std::size_t options_bytes, char* error,
                                std::size_t error_bytes) {
  using namespace reprieve;
  std::string reason;
  std::shared_ptr<simgpu::Machine> machine;
  if (std::string_view(version) != reprieve_sim_version() || options_bytes != sizeof(Options)) {
    reason =
        fmt::format("libreprieve_simgpu.so is of version {}, libreprieve.so of {}", reprieve_sim_version(), version);
  } else {
    machine = simgpu::process_machine(*static_cast<const Options*>(options), simgpu::User::library, reason);
  }
  if (machine != nullptr) return static_cast<device::Backend*>(new device::SimBackend(std::move(machine)));
  if (error_bytes != 0) *fmt::format_to_n(error, error_bytes - 1, "{}", reason).out = '\0';
  return nullptr;
}
