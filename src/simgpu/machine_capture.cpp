// Captures: which calls are legal while a stream captures: measured.md's table, and for what it leaves out CUDA's documentation
// of cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode; and what they record.
#include <algorithm>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

thread_local CaptureMode mode_of_thread = CaptureMode::global;

}  // namespace

std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

CaptureMode exchange_capture_mode(CaptureMode mode) { return std::exchange(mode_of_thread, mode); }
CaptureMode capture_mode() { return mode_of_thread; }

Code Machine::check_unsafe_call() {
  if (captures_.empty() || capture_mode() == CaptureMode::relaxed) return Code::success;
  bool illegal = false;
  for (const auto& capture : captures_) {
    const bool own = capture->thread == this_thread_number() && capture->mode != CaptureMode::relaxed;
    const bool others = capture_mode() == CaptureMode::global && capture->mode == CaptureMode::global;
    if (!own && !others) continue;
    capture->invalidated = true;
    illegal = true;
  }
  return illegal ? Code::capture_unsupported : Code::success;
}

bool Machine::capturing_on(int device) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const auto& capture) { return capture->device == device; });
}

bool Machine::blocking_capture_on(int device) const {
  return std::any_of(timeline_.queues().begin(), timeline_.queues().end(), [&](const auto& queue) {
    return queue->device == device && queue->role == Role::blocking && queue->capture != nullptr;
  });
}

void Machine::invalidate_on(int device) {
  for (const auto& capture : captures_) {
    if (capture->device == device) capture->invalidated = true;
  }
}

Code Machine::admit(Queue& queue) {
  if (captures_.empty()) return Code::success;
  if (queue.capture != nullptr) {
    return queue.capture->invalidated ? Code::capture_invalidated : Code::success;
  }
  if (queue.role != Role::legacy) return Code::success;
  // The legacy stream would wait for every blocking stream, and so for work that is only being captured.
  bool implicit = false;
  for (const auto& other : timeline_.queues()) {
    if (other->device != queue.device || other->role != Role::blocking || other->capture == nullptr) continue;
    other->capture->invalidated = true;
    implicit = true;
  }
  return implicit ? Code::capture_implicit : Code::success;
}

Code Machine::is_capturing(int device, StreamId stream, bool& capturing) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::is_capturing); code != Code::success) return code;
  spend(costs::stream_call_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  // Of the legacy stream it cannot be told while a blocking stream captures; to ask does not spoil that capture (CUDA's
  // documentation of cuStreamIsCapturing).
  if (queue->role == Role::legacy && blocking_capture_on(device)) return Code::capture_implicit;
  capturing = queue->capture != nullptr;
  return Code::success;
}

Code Machine::begin_capture(int device, StreamId stream, CaptureMode mode) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::begin_capture); code != Code::success) return code;
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->role == Role::legacy) return Code::capture_unsupported;
  if (queue->capture != nullptr) return Code::illegal_state;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = this_thread_number();
  capture->device = device;
  capture->stream = queue->stream;
  capture->id = next_number();
  capture->graph_id = next_number();
  capture->graph = std::make_shared<Graph>();
  graphs_.emplace(capture->graph_id, capture->graph);
  queue->capture = capture;
  queue->capture_after.clear();
  captures_.push_back(std::move(capture));
  return Code::success;
}

Code Machine::end_capture(int device, StreamId stream) {
  GraphId graph = 0;
  if (const Code code = end_capture(device, stream, graph); code != Code::success) return code;
  return graph_destroy(graph);
}

Code Machine::end_capture(int device, StreamId stream, GraphId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::end_capture); code != Code::success) return code;
  const Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  const std::shared_ptr<Capture> capture = queue->capture;
  if (capture == nullptr) return Code::illegal_state;
  if (capture->stream != queue->stream) return Code::capture_unmatched;
  // From the wrong thread the capture is over all the same.
  const bool wrong_thread = capture->mode != CaptureMode::relaxed && capture->thread != this_thread_number();
  const std::vector<bool> joined = capture->graph->before(queue->capture_after);
  bool unjoined = false;
  for (const auto& other : timeline_.queues()) {
    if (other->capture != capture) continue;
    for (const std::uint32_t node : other->capture_after) unjoined |= !joined[node];
    other->capture = nullptr;
    other->capture_after.clear();
  }
  capture->ended = true;
  std::erase(captures_, capture);
  if (wrong_thread || capture->invalidated || unjoined) {
    graphs_.erase(capture->graph_id);
    if (wrong_thread) return Code::capture_wrong_thread;
    return capture->invalidated ? Code::capture_invalidated : Code::capture_unjoined;
  }
  out = capture->graph_id;
  return Code::success;
}

void Machine::add_node(Queue& queue, Node node) {
  queue.capture_after = {queue.capture->graph->add(std::move(node), std::move(queue.capture_after))};
}

Code Machine::capture_info(int device, StreamId stream, CaptureInfo& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::is_capturing); code != Code::success) return code;
  spend(costs::stream_call_ns);
  const Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->role == Role::legacy && blocking_capture_on(device)) return Code::capture_implicit;
  out = {};
  if (queue->capture == nullptr) return Code::success;
  out.status = queue->capture->invalidated ? CaptureStatus::invalidated : CaptureStatus::active;
  out.id = queue->capture->id;
  out.graph = queue->capture->graph_id;
  for (const std::uint32_t node : queue->capture_after)
    out.dependencies.push_back(queue->capture->graph->nodes[node].id);
  return Code::success;
}

Code Machine::update_capture_dependencies(int device, StreamId stream, const std::vector<NodeId>& nodes, bool add) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->capture == nullptr) return Code::invalid_value;
  if (queue->capture->invalidated) return Code::capture_invalidated;
  std::vector<std::uint32_t> after;
  if (add) after = queue->capture_after;
  for (const NodeId node : nodes) {
    const std::uint32_t index = queue->capture->graph->index_of(node);
    if (index == Graph::none) return Code::invalid_value;
    after.push_back(index);
  }
  queue->capture_after = std::move(after);
  return Code::success;
}

}  // namespace reprieve::simgpu
