// Memory of the driver's interface that is not mapped by handles, copies, fills, and what a pointer is.
#include <cstring>

#include "standin/driver.hpp"
#include "standin/pointers.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;
using simgpu::CopyCall;
using simgpu::PointerInfo;
using simgpu::PointerKind;

CUresult copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, CUstream stream, CopyCall call) {
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    if (bytes == 0) return Code::success;
    if (to == 0 || from == 0 || !fits(gpus, to, bytes) || !fits(gpus, from, bytes)) return Code::invalid_value;
    return gpus.copy(device, simgpu::Transfer{to, from, bytes}, id_of(stream), call);
  });
}

CUresult fill(CUdeviceptr to, std::uint32_t value, std::uint32_t element_bytes, std::size_t count, CUstream stream) {
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    if (count == 0) return Code::success;
    PointerInfo info;
    if (to % element_bytes != 0 || !find_memory(gpus, to, count * element_bytes, info)) return Code::invalid_value;
    return gpus.fill(device, simgpu::Fill{to, value, element_bytes, count * element_bytes, 0, 1}, id_of(stream));
  });
}

template <typename Value>
CUresult answer(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* out, CUpointer_attribute which, CUdeviceptr pointer, const PointerInfo& info) {
  const bool on_host = info.where == simgpu::Location::host;
  const bool by_context = info.kind == PointerKind::plain || info.kind == PointerKind::managed ||
                          info.kind == PointerKind::pinned || info.kind == PointerKind::registered;
  const bool host_may_use = info.kind == PointerKind::managed || (on_host && info.kind != PointerKind::mapped);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return answer(out, by_context ? primary_context(info.device) : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(out, static_cast<unsigned>(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return info.access != 0 ? answer(out, pointer) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return host_may_use ? answer(out, pointer_to(pointer)) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return answer(out, static_cast<unsigned long long>(info.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return answer(out, info.kind == PointerKind::managed ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return answer(out, info.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return answer(out, CUdeviceptr{info.base});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return answer(out, std::size_t{info.bytes});
    case CU_POINTER_ATTRIBUTE_MAPPED: return answer(out, 1U);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return answer(out, 0U);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return answer(out, info.kind == PointerKind::plain ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer(out, static_cast<std::uint64_t>(
                             info.kind == PointerKind::mapped ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0));
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  if (free_bytes == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    std::uint64_t now_free = 0;
    std::uint64_t now_total = 0;
    const Code code = gpus.memory_info(device, now_free, now_total);
    if (code != Code::success) return code;
    *free_bytes = now_free;
    *total = now_total;
    return code;
  });
}

CUresult cuMemAlloc(CUdeviceptr* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    std::uint64_t address = 0;
    const Code code = gpus.malloc(device, bytes, address);
    if (code == Code::success) *out = address;
    return code;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  return in_context([&](simgpu::Machine& gpus, int) { return gpus.free(pointer); });
}

CUresult cuMemHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  constexpr unsigned accepted = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || bytes == 0 || (flags & ~accepted) != 0) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    std::uint64_t address = 0;
    const Code code = gpus.host_alloc(device, bytes, address);
    if (code == Code::success) *out = pointer_to(address);
    return code;
  });
}

CUresult cuMemAllocHost(void** out, std::size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

CUresult cuMemFreeHost(void* pointer) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int) { return gpus.host_free(address_of(pointer)); });
}

CUresult cuMemHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return in_context(
      [&](simgpu::Machine& gpus, int device) { return gpus.host_register(device, address_of(pointer), bytes); });
}

CUresult cuMemHostUnregister(void* pointer) {
  return in_context([&](simgpu::Machine& gpus, int) { return gpus.host_unregister(address_of(pointer)); });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* pointer, unsigned flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int) {
    PointerInfo info;
    if (!gpus.find_pointer(address_of(pointer), info)) return Code::invalid_value;
    *out = address_of(pointer);
    return Code::success;
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    std::uint64_t address = 0;
    const Code code = gpus.malloc_async(gpus.default_pool(device), bytes, id_of(stream), address);
    if (code == Code::success) *out = address;
    return code;
  });
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return on_stream(stream,
                   [&](simgpu::Machine& gpus, int device) { return gpus.free_async(pointer, device, id_of(stream)); });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr pointer) {
  return anywhere([&](simgpu::Machine& gpus) {
    PointerInfo info;
    if (!find_memory(gpus, pointer, 1, info) || info.access == 0) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = info.base;
    if (bytes != nullptr) *bytes = info.bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr pointer) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    PointerInfo info;
    if (!find_memory(gpus, pointer, 1, info)) return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(out, which, pointer, info);
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr pointer) {
  if (value == nullptr || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    PointerInfo info;
    return gpus.find_pointer(pointer, info) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(to, from, bytes, nullptr, CopyCall::synchronous);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(to, from, bytes, stream, CopyCall::queued);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(to, address_of(from), bytes, nullptr, CopyCall::synchronous);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy(to, address_of(from), bytes, stream, CopyCall::queued);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(address_of(to), from, bytes, nullptr, CopyCall::synchronous);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(address_of(to), from, bytes, stream, CopyCall::queued);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(to, from, bytes, nullptr, CopyCall::synchronous);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(to, from, bytes, stream, CopyCall::queued);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill(to, value, 1, count, nullptr);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill(to, value, 2, count, nullptr);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, std::size_t count) { return fill(to, value, 4, count, nullptr); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return fill(to, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  return fill(to, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return fill(to, value, 4, count, stream);
}

}  // extern "C"
