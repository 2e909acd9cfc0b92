// What every function of the stand-in driver does around its call of the simulated machine.
#pragma once

#include "standin/context.hpp"
#include "standin/gates.hpp"

namespace reprieve::standin {

inline CUresult result_of(simgpu::Code code) { return static_cast<CUresult>(code); }

inline simgpu::StreamId id_of(CUstream stream) { return reinterpret_cast<simgpu::StreamId>(stream); }
inline simgpu::EventId id_of(CUevent event) { return reinterpret_cast<simgpu::EventId>(event); }

inline std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
inline void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

inline CUresult to_result(CUresult result) { return result; }
inline CUresult to_result(simgpu::Code code) { return result_of(code); }

// Of a call that needs no context: `body(machine)` returns simgpu::Code or CUresult.
template <typename Body>
CUresult anywhere(Body&& body) {
  if (!is_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  open_gates();
  return to_result(body(*machine()));
}

// Of a call on the current context's device: `body(machine, device)`.
template <typename Body>
CUresult in_context(Body&& body) {
  if (!is_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  const int device = device_of(current());
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult error = lasting_error(device); error != CUDA_SUCCESS) return error;
  open_gates();
  return to_result(body(*machine(), device));
}

// Of a call on a stream: on its own device, which need not be current; the three named streams are the current
// context's.
template <typename Body>
CUresult on_stream(CUstream stream, Body&& body) {
  if (!is_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  int device = machine()->stream_device(id_of(stream));
  if (device < 0) device = device_of(current());
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult error = lasting_error(device); error != CUDA_SUCCESS) return error;
  open_gates();
  return to_result(body(*machine(), device));
}

// Of a call on an event: on its own device.
template <typename Body>
CUresult on_event(CUevent event, Body&& body) {
  if (!is_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  const int device = machine()->event_device(id_of(event));
  if (device < 0) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult error = lasting_error(device); error != CUDA_SUCCESS) return error;
  open_gates();
  return to_result(body(*machine(), device));
}

}  // namespace reprieve::standin
