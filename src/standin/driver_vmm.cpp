// Virtual memory management: physical memory by handles, reserved addresses, and mappings of the one at the other.
#include <mutex>
#include <unordered_map>

#include "standin/driver.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;
using simgpu::HandleId;
using simgpu::HandleInfo;

// What handles were made with, as far as the machine does not keep it.
struct Handles {
  std::mutex mutex;
  std::unordered_map<HandleId, CUmemAllocationProp> properties;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

// The simulated machine's host memory is one node, number 0.
bool is_host(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return true;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return location.id == 0;
    default: return false;
  }
}

CUresult check(const CUmemAllocationProp& wanted, int devices) {
  if (wanted.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const auto types = static_cast<unsigned>(wanted.requestedHandleTypes);
  if ((types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    return wanted.location.id >= 0 && wanted.location.id < devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  }
  return is_host(wanted.location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUmemAllocationProp properties_of(HandleId handle, const HandleInfo& info) {
  const std::lock_guard lock(handles().mutex);
  if (const auto found = handles().properties.find(handle); found != handles().properties.end()) return found->second;
  // Imported, or found by an address after its last handle was released.
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  out.location.type =
      info.where == simgpu::Location::host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
  out.location.id = info.device;
  return out;
}

CUresult allow(simgpu::Machine& gpus, CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc& access) {
  if (access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (access.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    return result_of(gpus.set_access(access.location.id, at, bytes));
  }
  // The host may use what is located there, once some device may: the bytes are the same.
  simgpu::PointerInfo info;
  const bool on_host = gpus.find_pointer(at, info) && info.where == simgpu::Location::host;
  return on_host && is_host(access.location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
  if (bytes == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    const CUresult result = check(*wanted, gpus.device_count());
    if (result == CUDA_SUCCESS) *bytes = simgpu::granularity;
    return result;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    std::uint64_t address = 0;
    const Code code = gpus.reserve(bytes, alignment, address);
    if (code == Code::success) *out = address;
    return code;
  });
}

CUresult cuMemAddressFree(CUdeviceptr base, std::size_t bytes) {
  return anywhere([&](simgpu::Machine& gpus) { return gpus.unreserve(base, bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* wanted,
                     unsigned long long flags) {
  if (out == nullptr || wanted == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    if (const CUresult result = check(*wanted, gpus.device_count()); result != CUDA_SUCCESS) return result;
    const bool on_device = wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    HandleId handle = 0;
    const Code code = gpus.create(on_device ? wanted->location.id : 0,
                                  on_device ? simgpu::Location::device : simgpu::Location::host, bytes, handle);
    if (code != Code::success) return result_of(code);
    CUmemAllocationProp kept = *wanted;
    // The driver names the node where it took host memory from.
    if (!on_device) kept.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    const std::lock_guard lock(handles().mutex);
    handles().properties[handle] = kept;
    *out = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return anywhere([&](simgpu::Machine& gpus) {
    const Code code = gpus.release(handle);
    HandleInfo info;
    if (code == Code::success && gpus.handle_info(handle, info) != Code::success) {
      const std::lock_guard lock(handles().mutex);
      handles().properties.erase(handle);
    }
    return code;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* pointer) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    HandleId handle = 0;
    const Code code = gpus.retain(address_of(pointer), handle);
    if (code == Code::success) *out = handle;
    return code;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    HandleInfo info;
    const Code code = gpus.handle_info(handle, info);
    if (code == Code::success) *out = properties_of(handle, info);
    return code;
  });
}

CUresult cuMemMap(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0) return CUDA_ERROR_NOT_SUPPORTED;  // a handle maps whole
  return anywhere([&](simgpu::Machine& gpus) { return gpus.map(at, bytes, handle); });
}

CUresult cuMemUnmap(CUdeviceptr at, std::size_t bytes) {
  return anywhere([&](simgpu::Machine& gpus) { return gpus.unmap(at, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc* list, std::size_t count) {
  if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    for (std::size_t i = 0; i < count; ++i) {
      if (const CUresult result = allow(gpus, at, bytes, list[i]); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    simgpu::PointerInfo info;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= gpus.device_count() ||
        !gpus.find_pointer(pointer, info) || info.kind != simgpu::PointerKind::mapped) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const bool may = (info.access >> location->id & 1) != 0;
    *flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    HandleInfo info;
    if (const Code code = gpus.handle_info(handle, info); code != Code::success) return result_of(code);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    if (properties_of(handle, info).requestedHandleTypes != type) return CUDA_ERROR_INVALID_VALUE;
    return result_of(gpus.export_handle(handle, *static_cast<int*>(out)));
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                        CUmemAllocationHandleType type) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return anywhere([&](simgpu::Machine& gpus) {
    HandleId handle = 0;
    const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
    const Code code = gpus.import_handle(file, handle);
    if (code == Code::success) *out = handle;
    // What the driver says of a file that holds no memory.
    return code == Code::invalid_value ? CUDA_ERROR_UNKNOWN : result_of(code);
  });
}

}  // extern "C"
