// Graphs: made by captures or by hand, made executable, launched.
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {

std::shared_ptr<Graph> Machine::find_graph(GraphId graph) const {
  const auto found = graphs_.find(graph);
  return found != graphs_.end() ? found->second : nullptr;
}

Code Machine::graph_create(GraphId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  out = next_number();
  graphs_.emplace(out, std::make_shared<Graph>());
  return Code::success;
}

Code Machine::graph_destroy(GraphId graph) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  const bool captured =
      std::any_of(captures_.begin(), captures_.end(), [&](const auto& capture) { return capture->graph_id == graph; });
  if (captured) return Code::invalid_value;
  return graphs_.erase(graph) == 1 ? Code::success : Code::invalid_value;
}

Code Machine::graph_add(GraphId id, const std::vector<NodeId>& after, Node node, NodeId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  const std::shared_ptr<Graph> graph = find_graph(id);
  if (graph == nullptr) return Code::invalid_value;
  std::vector<std::uint32_t> indices;
  for (const NodeId before : after) {
    indices.push_back(graph->index_of(before));
    if (indices.back() == Graph::none) return Code::invalid_value;
  }
  out = graph->nodes[graph->add(std::move(node), std::move(indices))].id;
  return Code::success;
}

Code Machine::graph_nodes(GraphId id, std::vector<NodeId>& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  const std::shared_ptr<Graph> graph = find_graph(id);
  if (graph == nullptr) return Code::invalid_value;
  out.clear();
  for (const Node& node : graph->nodes) out.push_back(node.id);
  return Code::success;
}

Code Machine::graph_node(NodeId id, NodeKind& kind, std::vector<NodeId>& after) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  for (const auto& [number, graph] : graphs_) {
    const std::uint32_t index = graph->index_of(id);
    if (index == Graph::none) continue;
    const Node& node = graph->nodes[index];
    kind = node.kind;
    after.clear();
    for (const std::uint32_t before : node.after) after.push_back(graph->nodes[before].id);
    return Code::success;
  }
  return Code::invalid_value;
}

Code Machine::graph_instantiate(GraphId id, GraphExecId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::graph_instantiate); code != Code::success) return code;
  spend(costs::launch_ns);
  const std::shared_ptr<Graph> graph = find_graph(id);
  if (graph == nullptr) return Code::invalid_value;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  auto exec = std::make_shared<Graph>(*graph);
  exec->assign_lanes();
  out = next_number();
  execs_.emplace(out, std::move(exec));
  return Code::success;
}

Code Machine::graph_exec_destroy(GraphExecId exec) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  return execs_.erase(exec) == 1 ? Code::success : Code::invalid_value;
}

// The queue of the stream's that a lane of its graphs runs on.
Queue& Machine::lane_queue(Queue& queue, std::uint32_t lane) {
  if (lane == 0) return queue;
  while (queue.lanes.size() < lane) {
    Queue& made = timeline_.add_queue(queue.device, Role::free);
    made.stream = queue.stream;
    queue.lanes.push_back(&made);
  }
  return *queue.lanes[lane - 1];
}

Code Machine::run_node(Queue& queue, const Node& node, std::vector<std::shared_ptr<Operation>> after) {
  switch (node.kind) {
    case NodeKind::kernel:
      count_launch(node.work);
      return enqueue_work(queue, node.work, Code::illegal_address, std::move(after));
    case NodeKind::copy:
    case NodeKind::fill: return enqueue_work(queue, node.work, Code::invalid_value, std::move(after));
    case NodeKind::host: enqueue_host(queue, node.host, std::move(after)); return Code::success;
    case NodeKind::event_record: {
      if (!after.empty()) enqueue_marker(queue, std::move(after));
      Event* event = find_event(node.event);
      if (event != nullptr) event->record = new_record(queue);
      return Code::success;
    }
    case NodeKind::event_wait: {
      const Event* event = find_event(node.event);
      if (event != nullptr && event->record != nullptr && event->record->capture == nullptr) {
        queue.clock.join(event->record->clock);
        if (!event->record->done()) after.push_back(event->record->operation);
      }
      enqueue_marker(queue, std::move(after));
      return Code::success;
    }
    case NodeKind::empty:
    case NodeKind::malloc:
    case NodeKind::free:
      if (!after.empty()) enqueue_marker(queue, std::move(after));
      return Code::success;
  }
  return Code::invalid_value;
}

// The nodes are added to the one that the queue captures.
void Machine::launch_into_capture(Queue& queue, const Graph& graph) {
  Graph& into = *queue.capture->graph;
  std::vector<std::uint32_t> places;
  std::vector<bool> last(graph.nodes.size(), true);
  for (const Node& node : graph.nodes) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t before : node.after) {
      after.push_back(places[before]);
      last[before] = false;
    }
    if (after.empty()) after = queue.capture_after;
    places.push_back(into.add(node, std::move(after)));
  }
  into.memory.insert(into.memory.end(), graph.memory.begin(), graph.memory.end());
  if (graph.nodes.empty()) return;
  queue.capture_after.clear();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (last[i]) queue.capture_after.push_back(places[i]);
  }
}

Code Machine::graph_launch(int device, GraphExecId exec, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::graph_launch); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  const auto found = execs_.find(exec);
  if (found == execs_.end()) return Code::invalid_value;
  if (const Code code = admit(*queue); code != Code::success) return code;
  const std::shared_ptr<const Graph> graph = found->second;
  if (queue->capture != nullptr) {
    launch_into_capture(*queue, *graph);
    return Code::success;
  }
  return run_graph(*queue, graph);
}

Code Machine::run_graph(Queue& queue, const std::shared_ptr<const Graph>& graph) {
  const bool one_lane = graph->lanes == 1;
  const Placed start = one_lane ? nullptr : enqueue_marker(queue);
  const VectorClock start_clock = one_lane ? VectorClock{} : queue.clock;
  std::vector<Waitable> placed(one_lane ? 0 : graph->nodes.size());
  Code result = Code::success;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    Queue& lane = lane_queue(queue, node.lane);
    std::vector<std::shared_ptr<Operation>> after;
    if (!one_lane) {
      const auto wait = [&](const Placed& operation, const VectorClock& clock) {
        lane.clock.join(clock);
        if (operation != nullptr && !operation->done) after.push_back(operation);
      };
      if (node.after.empty()) wait(start, start_clock);
      for (const std::uint32_t before : node.after) {
        if (graph->nodes[before].lane != node.lane) wait(placed[before].operation, placed[before].clock);
      }
    }
    const Code code = run_node(lane, node, std::move(after));
    if (result == Code::success) result = code;
    if (!one_lane) placed[i] = {lane.last, lane.clock};
  }
  std::vector<std::shared_ptr<Operation>> ends;
  for (std::uint32_t lane = 1; lane < graph->lanes; ++lane) {
    const Queue& other = lane_queue(queue, lane);
    queue.clock.join(other.clock);
    if (other.last != nullptr && !other.last->done) ends.push_back(other.last);
  }
  if (!one_lane) enqueue_marker(queue, std::move(ends));
  // Destroying the executable graph does not take its memory from a launch that is still to run.
  if (!graph->memory.empty() && queue.last != nullptr && !queue.last->done) {
    queue.last->on_done = [graph, next = std::move(queue.last->on_done)] {
      if (next) next();
    };
  }
  return result;
}

}  // namespace reprieve::simgpu
