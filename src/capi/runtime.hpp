// The process's one instance: options, driver, and an allocator a device.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/options.hpp"
#include "device/device.hpp"
#include "memory/allocator.hpp"
#include "reprieve/reprieve.h"

namespace reprieve::capi {

class Runtime {
 public:
  static constexpr int max_devices = 64;

  // The running instance; starts it if need be. Null: it cannot start, `status` and `reason` say why.
  static Runtime* get(Status& status, std::string& reason) {
    Runtime* const runtime = instance.load(std::memory_order_acquire);
    return runtime != nullptr ? runtime : start(status, reason);
  }
  static Runtime* if_started() { return instance.load(std::memory_order_acquire); }
  static bool forked();

  // Options for the next start; they win over the environment's.
  static Status set_option(const char* name, const char* value, std::string& reason);
  // Of all devices, also those opened later; null: none. Precondition: no other thread is in a call.
  static void set_hooks(const reprieve_hooks* hooks);
  // Precondition: no other thread is in a call.
  static Status shutdown(std::string& reason);

  int device_count() const { return backend_->device_count(); }
  memory::AddressMap& addresses() { return addresses_; }

  // Opens the device at its first use. Null: no such device, or it cannot be used.
  memory::Allocator* allocator(int device, Status& status, std::string& reason) {
    if (static_cast<unsigned>(device) < max_devices) {
      memory::Allocator* const open = open_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
      if (open != nullptr) return open;
    }
    return open_device(device, status, reason);
  }
  memory::Allocator* if_open(int device) const {
    return open_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }

 private:
  explicit Runtime(const Options& options) : options_(options) {}

  static Status refuse_forked(std::string& reason);
  static Runtime* start(Status& status, std::string& reason);
  Status open_backend(std::string& reason);
  memory::Allocator* open_device(int device, Status& status, std::string& reason);

  // Null in a forked child, so that the paths of every call need no other test.
  static std::atomic<Runtime*> instance;

  const Options options_;
  memory::AddressMap addresses_;
  std::unique_ptr<device::Backend> backend_;
  std::mutex opening_;
  std::array<std::unique_ptr<device::Device>, max_devices> devices_;
  std::array<std::unique_ptr<memory::Allocator>, max_devices> allocators_;
  std::array<std::atomic<memory::Allocator*>, max_devices> open_{};
};

}  // namespace reprieve::capi
