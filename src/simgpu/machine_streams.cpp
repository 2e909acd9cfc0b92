// Streams and events.
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {

Code Machine::stream_create(int device, StreamId& out, const StreamFlags& flags) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::stream_create); code != Code::success) return code;
  spend(costs::stream_create_ns);
  Queue& queue = make_queue(device, flags.blocking ? Role::blocking : Role::free);
  queue.priority = flags.priority;
  const std::uint64_t number = ++streams_created_[static_cast<std::size_t>(device)];
  if (std::erase(held_at_birth_, std::pair(device, number)) != 0) timeline_.hold(queue);
  out = queue.stream;
  return Code::success;
}

Code Machine::stream_destroy(int device, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::stream_destroy); code != Code::success) return code;
  spend(costs::stream_create_ns);
  Queue* const queue = stream > per_thread_stream ? find_queue(device, stream) : nullptr;
  if (queue == nullptr || queue->role == Role::legacy) return Code::invalid_handle;
  const auto of_thread = [&](const auto& entry) { return entry.second == queue; };
  if (std::any_of(thread_queues_.begin(), thread_queues_.end(), of_thread)) return Code::invalid_handle;
  if (queue->capture != nullptr) return Code::capture_unsupported;
  streams_.erase(stream);
  left_queues_.push_back(queue);
  left_queues_.insert(left_queues_.end(), queue->lanes.begin(), queue->lanes.end());
  queue->lanes.clear();
  return Code::success;
}

Code Machine::stream_wait(int device, StreamId stream, EventId event, bool external) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::stream_wait); code != Code::success) return code;
  spend(costs::stream_call_ns);
  Queue* queue = find_queue(device, stream);
  const Event* found = find_event(event);
  if (queue == nullptr || found == nullptr) return Code::invalid_handle;
  if (const Code code = admit(*queue); code != Code::success) return code;
  if (external && queue->capture != nullptr) {
    Node node;
    node.kind = NodeKind::event_wait;
    node.event = event;
    add_node(*queue, std::move(node));
    return Code::success;
  }
  const std::shared_ptr<Record> record = found->record;
  if (record == nullptr) return Code::success;
  if (record->capture != nullptr) {
    if (record->capture->ended) return Code::invalid_value;
    if (queue->role == Role::legacy) {
      record->capture->invalidated = true;
      return Code::capture_implicit;
    }
    if (queue->capture != nullptr && queue->capture != record->capture) {
      queue->capture->invalidated = true;
      record->capture->invalidated = true;
      return Code::capture_merge;
    }
    if (queue->capture == nullptr) {
      queue->capture = record->capture;  // the stream joins the capture
      queue->capture_after.clear();
    }
    queue->capture_after.insert(queue->capture_after.end(), record->nodes.begin(), record->nodes.end());
    return Code::success;
  }
  if (queue->capture != nullptr) {
    queue->capture->invalidated = true;
    return Code::capture_isolation;
  }
  queue->clock.join(record->clock);
  if (record->done() && timeline_.free_to_run(*queue)) return Code::success;
  std::vector<std::shared_ptr<Operation>> after;
  if (!record->done()) after.push_back(record->operation);
  enqueue_marker(*queue, std::move(after));
  return Code::success;
}

Code Machine::event_create(int device, EventId& out, const EventFlags& flags) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::event_create); code != Code::success) return code;
  spend(costs::event_create_ns);
  out = next_event_++;
  events_.emplace(out, Event{device, flags, nullptr});
  return Code::success;
}

Code Machine::event_destroy(EventId event) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_destroy); code != Code::success) return code;
  spend(costs::event_destroy_ns);
  return events_.erase(event) == 1 ? Code::success : Code::invalid_handle;
}

// Nothing is returned where what it would mark is done.
std::shared_ptr<Operation> Machine::enqueue_marker(Queue& queue, std::vector<std::shared_ptr<Operation>> after) {
  inform(queue);
  if (after.empty() && timeline_.free_to_run(queue)) {
    timeline_.pass(queue, now_ns(), 0);
    return nullptr;
  }
  auto marker = std::make_shared<Operation>();
  marker->enqueued_ns = now_ns();
  marker->after = std::move(after);
  timeline_.enqueue(queue, marker);
  timeline_.run_until(now_ns());
  return marker;
}

std::shared_ptr<Machine::Record> Machine::new_record(Queue& queue) {
  auto record = std::make_shared<Record>();
  record->operation = enqueue_marker(queue);
  record->end_ns = queue.not_before_ns;
  record->clock = queue.clock;
  return record;
}

Code Machine::event_record(int device, EventId event, StreamId stream, bool external) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_record); code != Code::success) return code;
  spend(costs::event_record_ns);
  Queue* queue = find_queue(device, stream);
  Event* found = find_event(event);
  if (queue == nullptr || found == nullptr || found->device != device) return Code::invalid_handle;
  if (const Code code = admit(*queue); code != Code::success) return code;
  if (queue->capture == nullptr && external) return Code::illegal_state;
  if (queue->capture != nullptr && external) {
    Node node;
    node.kind = NodeKind::event_record;
    node.event = event;
    add_node(*queue, std::move(node));
    return Code::success;
  }
  if (queue->capture != nullptr) {
    auto record = std::make_shared<Record>();
    record->capture = queue->capture;
    record->nodes = queue->capture_after;
    found->record = std::move(record);
    return Code::success;
  }
  const std::shared_ptr<Record> record = new_record(*queue);
  found->record = record;
  if (!found->flags.interprocess || record->done()) return Code::success;
  // Another process could not see whether it is done.
  return wait_endless(turn, {{record->operation, {}}}, "the record of an interprocess event");
}

Code Machine::event_record_all(int device, EventId event) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_record_all); code != Code::success) return code;
  if (!is_device(device)) return Code::invalid_device;
  spend(timeline_.idle() ? costs::record_all_idle_ns : costs::record_all_busy_ns);
  Event* found = find_event(event);
  if (found == nullptr || found->device != device) return Code::invalid_handle;
  if (!config_.context_events) return Code::not_supported;
  if (capturing_on(device)) {
    invalidate_on(device);
    return Code::capture_unsupported;
  }
  auto record = std::make_shared<Record>();
  record->operation = std::make_shared<Operation>();
  record->operation->enqueued_ns = now_ns();
  record->clock = known_;
  for (const auto& queue : timeline_.queues()) {
    if (queue->device != device) continue;
    record->clock.join(queue->clock);
    if (queue->last != nullptr && !queue->last->done) record->operation->after.push_back(queue->last);
  }
  timeline_.enqueue_apart(record->operation);
  timeline_.run_until(now_ns());
  found->record = std::move(record);
  return Code::success;
}

// Whether the event may be queried at all.
Code Machine::record_state(const Event& event) const {
  if (event.record == nullptr || event.record->capture == nullptr) return Code::success;
  if (event.record->capture->ended) return Code::invalid_value;
  event.record->capture->invalidated = true;
  return Code::captured_event;
}

Code Machine::event_query(EventId event) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_query); code != Code::success) return code;
  spend(costs::event_query_ns);
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = record_state(*found); code != Code::success) return code;
  if (found->record == nullptr) return Code::success;
  if (!found->record->done()) return Code::not_ready;
  learn(found->record->clock);
  return Code::success;
}

Code Machine::event_elapsed(EventId from, EventId to, std::int64_t& ns) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_query); code != Code::success) return code;
  spend(costs::event_query_ns);
  for (const EventId event : {from, to}) {
    const Event* found = find_event(event);
    if (found == nullptr || !found->flags.timing || found->record == nullptr) return Code::invalid_handle;
    if (const Code code = record_state(*found); code != Code::success) return code;
    if (!found->record->done()) return Code::not_ready;
  }
  ns = static_cast<std::int64_t>(find_event(to)->record->done_ns() - find_event(from)->record->done_ns());
  return Code::success;
}

bool Machine::stream_info(int device, StreamId stream, StreamInfo& out) {
  const Turn turn(*this);
  const Queue* queue = turn ? find_queue(device, stream) : nullptr;
  if (queue == nullptr) return false;
  out = {queue->device, {queue->role != Role::free, queue->priority}, queue->id};
  return true;
}

int Machine::stream_device(StreamId stream) {
  const Turn turn(*this);
  const auto found = turn ? streams_.find(stream) : streams_.end();
  return found != streams_.end() ? found->second->device : -1;
}

int Machine::event_device(EventId event) {
  const Turn turn(*this);
  const Event* found = turn ? find_event(event) : nullptr;
  return found != nullptr ? found->device : -1;
}

}  // namespace reprieve::simgpu
