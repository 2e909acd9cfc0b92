// Memory and events between processes, by the driver's interface.
#include <cstring>

#include "standin/driver.hpp"

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;
using simgpu::Code;

static_assert(sizeof(CUipcMemHandle) == sizeof(simgpu::IpcMemory));
static_assert(sizeof(CUipcEventHandle) == sizeof(simgpu::IpcEvent));

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int) {
    simgpu::IpcMemory memory;
    const Code code = gpus.ipc_export(pointer, memory);
    if (code == Code::success) std::memcpy(handle, memory.bytes, sizeof memory.bytes);
    return code;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    simgpu::IpcMemory memory;
    std::memcpy(memory.bytes, &handle, sizeof memory.bytes);
    std::uint64_t address = 0;
    const Code code = gpus.ipc_import(device, memory, address);
    if (code == Code::success) *out = address;
    return code;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return in_context([&](simgpu::Machine& gpus, int) { return gpus.ipc_close(pointer); });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_event(event, [&](simgpu::Machine& gpus, int) {
    simgpu::IpcEvent shared;
    const Code code = gpus.event_export(id_of(event), shared);
    if (code == Code::success) std::memcpy(handle, shared.bytes, sizeof shared.bytes);
    return code;
  });
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    simgpu::IpcEvent shared;
    std::memcpy(shared.bytes, &handle, sizeof shared.bytes);
    simgpu::EventId event = 0;
    const Code code = gpus.event_import(device, shared, event);
    if (code == Code::success) *out = reinterpret_cast<CUevent>(event);
    return code;
  });
}

}  // extern "C"
