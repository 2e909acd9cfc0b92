// Capturing streams into graphs, and graphs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "standin/runtime.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;

cudaGraph_t graph_handle(simgpu::GraphId id) { return reinterpret_cast<cudaGraph_t>(id); }
simgpu::GraphId id_of(cudaGraph_t graph) { return reinterpret_cast<simgpu::GraphId>(graph); }
simgpu::GraphExecId id_of(cudaGraphExec_t exec) { return reinterpret_cast<simgpu::GraphExecId>(exec); }
cudaGraphNode_t node_handle(simgpu::NodeId id) { return reinterpret_cast<cudaGraphNode_t>(id); }
simgpu::NodeId id_of(cudaGraphNode_t node) { return reinterpret_cast<simgpu::NodeId>(node); }

cudaStreamCaptureStatus status_of(simgpu::CaptureStatus status) {
  return static_cast<cudaStreamCaptureStatus>(static_cast<int>(status));
}

// What a capture's dependencies point to: valid until the thread asks again, as CUDA has it.
std::vector<cudaGraphNode_t>& answered_nodes() {
  thread_local auto* const nodes = new std::vector<cudaGraphNode_t>;
  return *nodes;
}
std::vector<cudaGraphEdgeData>& answered_edges() {
  thread_local auto* const edges = new std::vector<cudaGraphEdgeData>;
  return *edges;
}

struct CaptureAnswer {
  cudaStreamCaptureStatus* status;
  unsigned long long* id;
  cudaGraph_t* graph;
  const cudaGraphNode_t** nodes;
  const cudaGraphEdgeData** edges;
  std::size_t* count;
};

cudaError_t capture_info(cudaStream_t stream, const CaptureAnswer& out) {
  if (out.status == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::CaptureInfo info;
    const Code code = gpus.capture_info(device_for(gpus, stream, device), standin::id_of(stream), info);
    if (code != Code::success) return code;
    auto& nodes = answered_nodes();
    nodes.clear();
    for (const simgpu::NodeId node : info.dependencies) nodes.push_back(node_handle(node));
    answered_edges().assign(nodes.size(), cudaGraphEdgeData{});
    *out.status = status_of(info.status);
    if (out.id != nullptr) *out.id = info.id;
    if (out.graph != nullptr) *out.graph = graph_handle(info.graph);
    if (out.nodes != nullptr) *out.nodes = nodes.data();
    if (out.edges != nullptr) *out.edges = answered_edges().data();
    if (out.count != nullptr) *out.count = nodes.size();
    return code;
  });
}

// CUDA's way to answer with a list: as many as there is room for, the rest of the room is cleared, and how many there
// are; without room only how many.
cudaError_t answer(const std::vector<simgpu::NodeId>& list, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes == nullptr) {
    *count = list.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < list.size() ? node_handle(list[i]) : nullptr;
  *count = std::min(*count, list.size());
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  constexpr unsigned long long accepted = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                          cudaGraphInstantiateFlagDeviceLaunch |
                                          cudaGraphInstantiateFlagUseNodePriority;
  if (out == nullptr || (flags & ~accepted) != 0) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::GraphExecId exec = 0;
    const Code code = gpus.graph_instantiate(id_of(graph), exec);
    if (code == Code::success) *out = reinterpret_cast<cudaGraphExec_t>(exec);
    return error_of(code);
  });
}

cudaGraphNodeType type_of(simgpu::NodeKind kind) {
  switch (kind) {
    case simgpu::NodeKind::empty: return cudaGraphNodeTypeEmpty;
    case simgpu::NodeKind::kernel: return cudaGraphNodeTypeKernel;
    case simgpu::NodeKind::copy: return cudaGraphNodeTypeMemcpy;
    case simgpu::NodeKind::fill: return cudaGraphNodeTypeMemset;
    case simgpu::NodeKind::host: return cudaGraphNodeTypeHost;
    case simgpu::NodeKind::event_record: return cudaGraphNodeTypeEventRecord;
    case simgpu::NodeKind::event_wait: return cudaGraphNodeTypeWaitEvent;
    case simgpu::NodeKind::malloc: return cudaGraphNodeTypeMemAlloc;
    case simgpu::NodeKind::free: return cudaGraphNodeTypeMemFree;
  }
  return cudaGraphNodeTypeEmpty;
}

cudaError_t dependencies_of(cudaGraphNode_t node, cudaGraphNode_t* list, std::size_t* count) {
  if (count == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::NodeKind kind{};
    std::vector<simgpu::NodeId> after;
    const Code code = gpus.graph_node(id_of(node), kind, after);
    return code != Code::success ? error_of(code) : answer(after, list, count);
  });
}

// In the language of Graphviz: one line a node, one an edge.
cudaError_t print(simgpu::Machine& gpus, simgpu::GraphId graph, const char* path) {
  std::vector<simgpu::NodeId> nodes;
  if (const Code code = gpus.graph_nodes(graph, nodes); code != Code::success) return error_of(code);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "w"), std::fclose);
  if (file == nullptr) return cudaErrorOperatingSystem;
  std::fprintf(file.get(), "digraph graph_%llu {\n", static_cast<unsigned long long>(graph));
  for (const simgpu::NodeId node : nodes) {
    simgpu::NodeKind kind{};
    std::vector<simgpu::NodeId> after;
    if (const Code code = gpus.graph_node(node, kind, after); code != Code::success) return error_of(code);
    const auto number = static_cast<unsigned long long>(node);
    std::fprintf(file.get(), "  node_%llu [label=\"type %d\"];\n", number, static_cast<int>(type_of(kind)));
    for (const simgpu::NodeId before : after) {
      std::fprintf(file.get(), "  node_%llu -> node_%llu;\n", static_cast<unsigned long long>(before), number);
    }
  }
  std::fprintf(file.get(), "}\n");
  return cudaSuccess;
}

cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* nodes, std::size_t count, unsigned flags) {
  if (flags > cudaStreamSetCaptureDependencies || (nodes == nullptr && count != 0)) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    std::vector<simgpu::NodeId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(id_of(nodes[i]));
    return gpus.update_capture_dependencies(device_for(gpus, stream, device), standin::id_of(stream), ids,
                                            flags == cudaStreamAddCaptureDependencies);
  });
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed) {
    return done(cudaErrorInvalidValue);
  }
  const auto wanted = static_cast<simgpu::CaptureMode>(*mode);
  *mode = static_cast<cudaStreamCaptureMode>(simgpu::exchange_capture_mode(wanted));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    return gpus.begin_capture(device_for(gpus, stream, device), reprieve::standin::id_of(stream),
                              static_cast<simgpu::CaptureMode>(mode));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  *out = nullptr;
  return on_device([&](simgpu::Machine& gpus, int device) {
    simgpu::GraphId graph = 0;
    const Code code = gpus.end_capture(device_for(gpus, stream, device), reprieve::standin::id_of(stream), graph);
    if (code == Code::success) *out = graph_handle(graph);
    return code;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return capture_info(stream, {status, nullptr, nullptr, nullptr, nullptr, nullptr});
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return capture_info(stream, {status, id, graph, nodes, edges, count});
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                std::size_t count, unsigned flags) {
  return update_dependencies(stream, nodes, count, flags);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* list, cudaGraphEdgeData* edges,
                                         std::size_t* count) {
  const std::size_t room = list != nullptr && count != nullptr ? *count : 0;
  if (edges != nullptr) std::fill_n(edges, room, cudaGraphEdgeData{});
  return dependencies_of(node, list, count);
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t* graph, const cudaGraphNode_t** nodes, std::size_t* count) {
  return capture_info(stream, {status, id, graph, nodes, nullptr, count});
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, std::size_t count,
                                                unsigned flags) {
  return update_dependencies(stream, nodes, count, flags);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* list, std::size_t* count) {
  return dependencies_of(node, list, count);
}
#endif

cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned flags) {
  if (out == nullptr || flags != 0) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::GraphId graph = 0;
    const Code code = gpus.graph_create(graph);
    if (code == Code::success) *out = graph_handle(graph);
    return error_of(code);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return without_context([&](simgpu::Machine& gpus) { return error_of(gpus.graph_destroy(id_of(graph))); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (count == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    std::vector<simgpu::NodeId> list;
    const Code code = gpus.graph_nodes(id_of(graph), list);
    return code != Code::success ? error_of(code) : answer(list, nodes, count);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  if (type == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    simgpu::NodeKind kind{};
    std::vector<simgpu::NodeId> after;
    const Code code = gpus.graph_node(id_of(node), kind, after);
    if (code == Code::success) *type = type_of(kind);
    return error_of(code);
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return without_context([&](simgpu::Machine& gpus) { return error_of(gpus.graph_exec_destroy(id_of(exec))); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    return gpus.graph_launch(device_for(gpus, stream, device), id_of(exec), reprieve::standin::id_of(stream));
  });
}

// There is nothing to upload: a graph's launch only queues its nodes.
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return on_device([&](simgpu::Machine&, int) { return exec != nullptr ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  if (path == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) { return print(gpus, id_of(graph), path); });
}

}  // extern "C"
