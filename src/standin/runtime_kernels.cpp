// Kernels of the program: what nvcc's code calls to register and launch them, and what the runtime tells of them.
#include <mutex>
#include <vector>

#include "standin/kernels.hpp"
#include "standin/runtime.hpp"
#include "standin/variables.hpp"

namespace reprieve::standin {
namespace {

// What a fat binary has registered, to be forgotten with it.
struct FatBinary {
  std::mutex mutex;
  std::vector<const void*> kernels;
  std::vector<const void*> variables;
};

FatBinary& binary_of(void** handle) { return *reinterpret_cast<FatBinary*>(handle); }

// A <<<>>> puts its shape here, and the kernel's own host function takes it off.
struct Shape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Shape> shapes;

cudaError_t launch_kernel(const void* function, const Launch& shape, void** arguments) {
  return on_device([&](simgpu::Machine&, int device) {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    Kernel* const kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidResourceHandle;
    return error_of(launch(*kernel, shape, arguments, device));
  });
}

template <typename Body>
cudaError_t on_kernel(const void* function, Body&& body) {
  return on_device([&](simgpu::Machine&, int) {
    Kernel* const kernel = find_kernel(function);
    return kernel != nullptr ? body(*kernel) : cudaErrorInvalidResourceHandle;
  });
}

int attribute(Kernel& kernel, CUfunction_attribute which) {
  int value = 0;
  return function_attribute(kernel, which, value) == CUDA_SUCCESS ? value : 0;
}

CUfunction_attribute driver_attribute(cudaFuncAttribute which) {
  return static_cast<CUfunction_attribute>(static_cast<int>(which));
}

static_assert(static_cast<int>(cudaFuncAttributeMaxDynamicSharedMemorySize) ==
                  static_cast<int>(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) &&
              static_cast<int>(cudaFuncAttributeClusterSchedulingPolicyPreference) ==
                  static_cast<int>(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE));

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

#pragma GCC visibility push(default)
extern "C" {

// The interface between the code that nvcc makes and the runtime, which no public header declares. Device code is not
// looked at: a kernel is its name.

void** __cudaRegisterFatBinary(void*) { return reinterpret_cast<void**>(new FatBinary); }
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  FatBinary& binary = binary_of(handle);
  for (const void* const each : binary.kernels) forget_kernel(each);
  for (const void* const each : binary.variables) forget_variable(each);
  delete &binary;
}

char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  register_kernel(host_function, name);
  FatBinary& binary = binary_of(handle);
  const std::lock_guard lock(binary.mutex);
  binary.kernels.push_back(host_function);
}

void __cudaRegisterVar(void** handle, char* symbol, char*, const char* name, int, std::size_t bytes, int, int) {
  register_variable(symbol, name, bytes);
  FatBinary& binary = binary_of(handle);
  const std::lock_guard lock(binary.mutex);
  binary.variables.push_back(symbol);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  shapes.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (shapes.empty()) return done(cudaErrorMissingConfiguration);
  const Shape shape = shapes.back();
  shapes.pop_back();
  *grid = shape.grid;
  *block = shape.block;
  *shared_bytes = shape.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = shape.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  Kernel* const kernel = find_kernel(function);
  if (kernel == nullptr) return done(cudaErrorInvalidResourceHandle);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  return launch_kernel(kernel, {grid, block, shared_bytes, id_of(stream)}, arguments);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  return launch_kernel(function, {grid, block, shared_bytes, id_of(stream)}, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared_bytes, cudaStream_t stream) {
  return launch_kernel(function, {grid, block, shared_bytes, id_of(stream), true}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr) return done(cudaErrorInvalidValue);
  Launch shape{config->gridDim, config->blockDim, config->dynamicSmemBytes, id_of(config->stream)};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeCooperative)
      shape.cooperative = config->attrs[i].val.cooperative != 0;
  }
  return launch_kernel(function, shape, arguments);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_kernel(function, [&](Kernel& kernel) {
    *out = {};
    out->maxThreadsPerBlock = attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    out->numRegs = attribute(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS);
    out->ptxVersion = attribute(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION);
    out->binaryVersion = attribute(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    out->maxDynamicSharedSizeBytes = attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    out->preferredShmemCarveout = attribute(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return on_kernel(function, [&](Kernel& kernel) {
    return error_of(set_function_attribute(kernel, driver_attribute(which), value));
  });
}

// Which of L1 and shared memory is preferred does not matter to the simulation.
cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return on_kernel(function, [](Kernel&) { return cudaSuccess; });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (name == nullptr) return done(cudaErrorInvalidValue);
  return on_kernel(function, [&](Kernel& kernel) {
    *name = kernel.name().c_str();
    return cudaSuccess;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_kernel(function, [&](Kernel& kernel) {
    *out = reinterpret_cast<cudaFunction_t>(&kernel);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   std::size_t shared_bytes, unsigned flags) {
  if (blocks == nullptr || flags > cudaOccupancyDisableCachingOverride) return done(cudaErrorInvalidValue);
  return on_kernel(
      function, [&](Kernel& kernel) { return error_of(most_active_blocks(kernel, threads, shared_bytes, *blocks)); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}

// What is left to a block where so many blocks of so many threads share a multiprocessor.
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks,
                                                      int threads) {
  if (bytes == nullptr || blocks < 1 || threads < 1) return done(cudaErrorInvalidValue);
  return on_kernel(function, [&](Kernel&) {
    constexpr int whole = 228 << 10;
    constexpr int most = 227 << 10;
    const int each = whole / blocks - (1 << 10);
    *bytes = static_cast<std::size_t>(each < 0 ? 0 : each > most ? most : each);
    return cudaSuccess;
  });
}

}  // extern "C"
#pragma GCC visibility pop
