// Graphs: work that a capture recorded, or that was added by hand, to be launched any number of times.
#pragma once

#include <cstdint>
#include <functional>
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
  Work work;                // of kernel, copy, fill
  HostFunction host;        // of host
  std::uint64_t event = 0;  // of event_record, event_wait
  // Indices of earlier nodes of the graph, in rising order.
  std::vector<std::uint32_t> after;
  // Nodes of one lane run one after the other. 0 is the launching stream's own.
  std::uint32_t lane = 0;
};

// Not thread-safe: the machine's lock covers it.
struct Graph {
  std::vector<Node> nodes;  // each behind all that it waits for
  std::uint32_t lanes = 1;
  // Memory allocated during the capture: each gives its own back when the last graph or executable graph is gone.
  std::vector<std::shared_ptr<void>> memory;

  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::uint32_t index_of(NodeId id) const;
  // Takes the node's place at the end; returns its index. `after` need not be in order.
  std::uint32_t add(Node node, std::vector<std::uint32_t> after);
  // A node goes to the lane of a node that it waits for and that nothing else follows there, else to a new one.
  void assign_lanes();
  // By index: whether a node is one of `ends`, or something that they wait for.
  std::vector<bool> before(const std::vector<std::uint32_t>& ends) const;
};

enum class CaptureStatus : std::uint8_t { none, active, invalidated };  // in the order of CUstreamCaptureStatus

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::none;
  std::uint64_t id = 0;              // of the capture: no two in the process's life have the same
  GraphId graph = 0;                 // that is being made; the one that the end of the capture gives
  std::vector<NodeId> dependencies;  // what the stream's next node will wait for
};

}  // namespace reprieve::simgpu
