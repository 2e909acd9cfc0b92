#include "standin/kernels.hpp"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace reprieve::standin {
namespace {

// Filled by the constructors of libraries, before main, and never destroyed: their destructors come last.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Kernel*> by_host_function;
  std::unordered_map<std::string, Kernel*> by_name;
  std::unordered_set<const void*> all;
};

Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

Kernel* add_named(Registry& all, const std::string& name) {
  Kernel*& kernel = all.by_name[name];
  if (kernel == nullptr) {
    kernel = new Kernel(name);
    all.all.insert(kernel);
  }
  return kernel;
}

}  // namespace

simgpu::KernelId Kernel::id() {
  std::uint32_t known = id_.load(std::memory_order_relaxed);
  if (known == 0) {
    known = static_cast<std::uint32_t>(simgpu::kernel_id(name_));
    id_.store(known, std::memory_order_relaxed);
  }
  return simgpu::KernelId{known};
}

const KernelEffect* Kernel::effect() {
  std::call_once(effect_looked_up_, [this] { effect_ = find_effect(name_); });
  return effect_.get();
}

void register_kernel(const void* host_function, const char* name) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  all.by_host_function[host_function] = add_named(all, name);
}

void forget_kernel(const void* host_function) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  all.by_host_function.erase(host_function);
}

Kernel* find_kernel(const void* function) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  if (const auto found = all.by_host_function.find(function); found != all.by_host_function.end()) {
    return found->second;
  }
  return all.all.count(function) != 0 ? static_cast<Kernel*>(const_cast<void*>(function)) : nullptr;
}

Kernel* kernel_named(const std::string& name) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  return add_named(all, name);
}

}  // namespace reprieve::standin
