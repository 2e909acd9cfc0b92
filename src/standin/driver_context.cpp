// Starting the driver, devices, contexts, and what errors are called.
#include <cstdio>
#include <cstring>

#include "standin/driver.hpp"
#include "standin/errors.hpp"
#include "standin/properties.hpp"

namespace reprieve::standin {
namespace {

template <typename Body>
CUresult of_device(CUdevice device, Body&& body) {
  return anywhere([&](simgpu::Machine& gpus) {
    if (device < 0 || device >= gpus.device_count()) return CUDA_ERROR_INVALID_DEVICE;
    return body(device);
  });
}

template <typename Value, typename Answer>
CUresult answer_of_device(Value* out, CUdevice device, Answer&& answer) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int ordinal) {
    *out = answer(ordinal);
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

CUresult cuInit(unsigned flags) { return flags != 0 ? CUDA_ERROR_INVALID_VALUE : initialize(); }

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  const ErrorText* const found = find_error(static_cast<int>(error));
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = found != nullptr ? found->driver_name : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* const found = find_error(static_cast<int>(error));
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = found != nullptr && found->driver_name != nullptr ? found->text : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    *count = gpus.device_count();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  return answer_of_device(out, ordinal, [](int device) { return device; });
}

CUresult cuDeviceGetName(char* text, int length, CUdevice device) {
  if (text == nullptr || length < 1) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int) {
    std::snprintf(text, static_cast<std::size_t>(length), "%s", device_name);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) { return answer_of_device(bytes, device, total_bytes); }

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return answer_of_device(uuid, device, device_uuid); }

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int ordinal) {
    const std::optional<int> found = device_attribute(ordinal, static_cast<int>(which));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *value = *found;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (text == nullptr || length < 1) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int ordinal) {
    const PciAddress pci = pci_address(ordinal);
    std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.0", static_cast<unsigned>(pci.domain),
                  static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.device));
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return answer_of_device(can, device, [&](int ordinal) {
    return peer != ordinal && peer >= 0 && peer < machine()->device_count() ? 1 : 0;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return answer_of_device(pool, device,
                          [](int ordinal) { return reinterpret_cast<CUmemoryPool>(machine()->default_pool(ordinal)); });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int ordinal) {
    const CUresult result = retain(ordinal);
    if (result == CUDA_SUCCESS) *out = primary_context(ordinal);
    return result;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return of_device(device, release); }

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return of_device(device, [](int ordinal) {
    reset(ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned) {
  return of_device(device, [](int) { return CUDA_SUCCESS; });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return of_device(device, [&](int ordinal) {
    *flags = 0;
    *active = is_active(ordinal) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine&) {
    *out = current();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return anywhere([&](simgpu::Machine&) {
    if (context != nullptr && device_of(context) < 0) return CUDA_ERROR_INVALID_CONTEXT;
    set_current(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return anywhere([&](simgpu::Machine&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_of(context) < 0) return CUDA_ERROR_INVALID_CONTEXT;
    push(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  return anywhere([&](simgpu::Machine&) {
    const CUcontext top = pop();
    if (top == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = top;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine&) {
    const int device = device_of(current());
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    *out = device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;  // the version of the context interface, not CUDA's
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine&, int) {
    *flags = 0;
    return CUDA_SUCCESS;
  });
}

#if CUDA_VERSION >= 13000
CUresult cuCtxSynchronize() {
  return in_context([](simgpu::Machine&, int device) { return synchronize_device(device); });
}
#else
CUresult cuCtxSynchronize(void) {
  return in_context([](simgpu::Machine&, int device) { return synchronize_device(device); });
}
#endif

CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine&, int) {
    const auto found = context_limit(limit);
    if (!found) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = *found;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  return in_context([&](simgpu::Machine&, int) {
    return set_context_limit(limit, value) ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](simgpu::Machine&, int) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return in_context([&](simgpu::Machine&, int device) {
    const int other = device_of(peer);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (other < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (other == device) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return enable_peer(device, other) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

}  // extern "C"
