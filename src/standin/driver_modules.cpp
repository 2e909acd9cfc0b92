// Modules that are loaded as bytes (Triton's kernels, for one), their functions, and launches of them. Device code is
// not read: a module has whatever function it is asked for.
#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "standin/driver.hpp"
#include "standin/kernels.hpp"

namespace reprieve::standin {
namespace {

// What CUmodule and CUlibrary point to.
struct Module {};

constexpr std::uint32_t fat_binary_magic = 0xba55ed50;
constexpr std::uint32_t fat_binary_wrapper_magic = 0x466243b1;

// A cubin, a fat binary, or PTX, which is text with a .version before the first instruction.
bool is_device_code(const void* image) {
  const auto* const bytes = static_cast<const char*>(image);
  std::uint32_t magic = 0;
  if (std::strncmp(bytes,
                   "\x7f"
                   "ELF",
                   4) == 0)
    return true;
  std::memcpy(&magic, bytes, std::strlen(bytes) >= 3 ? sizeof magic : 0);
  if (magic == fat_binary_magic || magic == fat_binary_wrapper_magic) return true;
  return std::strstr(bytes, ".version") != nullptr;
}

CUresult load(CUmodule* out, const void* image) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine&, int) {
    if (!is_device_code(image)) return CUDA_ERROR_INVALID_IMAGE;
    *out = reinterpret_cast<CUmodule>(new Module);
    return CUDA_SUCCESS;
  });
}

CUresult launch_function(CUfunction function, const Launch& shape, void** arguments) {
  return on_stream(reinterpret_cast<CUstream>(shape.stream), [&](simgpu::Machine&, int device) {
    Kernel* const kernel = find_kernel(function);
    return kernel != nullptr ? launch(*kernel, shape, arguments, device) : CUDA_ERROR_INVALID_HANDLE;
  });
}

template <typename Body>
CUresult on_function(const void* function, Body&& body) {
  return anywhere([&](simgpu::Machine&) {
    Kernel* const kernel = find_kernel(function);
    return kernel != nullptr ? body(*kernel) : CUDA_ERROR_INVALID_HANDLE;
  });
}

constexpr std::size_t tensor_map_bytes = sizeof(CUtensorMap);

// A tensor map is opaque to all but the device code that uses it, which does not run here: only what a caller can get
// wrong is looked at.
CUresult encode(CUtensorMap* out, cuuint32_t rank, const void* address) {
  if (out == nullptr || rank < 1 || rank > 5 || address_of(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memset(out, 0, tensor_map_bytes);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

CUresult cuModuleLoadData(CUmodule* out, const void* image) { return load(out, image); }
CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return load(out, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) { return load(out, image); }

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string image(std::istreambuf_iterator<char>(file), {});
  return load(out, image.c_str());
}

CUresult cuModuleUnload(CUmodule module) {
  return in_context([&](simgpu::Machine&, int) {
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    delete reinterpret_cast<Module*>(module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  if (out == nullptr || module == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine&, int) {
    *out = reinterpret_cast<CUfunction>(kernel_named(name));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  if (out == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine&) {
    if (!is_device_code(code)) return CUDA_ERROR_INVALID_IMAGE;
    *out = reinterpret_cast<CUlibrary>(new Module);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return anywhere([&](simgpu::Machine&) {
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    delete reinterpret_cast<Module*>(library);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  if (out == nullptr || library == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine&) {
    *out = reinterpret_cast<CUkernel>(kernel_named(name));
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(kernel, [&](Kernel& found) {
    *out = reinterpret_cast<CUfunction>(&found);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** out, CUfunction function) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function, [&](Kernel& kernel) {
    *out = kernel.name().c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function, [&](Kernel& kernel) { return function_attribute(kernel, which, *value); });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  return on_function(function, [&](Kernel& kernel) { return set_function_attribute(kernel, which, value); });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel function, CUdevice) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function, [&](Kernel& kernel) { return function_attribute(kernel, which, *value); });
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel function, CUdevice) {
  return on_function(function, [&](Kernel& kernel) { return set_function_attribute(kernel, which, value); });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return on_function(function, [](Kernel&) { return CUDA_SUCCESS; });
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                        void**) {
  const Launch shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, id_of(stream)};
  return launch_function(function, shape, arguments);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** arguments) {
  const Launch shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, id_of(stream), true};
  return launch_function(function, shape, arguments);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Launch shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
               {config->blockDimX, config->blockDimY, config->blockDimZ},
               config->sharedMemBytes,
               id_of(config->hStream)};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) shape.cooperative = attribute.value.cooperative != 0;
  }
  return launch_function(function, shape, arguments);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              std::size_t shared_bytes, unsigned) {
  if (blocks == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function,
                     [&](Kernel& kernel) { return most_active_blocks(kernel, threads, shared_bytes, *blocks); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     std::size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* blocks, int* threads, CUfunction function, CUoccupancyB2DSize,
                                          std::size_t, int) {
  if (blocks == nullptr || threads == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function, [&](Kernel&) {
    best_block_size(*threads, *blocks);
    return CUDA_SUCCESS;
  });
}

// How many clusters of the launch's size run at once: those whose blocks fit on all multiprocessors.
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_function(function, [&](Kernel& kernel) {
    unsigned blocks_a_cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const CUlaunchAttribute& attribute = config->attrs[i];
      if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
      blocks_a_cluster = attribute.value.clusterDim.x * attribute.value.clusterDim.y * attribute.value.clusterDim.z;
    }
    int active = 0;
    int blocks = 0;
    int threads = 0;
    const auto block = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
    const CUresult result = most_active_blocks(kernel, block, config->sharedMemBytes, active);
    if (result != CUDA_SUCCESS) return result;
    if (blocks_a_cluster == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    best_block_size(threads, blocks);
    const int multiprocessors = blocks * threads / 2048;
    *clusters = active * multiprocessors / static_cast<int>(blocks_a_cluster);
    return CUDA_SUCCESS;
  });
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType, cuuint32_t rank, void* address,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return encode(out, rank, address);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType, cuuint32_t rank, void* address,
                                 const cuuint64_t*, const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  return encode(out, rank, address);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* out, void* address) { return encode(out, 1, address); }

CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }

}  // extern "C"
