// Memory and events between processes.
#include <cstring>

#include "standin/runtime.hpp"

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;
using simgpu::Code;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(simgpu::IpcMemory));
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(simgpu::IpcEvent));

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  if (handle == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int) {
    simgpu::IpcMemory memory;
    const Code code = gpus.ipc_export(address_of(pointer), memory);
    if (code == Code::success) std::memcpy(handle, &memory, sizeof memory);
    return code;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned flags) {
  if (out == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::IpcMemory memory;
    std::memcpy(memory.bytes, &handle, sizeof memory.bytes);
    std::uint64_t address = 0;
    const Code code = gpus.ipc_import(device, memory, address);
    if (code == Code::success) *out = pointer_to(address);
    return code;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.ipc_close(address_of(pointer)); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  if (handle == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int) {
    simgpu::IpcEvent shared;
    const Code code = gpus.event_export(id_of(event), shared);
    if (code == Code::success) std::memcpy(handle, &shared, sizeof shared);
    return code;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t handle) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::IpcEvent shared;
    std::memcpy(shared.bytes, &handle, sizeof shared.bytes);
    simgpu::EventId event = 0;
    const Code code = gpus.event_import(device, shared, event);
    if (code == Code::success) *out = reinterpret_cast<cudaEvent_t>(event);
    return code;
  });
}

}  // extern "C"
