// Graphs: work that a capture recorded, or that was added by hand, to be launched any number of times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simgpu/work.hpp"

namespace reprieve::simgpu {

using GraphId = std::uint64_t;  // 0: none
using GraphExecId = std::uint64_t;
// A node of any graph: no two in the process's life have the same number. 0: none.
using NodeId = std::uint64_t;

enum class NodeKind : std::uint8_t { empty, kernel, copy, fill, host, event_record, event_wait, malloc, free };

struct Node {
  NodeId id = 0;
  NodeKind kind = NodeKind::empty;
  std::vector<std::uint32_t> after;  // indices of earlier nodes
  Work work;                         // of kernel, copy, fill
  HostFunction host;                 // of host
  std::uint64_t event = 0;           // of event_record, event_wait
  std::uint32_t lane = 0;            // nodes of one lane run one after the other; 0 is the launching stream's own
};

// Memory that a capture allocated in stream order: kept while a graph or an executable one that names it exists.
class GraphMemory;

// The nodes are in an order in which they may run. Not thread-safe: the machine's lock covers it.
struct Graph {
  std::vector<Node> nodes;
  std::shared_ptr<GraphMemory> memory;

  // Index of a node; ~0 where it is not one of this graph's.
  std::uint32_t index_of(NodeId id) const;
  Node& add(NodeKind kind, std::vector<std::uint32_t> after);
  // Spreads the nodes over lanes: a node follows, on its lane, a node that it waits for where nothing else does yet.
  void assign_lanes();
  std::uint32_t lane_count() const;
  // Whether every node is one of `ends` or something that they wait for.
  bool all_before(const std::vector<std::uint32_t>& ends) const;
};

enum class CaptureStatus : std::uint8_t { none, active, invalidated };  // as CUstreamCaptureStatus

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::none;
  std::uint64_t id = 0;              // of the capture: no two in the process's life have the same
  GraphId graph = 0;                 // that is being made; valid after the capture has ended as well
  std::vector<NodeId> dependencies;  // what the stream's next node will wait for
};

}  // namespace reprieve::simgpu
