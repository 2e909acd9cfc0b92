// Kernels by name: registering them, launching them as queued work of the simulated machine, and what a launch may ask
// for. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "simgpu/machine.hpp"
#include "standin/cuda_api.hpp"
#include "standin/kernel_effects.hpp"

namespace reprieve::standin {

// What cudaFunction_t, cudaKernel_t and CUfunction point to. Lives for ever: graphs and queued work name it.
class REPRIEVE_STANDIN_CORE Kernel {
 public:
  explicit Kernel(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  simgpu::KernelId id();

  // What the simulation knows of this kernel's work; null where that is nothing. Looked up once.
  const KernelEffect* effect();

  // Bytes of shared memory that a launch may ask for beyond what the kernel itself declares.
  std::atomic<int> dynamic_shared_limit{48 << 10};
  std::atomic<int> carveout_percent{-1};

 private:
  const std::string name_;
  std::atomic<std::uint32_t> id_{0};
  std::once_flag effect_looked_up_;
  std::unique_ptr<const KernelEffect> effect_;
};

// Of a program's <<<>>> kernels, by the address of their host function. A second registration replaces the first.
REPRIEVE_STANDIN_CORE void register_kernel(const void* host_function, const char* name);
REPRIEVE_STANDIN_CORE void forget_kernel(const void* host_function);
// Also for an address that is itself a Kernel's, as cudaKernel_t is. Null where there is none.
REPRIEVE_STANDIN_CORE Kernel* find_kernel(const void* function);

// Of modules that were loaded as bytes: one for each name, as nothing else is known of them.
REPRIEVE_STANDIN_CORE Kernel* kernel_named(const std::string& name);

struct Launch {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  std::size_t shared_bytes = 0;
  simgpu::StreamId stream = simgpu::legacy_stream;
  bool cooperative = false;
};

// `arguments`: pointers to the arguments' values, copied before this returns, or null where they are not given so.
// An illegal access, which a GPU would report later, spoils the context and is no error of the launch.
REPRIEVE_STANDIN_CORE CUresult launch(Kernel& kernel, const Launch& launch, void** arguments, int current_device);

// Of blocks of so many threads and bytes of shared memory, on one multiprocessor; registers are not known, and taken
// not to matter. invalid_value for no threads.
REPRIEVE_STANDIN_CORE CUresult most_active_blocks(Kernel& kernel, int threads, std::size_t shared_bytes, int& out);

// The most threads a block that fill a multiprocessor best, and the blocks that fill the device.
REPRIEVE_STANDIN_CORE void best_block_size(int& threads, int& blocks);

REPRIEVE_STANDIN_CORE CUresult set_function_attribute(Kernel& kernel, CUfunction_attribute which, int value);
REPRIEVE_STANDIN_CORE CUresult function_attribute(Kernel& kernel, CUfunction_attribute which, int& out);

}  // namespace reprieve::standin
