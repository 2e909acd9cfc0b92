// The device contract over a simulated machine.
#pragma once

#include <memory>
#include <utility>

#include "device/device.hpp"
#include "simgpu/machine.hpp"

namespace reprieve::device {

class SimBackend final : public Backend {
 public:
  // The machine must outlive the backend and every Device opened from it. Tests keep it at hand to launch work, hold
  // streams, advance the clock, make calls fail and read faults.
  explicit SimBackend(simgpu::Machine& machine) : machine_(machine) {}
  // Keeps the machine alive itself.
  explicit SimBackend(std::shared_ptr<simgpu::Machine> machine) : kept_(std::move(machine)), machine_(*kept_) {}

  const char* name() const override { return "sim"; }
  int device_count() const override { return machine_.device_count(); }
  Status open(int ordinal, std::unique_ptr<Device>& out) override;

 private:
  const std::shared_ptr<simgpu::Machine> kept_;
  simgpu::Machine& machine_;
};

// The simulated driver's kind of call that stands for one of the contract.
constexpr simgpu::Call sim_call(Call call) { return static_cast<simgpu::Call>(call); }

}  // namespace reprieve::device
