// Memory in stream order.
#include <algorithm>

#include "standin/runtime.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;
using simgpu::PoolId;

PoolId id_of(cudaMemPool_t pool) { return reinterpret_cast<PoolId>(pool); }
cudaMemPool_t handle_of(PoolId pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

cudaError_t allocate(PoolId pool, int device, std::size_t bytes, cudaStream_t stream, void** out) {
  simgpu::Machine& gpus = *machine();
  const int on = device_for(gpus, stream, device);
  std::uint64_t address = 0;
  const Code code = gpus.malloc_async(pool != 0 ? pool : gpus.default_pool(on), bytes, standin::id_of(stream), address);
  if (code == Code::success) *out = pointer_to(address);
  return error_of(code);
}

cudaError_t default_pool(cudaMemPool_t* out, int device) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (device < 0 || device >= gpus.device_count()) return cudaErrorInvalidDevice;
    *out = handle_of(gpus.default_pool(device));
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) { return default_pool(pool, device); }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return default_pool(pool, device); }

cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t stream) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  *out = nullptr;
  return on_device([&](simgpu::Machine&, int device) { return allocate(0, device, bytes, stream, out); });
}

cudaError_t cudaMallocFromPoolAsync(void** out, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  if (out == nullptr || pool == nullptr) return done(cudaErrorInvalidValue);
  *out = nullptr;
  return on_device([&](simgpu::Machine&, int device) { return allocate(id_of(pool), device, bytes, stream, out); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    if (pointer == nullptr) return Code::success;
    return gpus.free_async(address_of(pointer), device_for(gpus, stream, device), reprieve::standin::id_of(stream));
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (properties->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
    if (properties->handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
    PoolId id = 0;
    const Code code = gpus.pool_create(properties->location.id, id);
    if (code == Code::success) *pool = handle_of(id);
    return error_of(code);
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return without_context([&](simgpu::Machine& gpus) { return error_of(gpus.pool_destroy(id_of(pool))); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep_bytes) {
  return without_context([&](simgpu::Machine& gpus) { return error_of(gpus.pool_trim(id_of(pool), keep_bytes)); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  if (value == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::PoolStats stats;
    if (const Code code = gpus.pool_stats(id_of(pool), stats); code != Code::success) return error_of(code);
    const auto answer = [value](std::uint64_t number) {
      *static_cast<std::uint64_t*>(value) = number;
      return cudaSuccess;
    };
    switch (which) {
      // All three ways of reuse are what the simulated pool does, and cannot be turned off.
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies: *static_cast<int*>(value) = 1; return cudaSuccess;
      case cudaMemPoolAttrReleaseThreshold: return answer(stats.release_threshold_bytes);
      case cudaMemPoolAttrReservedMemCurrent: return answer(stats.reserved_bytes);
      case cudaMemPoolAttrReservedMemHigh: return answer(stats.reserved_high_bytes);
      case cudaMemPoolAttrUsedMemCurrent: return answer(stats.used_bytes);
      case cudaMemPoolAttrUsedMemHigh: return answer(stats.used_high_bytes);
      default: return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  if (value == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    switch (which) {
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies: return cudaSuccess;
      case cudaMemPoolAttrReleaseThreshold:
        return error_of(gpus.pool_set_release_threshold(id_of(pool), *static_cast<const std::uint64_t*>(value)));
      case cudaMemPoolAttrReservedMemHigh:
      case cudaMemPoolAttrUsedMemHigh:
        if (*static_cast<const std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
        return error_of(gpus.pool_reset_high(id_of(pool), which == cudaMemPoolAttrReservedMemHigh,
                                             which == cudaMemPoolAttrUsedMemHigh));
      default: return cudaErrorInvalidValue;
    }
  });
}

// Every simulated device may use every pool's memory, so access is checked for sense and else granted.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, std::size_t count) {
  if (list == nullptr && count != 0) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::PoolStats stats;
    if (const Code code = gpus.pool_stats(id_of(pool), stats); code != Code::success) return error_of(code);
    const bool sensible = std::all_of(list, list + count, [&](const cudaMemAccessDesc& each) {
      const bool own = id_of(pool) == gpus.default_pool(each.location.id);
      return each.location.type == cudaMemLocationTypeDevice && each.location.id >= 0 &&
             each.location.id < gpus.device_count() && !(own && each.flags == cudaMemAccessFlagsProtNone);
    });
    return sensible ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  if (flags == nullptr || location == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::PoolStats stats;
    if (const Code code = gpus.pool_stats(id_of(pool), stats); code != Code::success) return error_of(code);
    *flags = cudaMemAccessFlagsProtReadWrite;
    return cudaSuccess;
  });
}

}  // extern "C"
