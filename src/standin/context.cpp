#include "standin/context.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <vector>

#include "simgpu/process.hpp"

// What CUcontext points to.
struct CUctx_st {
  int device = 0;
  std::atomic<int> holds{0};
  std::atomic<bool> used_by_runtime{false};
  std::atomic<CUresult> error{CUDA_SUCCESS};
};

namespace reprieve::standin {
namespace {

constexpr int most_devices = 64;  // as many as a machine may have

// Never destroyed: other libraries' destructors still call in.
struct Process {
  Process() {
    std::string error;
    machine = simgpu::process_machine(simgpu::User::standin, error);
    if (machine == nullptr) std::fprintf(stderr, "stand-in CUDA: no device: %s\n", error.c_str());
    for (int device = 0; device < most_devices; ++device) contexts[static_cast<std::size_t>(device)].device = device;
  }

  std::shared_ptr<simgpu::Machine> machine;
  std::array<CUctx_st, most_devices> contexts;
  std::array<std::atomic<std::uint64_t>, most_devices> peers{};
  // By CUlimit, as an H200 has them at first (compute capability 9.0 has no limit 3).
  std::array<std::atomic<std::size_t>, 8> limits{1024, 8650752, 8388608, 0, 2048, 64, 11796480, 232448};
  std::atomic<bool> initialized{false};
};

Process& process() {
  static auto* const one = new Process;
  return *one;
}

CUctx_st* context_of(int device) {
  Process& all = process();
  const bool exists = all.machine != nullptr && device >= 0 && device < all.machine->device_count();
  return exists ? &all.contexts[static_cast<std::size_t>(device)] : nullptr;
}

struct Thread {
  std::vector<CUcontext> stack;
  int chosen_device = 0;
};

thread_local Thread* thread_state = nullptr;

Thread& this_thread() {
  // Not an object with a destructor: those of other thread-local objects may still free memory. A key's runs after them,
  // and again for what it is set to then.
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* state) {
      delete static_cast<Thread*>(state);
      thread_state = nullptr;
    });
    return made;
  }();
  if (thread_state == nullptr) {
    thread_state = new Thread;
    pthread_setspecific(key, thread_state);
  }
  return *thread_state;
}

}  // namespace

simgpu::Machine* machine() { return process().machine.get(); }

CUresult initialize() {
  if (machine() == nullptr) return CUDA_ERROR_NO_DEVICE;
  process().initialized.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

bool is_initialized() { return process().initialized.load(std::memory_order_acquire); }

CUcontext primary_context(int device) { return context_of(device); }

int device_of(CUcontext context) {
  const auto& all = process().contexts;
  return context >= all.data() && context < all.data() + all.size() ? context->device : -1;
}

CUresult retain(int device) {
  CUctx_st* const context = context_of(device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  context->holds.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult release(int device) {
  CUctx_st* const context = context_of(device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  int holds = context->holds.load();
  do {
    if (holds == 0) return CUDA_ERROR_INVALID_CONTEXT;
  } while (!context->holds.compare_exchange_weak(holds, holds - 1));
  return CUDA_SUCCESS;
}

void activate(int device) {
  if (CUctx_st* const context = context_of(device); context != nullptr) context->used_by_runtime.store(true);
}

void reset(int device) {
  CUctx_st* const context = context_of(device);
  if (context == nullptr) return;
  context->holds.store(0);
  context->used_by_runtime.store(false);
  context->error.store(CUDA_SUCCESS);
}

bool is_active(int device) {
  const CUctx_st* const context = context_of(device);
  return context != nullptr && (context->holds.load() != 0 || context->used_by_runtime.load());
}

CUcontext current() {
  const auto& stack = this_thread().stack;
  return stack.empty() ? nullptr : stack.back();
}

void set_current(CUcontext context) {
  auto& stack = this_thread().stack;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
}

void push(CUcontext context) { this_thread().stack.push_back(context); }

CUcontext pop() {
  auto& stack = this_thread().stack;
  if (stack.empty()) return nullptr;
  const CUcontext top = stack.back();
  stack.pop_back();
  return top;
}

int runtime_device() {
  const CUcontext context = current();
  return context != nullptr ? context->device : this_thread().chosen_device;
}

void choose_device(int device) {
  this_thread().chosen_device = device;
  activate(device);
  set_current(primary_context(device));
}

int use_runtime_device() {
  if (current() == nullptr) choose_device(this_thread().chosen_device);
  return current()->device;
}

CUresult lasting_error(int device) {
  const CUctx_st* const context = context_of(device);
  return context != nullptr ? context->error.load(std::memory_order_relaxed) : CUDA_SUCCESS;
}

void spoil(int device, CUresult error) {
  if (CUctx_st* const context = context_of(device); context != nullptr) context->error.store(error);
}

bool enable_peer(int device, int peer) {
  const std::uint64_t bit = std::uint64_t{1} << peer;
  return (process().peers[static_cast<std::size_t>(device)].fetch_or(bit) & bit) == 0;
}

bool disable_peer(int device, int peer) {
  const std::uint64_t bit = std::uint64_t{1} << peer;
  return (process().peers[static_cast<std::size_t>(device)].fetch_and(~bit) & bit) != 0;
}

std::optional<std::size_t> context_limit(CUlimit limit) {
  const auto index = static_cast<std::size_t>(limit);
  const auto& limits = process().limits;
  if (index >= limits.size() || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return std::nullopt;
  return limits[index].load();
}

bool set_context_limit(CUlimit limit, std::size_t value) {
  if (!context_limit(limit)) return false;
  process().limits[static_cast<std::size_t>(limit)].store(value);
  return true;
}

}  // namespace reprieve::standin
