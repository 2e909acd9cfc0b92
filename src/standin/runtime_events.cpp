// Events.
#include "standin/runtime.hpp"

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;
using simgpu::Code;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  constexpr unsigned accepted = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (out == nullptr || (flags & ~accepted) != 0) return done(cudaErrorInvalidValue);
  const bool timing = (flags & cudaEventDisableTiming) == 0;
  const bool interprocess = (flags & cudaEventInterprocess) != 0;
  if (interprocess && timing) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::EventId event = 0;
    const Code code = gpus.event_create(device, event, {timing, interprocess});
    if (code == Code::success) *out = reinterpret_cast<cudaEvent_t>(event);
    return code;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.event_destroy(id_of(event)); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(cudaEventRecordExternal)) != 0) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    const bool external = (flags & cudaEventRecordExternal) != 0;
    return gpus.event_record(device_for(gpus, stream, device), id_of(event), id_of(stream), external);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.event_query(id_of(event)); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return on_device([&](simgpu::Machine&, int) { return synchronize_event(id_of(event)); });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  if (ms == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int) {
    std::int64_t ns = 0;
    const Code code = gpus.event_elapsed(id_of(from), id_of(to), ns);
    if (code == Code::success) *ms = static_cast<float>(static_cast<double>(ns) / 1e6);
    return code;
  });
}

}  // extern "C"
