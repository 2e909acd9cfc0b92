// Streams and events of the driver's interface, values that streams wait for, captures and graphs.
#include <algorithm>
#include <vector>

#include "standin/driver.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;

std::vector<CUgraphNode>& answered_nodes() {
  thread_local auto* const nodes = new std::vector<CUgraphNode>;
  return *nodes;
}
std::vector<CUgraphEdgeData>& answered_edges() {
  thread_local auto* const edges = new std::vector<CUgraphEdgeData>;
  return *edges;
}

CUstreamCaptureStatus status_of(simgpu::CaptureStatus status) {
  return static_cast<CUstreamCaptureStatus>(static_cast<int>(status));
}

// A graph cannot hold such waits and writes here: the machine has no node for them.
template <typename Body>
CUresult outside_capture(CUstream stream, Body&& body) {
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::CaptureInfo capture;
    if (const Code code = gpus.capture_info(device, id_of(stream), capture); code != Code::success) return code;
    if (capture.status != simgpu::CaptureStatus::none) return Code::not_supported;
    return body(gpus, device);
  });
}

CUresult wait_value(CUstream stream, CUdeviceptr address, std::uint64_t value, int bytes, unsigned flags) {
  return outside_capture(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::PointerInfo info;
    if (address % static_cast<unsigned>(bytes) != 0 || !gpus.find_pointer(address, info)) return Code::invalid_value;
    return add_gate(device, id_of(stream), address, value, bytes, flags);
  });
}

CUresult write_value(CUstream stream, CUdeviceptr address, std::uint64_t value, int bytes) {
  return outside_capture(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::PointerInfo info;
    if (address % static_cast<unsigned>(bytes) != 0 || !gpus.find_pointer(address, info)) return Code::invalid_value;
    for (int at = 0; at < bytes; at += 4) {
      const auto word = static_cast<std::uint32_t>(value >> (at * 8));
      const simgpu::Fill fill{address + static_cast<unsigned>(at), word, 4, 4, 0, 1};
      if (const Code code = gpus.fill(device, fill, id_of(stream)); code != Code::success) return code;
    }
    return Code::success;
  });
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    simgpu::StreamId stream = 0;
    const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    const Code code = gpus.stream_create(device, stream, {blocking, std::clamp(priority, -5, 0)});
    if (code == Code::success) *out = reinterpret_cast<CUstream>(stream);
    return code;
  });
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

CUresult cuStreamDestroy(CUstream stream) {
  return anywhere([&](simgpu::Machine& gpus) {
    const int own = gpus.stream_device(id_of(stream));
    return own < 0 ? Code::invalid_handle : gpus.stream_destroy(own, id_of(stream));
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return on_stream(stream, [&](simgpu::Machine&, int device) { return synchronize_stream(device, id_of(stream)); });
}

CUresult cuStreamQuery(CUstream stream) {
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) { return gpus.stream_query(device, id_of(stream)); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    return gpus.stream_wait(device, id_of(stream), id_of(event), (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
  });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine&, int device) {
    *out = primary_context(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::StreamInfo info;
    if (!gpus.stream_info(device, id_of(stream), info)) return Code::invalid_handle;
    *priority = info.flags.priority;
    return Code::success;
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    return gpus.launch_host(device, id_of(stream), [function, data] { function(data); });
  });
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return wait_value(stream, address, value, 4, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return wait_value(stream, address, value, 8, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return write_value(stream, address, value, 4);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return write_value(stream, address, value, 8);
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  constexpr unsigned accepted = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const bool timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  const bool interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
  if (out == nullptr || (flags & ~accepted) != 0 || (interprocess && timing)) return CUDA_ERROR_INVALID_VALUE;
  return in_context([&](simgpu::Machine& gpus, int device) {
    simgpu::EventId event = 0;
    const Code code = gpus.event_create(device, event, {timing, interprocess});
    if (code == Code::success) *out = reinterpret_cast<CUevent>(event);
    return code;
  });
}

CUresult cuEventDestroy(CUevent event) {
  return on_event(event, [&](simgpu::Machine& gpus, int) { return gpus.event_destroy(id_of(event)); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    return gpus.event_record(device, id_of(event), id_of(stream), (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventQuery(CUevent event) {
  return on_event(event, [&](simgpu::Machine& gpus, int) { return gpus.event_query(id_of(event)); });
}

CUresult cuEventSynchronize(CUevent event) {
  return on_event(event, [&](simgpu::Machine&, int) { return synchronize_event(id_of(event)); });
}

CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  if (ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_event(from, [&](simgpu::Machine& gpus, int) {
    std::int64_t ns = 0;
    const Code code = gpus.event_elapsed(id_of(from), id_of(to), ns);
    if (code == Code::success) *ms = static_cast<float>(static_cast<double>(ns) / 1e6);
    return code;
  });
}

#if CUDA_VERSION >= 12050
CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
  return on_event(event, [&](simgpu::Machine& gpus, int) {
    const int device = context != nullptr ? device_of(context) : device_of(current());
    return device < 0 ? Code::invalid_context : gpus.event_record_all(device, id_of(event));
  });
}
#endif

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  *mode = static_cast<CUstreamCaptureMode>(simgpu::exchange_capture_mode(static_cast<simgpu::CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    return gpus.begin_capture(device, id_of(stream), static_cast<simgpu::CaptureMode>(mode));
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::GraphId graph = 0;
    const Code code = gpus.end_capture(device, id_of(stream), graph);
    if (code == Code::success) *out = reinterpret_cast<CUgraph>(graph);
    return code;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    // Counted, timed and made to fail as the call that it is.
    bool capturing = false;
    if (const Code code = gpus.is_capturing(device, id_of(stream), capturing); code != Code::success) return code;
    simgpu::CaptureInfo info;
    const Code code = gpus.capture_info(device, id_of(stream), info);
    if (code == Code::success) *status = status_of(info.status);
    return code;
  });
}

#if CUDA_VERSION >= 13000
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes, const CUgraphEdgeData** edges, std::size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    simgpu::CaptureInfo info;
    const Code code = gpus.capture_info(device, id_of(stream), info);
    if (code != Code::success) return code;
    auto& list = answered_nodes();
    list.clear();
    for (const simgpu::NodeId node : info.dependencies) list.push_back(reinterpret_cast<CUgraphNode>(node));
    answered_edges().assign(list.size(), CUgraphEdgeData{});
    *status = status_of(info.status);
    if (id != nullptr) *id = info.id;
    if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(info.graph);
    if (nodes != nullptr) *nodes = list.data();
    if (edges != nullptr) *edges = answered_edges().data();
    if (count != nullptr) *count = list.size();
    return code;
  });
}
#endif

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return anywhere([&](simgpu::Machine& gpus) {
    simgpu::GraphExecId exec = 0;
    const Code code = gpus.graph_instantiate(reinterpret_cast<simgpu::GraphId>(graph), exec);
    if (code == Code::success) *out = reinterpret_cast<CUgraphExec>(exec);
    return code;
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return on_stream(stream, [&](simgpu::Machine& gpus, int device) {
    return gpus.graph_launch(device, reinterpret_cast<simgpu::GraphExecId>(exec), id_of(stream));
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return anywhere([&](simgpu::Machine& gpus) { return gpus.graph_destroy(reinterpret_cast<simgpu::GraphId>(graph)); });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return anywhere(
      [&](simgpu::Machine& gpus) { return gpus.graph_exec_destroy(reinterpret_cast<simgpu::GraphExecId>(exec)); });
}

}  // extern "C"
