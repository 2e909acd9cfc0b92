// What every function of the stand-in runtime does around its call of the simulated machine.
#pragma once

#include <type_traits>

#include "standin/context.hpp"
#include "standin/gates.hpp"

namespace reprieve::standin {

// Remembers an error as the calling thread's last one and returns it; cudaErrorNotReady is none.
cudaError_t done(cudaError_t error);

inline cudaError_t error_of(simgpu::Code code) { return static_cast<cudaError_t>(static_cast<int>(code)); }
inline cudaError_t error_of(CUresult code) { return static_cast<cudaError_t>(static_cast<int>(code)); }

inline simgpu::StreamId id_of(cudaStream_t stream) { return reinterpret_cast<simgpu::StreamId>(stream); }
inline simgpu::EventId id_of(cudaEvent_t event) { return reinterpret_cast<simgpu::EventId>(event); }
inline std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
inline void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Of a call that needs no context: `body(machine)` returns cudaError_t.
template <typename Body>
cudaError_t without_context(Body&& body) {
  if (const CUresult result = initialize(); result != CUDA_SUCCESS) return done(error_of(result));
  return done(body(*machine()));
}

// Of a call on the current device, whose context becomes current in a thread that has none: `body(machine, device)`
// returns simgpu::Code or cudaError_t.
template <typename Body>
cudaError_t on_device(Body&& body) {
  if (const CUresult result = initialize(); result != CUDA_SUCCESS) return done(error_of(result));
  const int device = use_runtime_device();
  if (const CUresult error = lasting_error(device); error != CUDA_SUCCESS) return done(error_of(error));
  open_gates();
  const auto result = body(*machine(), device);
  if constexpr (std::is_same_v<std::remove_const_t<decltype(result)>, simgpu::Code>) {
    return done(error_of(result));
  } else {
    return done(result);
  }
}

// The device that a stream's call is made on: its own, for the three named streams the current one.
inline int device_for(simgpu::Machine& gpus, cudaStream_t stream, int current_device) {
  const int own = gpus.stream_device(id_of(stream));
  return own >= 0 ? own : current_device;
}

}  // namespace reprieve::standin
