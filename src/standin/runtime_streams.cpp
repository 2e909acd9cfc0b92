// Streams, and host functions on them.
#include <algorithm>

#include "standin/runtime.hpp"

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;
using simgpu::Code;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return done(cudaErrorInvalidValue);
  }
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamId stream = 0;
    const bool blocking = (flags & cudaStreamNonBlocking) == 0;
    const Code code = gpus.stream_create(device, stream, {blocking, std::clamp(priority, -5, 0)});
    if (code == Code::success) *out = reinterpret_cast<cudaStream_t>(stream);
    return code;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return on_device([&](simgpu::Machine& gpus, int) {
    const int own = gpus.stream_device(id_of(stream));
    return own < 0 ? Code::invalid_handle : gpus.stream_destroy(own, id_of(stream));
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    return synchronize_stream(device_for(gpus, stream, device), id_of(stream));
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    return gpus.stream_query(device_for(gpus, stream, device), id_of(stream));
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(cudaEventWaitExternal)) != 0) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    const bool external = (flags & cudaEventWaitExternal) != 0;
    return gpus.stream_wait(device_for(gpus, stream, device), id_of(stream), id_of(event), external);
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamInfo info;
    if (!gpus.stream_info(device_for(gpus, stream, device), id_of(stream), info)) return Code::invalid_handle;
    *priority = info.flags.priority;
    return Code::success;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (flags == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamInfo info;
    if (!gpus.stream_info(device_for(gpus, stream, device), id_of(stream), info)) return Code::invalid_handle;
    const auto handle = id_of(stream);
    const bool named = handle <= simgpu::per_thread_stream;  // the default streams have the default's flags
    *flags = named || info.flags.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return Code::success;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (id == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamInfo info;
    if (!gpus.stream_info(device_for(gpus, stream, device), id_of(stream), info)) return Code::invalid_handle;
    *id = info.id;
    return Code::success;
  });
}

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* out) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamInfo info;
    if (!gpus.stream_info(device_for(gpus, stream, device), id_of(stream), info)) return Code::invalid_handle;
    *out = info.device;
    return Code::success;
  });
}
#endif

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    return gpus.launch_host(device_for(gpus, stream, device), id_of(stream), [function, data] { function(data); });
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags) {
  if (function == nullptr || flags != 0) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    const int on = device_for(gpus, stream, device);
    simgpu::CaptureInfo capture;
    // A callback cannot be part of a graph, unlike a host function: to synchronize is as illegal, and says so the same
    // way.
    if (gpus.capture_info(on, id_of(stream), capture) == Code::success &&
        capture.status != simgpu::CaptureStatus::none) {
      return gpus.stream_synchronize(on, id_of(stream));
    }
    return gpus.launch_host(on, id_of(stream), [=] { function(stream, cudaSuccess, data); });
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void* pointer, std::size_t, unsigned) {
  return on_device([&](simgpu::Machine& gpus, int) {
    simgpu::PointerInfo info;
    return gpus.find_pointer(address_of(pointer), info) ? Code::success : Code::invalid_value;
  });
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return on_device([](simgpu::Machine&, int) { return cudaSuccess; });
}

}  // extern "C"
