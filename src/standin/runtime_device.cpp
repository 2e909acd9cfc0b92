// Devices: choosing one, waiting for it, and what it is like.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "standin/properties.hpp"
#include "standin/runtime.hpp"

namespace reprieve::standin {
namespace {

bool exists(const simgpu::Machine& gpus, int device) { return device >= 0 && device < gpus.device_count(); }

int attribute(int device, cudaDeviceAttr which) {
  return device_attribute(device, static_cast<int>(which)).value_or(0);
}

void describe(cudaDeviceProp& out, int device) {
  const auto get = [device](cudaDeviceAttr which) { return attribute(device, which); };
  const auto bytes = [device](cudaDeviceAttr which) { return static_cast<std::size_t>(attribute(device, which)); };
  std::snprintf(out.name, sizeof out.name, "%s", device_name);
  const CUuuid uuid = device_uuid(device);
  std::memcpy(&out.uuid, &uuid, sizeof out.uuid);
  out.totalGlobalMem = total_bytes(device);
  out.sharedMemPerBlock = bytes(cudaDevAttrMaxSharedMemoryPerBlock);
  out.regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
  out.warpSize = get(cudaDevAttrWarpSize);
  out.memPitch = bytes(cudaDevAttrMaxPitch);
  out.maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
  out.maxThreadsDim[0] = get(cudaDevAttrMaxBlockDimX);
  out.maxThreadsDim[1] = get(cudaDevAttrMaxBlockDimY);
  out.maxThreadsDim[2] = get(cudaDevAttrMaxBlockDimZ);
  out.maxGridSize[0] = get(cudaDevAttrMaxGridDimX);
  out.maxGridSize[1] = get(cudaDevAttrMaxGridDimY);
  out.maxGridSize[2] = get(cudaDevAttrMaxGridDimZ);
  out.totalConstMem = bytes(cudaDevAttrTotalConstantMemory);
  out.major = get(cudaDevAttrComputeCapabilityMajor);
  out.minor = get(cudaDevAttrComputeCapabilityMinor);
  out.textureAlignment = bytes(cudaDevAttrTextureAlignment);
  out.texturePitchAlignment = bytes(cudaDevAttrTexturePitchAlignment);
  out.multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
  out.canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
  out.surfaceAlignment = bytes(cudaDevAttrSurfaceAlignment);
  out.concurrentKernels = get(cudaDevAttrConcurrentKernels);
  out.ECCEnabled = get(cudaDevAttrEccEnabled);
  const PciAddress pci = pci_address(device);
  out.pciDomainID = pci.domain;
  out.pciBusID = pci.bus;
  out.pciDeviceID = pci.device;
  out.asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  out.unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
  out.memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
  out.l2CacheSize = get(cudaDevAttrL2CacheSize);
  out.persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize);
  out.maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
  out.streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported);
  out.globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported);
  out.localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported);
  out.sharedMemPerMultiprocessor = bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  out.regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
  out.managedMemory = get(cudaDevAttrManagedMemory);
  out.concurrentManagedAccess = get(cudaDevAttrConcurrentManagedAccess);
  out.computePreemptionSupported = get(cudaDevAttrComputePreemptionSupported);
  out.canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem);
  out.cooperativeLaunch = get(cudaDevAttrCooperativeLaunch);
  out.sharedMemPerBlockOptin = bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  out.maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
  out.accessPolicyMaxWindowSize = get(cudaDevAttrMaxAccessPolicyWindowSize);
  out.reservedSharedMemPerBlock = bytes(cudaDevAttrReservedSharedMemoryPerBlock);
  out.hostRegisterSupported = get(cudaDevAttrHostRegisterSupported);
  out.sparseCudaArraySupported = get(cudaDevAttrSparseCudaArraySupported);
  out.hostRegisterReadOnlySupported = get(cudaDevAttrHostRegisterReadOnlySupported);
  out.timelineSemaphoreInteropSupported = get(cudaDevAttrTimelineSemaphoreInteropSupported);
  out.memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
  out.gpuDirectRDMASupported = get(cudaDevAttrGPUDirectRDMASupported);
  out.gpuDirectRDMAFlushWritesOptions = static_cast<unsigned>(get(cudaDevAttrGPUDirectRDMAFlushWritesOptions));
  out.gpuDirectRDMAWritesOrdering = get(cudaDevAttrGPUDirectRDMAWritesOrdering);
  out.deferredMappingCudaArraySupported = get(cudaDevAttrDeferredMappingCudaArraySupported);
  out.ipcEventSupported = get(cudaDevAttrIpcEventSupport);
  out.clusterLaunch = get(cudaDevAttrClusterLaunch);
  out.unifiedFunctionPointers = 1;
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return done(cudaErrorInvalidValue);
  *version = driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return done(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return done(cudaErrorInvalidValue);
  *count = 0;
  return without_context([&](simgpu::Machine& gpus) {
    *count = gpus.device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine&) {
    *device = runtime_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device)) return cudaErrorInvalidDevice;
    choose_device(device);
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device)) return cudaErrorInvalidDevice;
    activate(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  return without_context([&](simgpu::Machine&) {
    const int device = runtime_device();
    const cudaError_t waited = error_of(synchronize_device(device));
    if (waited != cudaSuccess) return waited;
    reset(device);
    set_current(nullptr);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return on_device([](simgpu::Machine&, int device) { return synchronize_device(device); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device)) return cudaErrorInvalidDevice;
    *out = {};
    describe(*out, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (value == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device)) return cudaErrorInvalidDevice;
    const std::optional<int> found = device_attribute(device, static_cast<int>(which));
    if (!found) return cudaErrorInvalidValue;
    *value = *found;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (text == nullptr || length < 1) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device)) return cudaErrorInvalidDevice;
    const PciAddress pci = pci_address(device);
    std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.0", static_cast<unsigned>(pci.domain),
                  static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0;
  unsigned bus = 0;
  if (device == nullptr || text == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (std::sscanf(text, "%x:%x:", &domain, &bus) != 2) return cudaErrorInvalidValue;
    for (int each = 0; each < gpus.device_count(); ++each) {
      if (pci_address(each).bus != static_cast<int>(bus)) continue;
      *device = each;
      return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return on_device([&](simgpu::Machine&, int) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return done(cudaErrorInvalidValue);
  *flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return done((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0 ? cudaErrorInvalidValue : cudaSuccess);
}

// The simulated devices reach each other's plain memory without being asked; a program is still held to CUDA's order
// of calls for what it asks twice.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    if (!exists(gpus, device) || !exists(gpus, peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(gpus, peer)) return cudaErrorInvalidDevice;
    if (peer == device) return cudaErrorPeerAccessUnsupported;
    return enable_peer(device, peer) ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    if (!exists(gpus, peer)) return cudaErrorInvalidDevice;
    return disable_peer(device, peer) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  if (value == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine&, int) {
    const auto found = context_limit(static_cast<CUlimit>(limit));
    if (!found) return cudaErrorUnsupportedLimit;
    *value = *found;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return on_device([&](simgpu::Machine&, int) {
    return set_context_limit(static_cast<CUlimit>(limit), value) ? cudaSuccess : cudaErrorUnsupportedLimit;
  });
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
