#include "capi/runtime.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "capi/other_copy.hpp"
#include "device/cuda.hpp"
#include "device/sim_library.hpp"

namespace reprieve::capi {
namespace {

std::mutex lifecycle;
std::vector<std::pair<std::string, std::string>>& explicit_options() {
  static auto* const options = new std::vector<std::pair<std::string, std::string>>;
  return *options;
}
std::atomic<bool> in_forked_child{false};

// The adapter's functions, and the table that the allocators see. A function that is missing does nothing.
reprieve_hooks installed_hooks{};
const memory::Hooks forwarded_hooks{
    nullptr,
    [](void*, int device) {
      if (installed_hooks.collect != nullptr) installed_hooks.collect(installed_hooks.user, device);
    },
    [](void*, int device, bool backed, memory::Address address, std::uint64_t bytes, memory::Stream stream,
       std::uint64_t pool) {
      if (installed_hooks.segment == nullptr) return;
      installed_hooks.segment(installed_hooks.user, device, backed ? 1 : 0, reinterpret_cast<void*>(address), bytes,
                              reinterpret_cast<reprieve_stream>(static_cast<std::uintptr_t>(stream)), pool);
    },
    [](void*, int device, memory::Address address) {
      if (installed_hooks.deferred_free == nullptr) return;
      installed_hooks.deferred_free(installed_hooks.user, device, reinterpret_cast<void*>(address));
    },
    [](void*) -> void* {
      return installed_hooks.wait_begin != nullptr ? installed_hooks.wait_begin(installed_hooks.user) : nullptr;
    },
    [](void*, void* token) {
      if (installed_hooks.wait_end != nullptr) installed_hooks.wait_end(installed_hooks.user, token);
    }};

// What lives outside any allocator (modules loaded late, cuBLAS, NCCL) dies on a card filled to the last page. Of a small
// card, or a part of one, it may not take most.
std::uint64_t default_headroom(std::uint64_t total) { return std::min(std::max(512 * MiB, total / 100), total / 16); }

}  // namespace

std::atomic<Runtime*> Runtime::instance{nullptr};

bool Runtime::forked() { return in_forked_child.load(std::memory_order_relaxed); }

Status Runtime::refuse_forked(std::string& reason) {
  reason = "this process was forked from one that uses the GPU; CUDA does not survive that: start it with spawn";
  return failure(Errc::not_supported, "forked");
}

Status Runtime::set_option(const char* name, const char* value, std::string& reason) {
  if (forked()) return refuse_forked(reason);
  const std::scoped_lock lock(lifecycle);
  if (if_started() != nullptr) {
    reason = fmt::format("{}: options are set before the library starts", name);
    return failure(Errc::invalid_argument, "the library runs");
  }
  Options trial = default_options();
  if (!reprieve::set_option(trial, name, value, reason)) return failure(Errc::invalid_argument, "bad option");
  explicit_options().emplace_back(name, value);
  return success();
}

Runtime* Runtime::start(Status& status, std::string& reason) {
  if (forked()) {
    status = refuse_forked(reason);
    return nullptr;
  }
  const std::scoped_lock lock(lifecycle);
  if (Runtime* const runtime = if_started(); runtime != nullptr) return runtime;
  try {
    if (other_copy_started(reason)) {
      status = failure(Errc::not_supported, "another copy of the library runs in this process");
      return nullptr;
    }
    Options options = default_options();
    std::vector<std::string> warnings;
    if (!apply_environment(options, environ, warnings, reason)) {
      status = failure(Errc::invalid_argument, "bad option");
      return nullptr;
    }
    for (const auto& [name, value] : explicit_options()) {
      [[maybe_unused]] const bool accepted = reprieve::set_option(options, name, value, reason);
    }
    log::set_level(options.log);
    for (const std::string& warning : warnings) log::warn("{}", warning);

    std::unique_ptr<Runtime> made(new Runtime(options));
    status = made->open_backend(reason);
    if (!status.ok()) return nullptr;
    static const int registered = pthread_atfork(nullptr, nullptr, [] {
      if (instance.exchange(nullptr, std::memory_order_relaxed) != nullptr) {
        in_forked_child.store(true, std::memory_order_relaxed);
      }
    });
    if (registered != 0) throw std::bad_alloc();
    instance.store(made.get(), std::memory_order_release);
    return made.release();
  } catch (const std::bad_alloc&) {
    reason = "no host memory";
    status = failure(Errc::host_memory, "no host memory");
    return nullptr;
  }
}

Status Runtime::open_backend(std::string& reason) {
  if (options_.device == BackendKind::cuda) return device::open_cuda(backend_, reason);
  return device::open_sim(options_, backend_, reason);
}

memory::Allocator* Runtime::open_device(int device, Status& status, std::string& reason) {
  if (device < 0 || device >= std::min(device_count(), max_devices)) {
    reason = fmt::format("device {}: there are {} (0 to {})", device, device_count(), device_count() - 1);
    status = failure(Errc::invalid_argument, "no such device");
    return nullptr;
  }
  const auto index = static_cast<std::size_t>(device);
  const std::scoped_lock lock(opening_);
  if (allocators_[index] != nullptr) return allocators_[index].get();
  std::unique_ptr<device::Device> opened;
  status = backend_->open(device, opened);
  if (!status.ok()) {
    reason = fmt::format("device {} cannot be used: {}", device, status.what);
    return nullptr;
  }
  const std::uint64_t total = opened->properties().total_bytes;
  memory::Settings settings;
  settings.limit = options_.limit.of(total);
  settings.headroom = options_.headroom.set() ? options_.headroom.of(total) : default_headroom(total);
  settings.growth_slack = options_.growth_slack;
  settings.chunk_max = memory::round_down(options_.chunk_max, memory::page_bytes);
  settings.wait = std::chrono::milliseconds(options_.wait_ms);
  auto allocator = std::make_unique<memory::Allocator>(*opened, addresses_, settings);
  allocator->set_hooks(&forwarded_hooks);
  log::info("device {}: {}, {}, limit {}", device, opened->properties().name, format_bytes(total),
            settings.limit == 0 ? "none" : format_bytes(settings.limit));
  devices_[index] = std::move(opened);
  allocators_[index] = std::move(allocator);
  open_[index].store(allocators_[index].get(), std::memory_order_release);
  return allocators_[index].get();
}

void Runtime::set_hooks(const reprieve_hooks* hooks) {
  const std::scoped_lock lock(lifecycle);
  installed_hooks = hooks == nullptr ? reprieve_hooks{} : *hooks;
  if (Runtime* const runtime = if_started(); runtime != nullptr) {
    for (const auto& allocator : runtime->allocators_) {
      if (allocator != nullptr) allocator->set_hooks(&forwarded_hooks);
    }
  }
}

Status Runtime::shutdown(std::string& reason) {
  if (forked()) return refuse_forked(reason);
  const std::scoped_lock lock(lifecycle);
  Runtime* const runtime = if_started();
  if (runtime != nullptr) {
    std::int64_t live = 0;
    for (const auto& allocator : runtime->allocators_) {
      if (allocator != nullptr) live += allocator->live_blocks();
    }
    if (live != 0) {
      reason = fmt::format("{} blocks are live; free them first", live);
      return failure(Errc::invalid_argument, "blocks are live");
    }
    instance.store(nullptr, std::memory_order_release);
    // Allocators before the devices that they use.
    for (auto& allocator : runtime->allocators_) allocator.reset();
    delete runtime;
  }
  explicit_options().clear();
  return success();
}

}  // namespace reprieve::capi
