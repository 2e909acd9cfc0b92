// Waiting, and the host functions that run meanwhile.
#include <fmt/format.h>

#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

thread_local int host_function_depth = 0;
constexpr std::uint64_t for_ever = ~std::uint64_t{0};

}  // namespace

bool in_host_function() { return host_function_depth != 0; }

// Runs one host function that is due. The lock is given back for it.
void Machine::run_host(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Operation> operation = timeline_.take_host();
  lock.unlock();
  ++host_function_depth;
  operation->host();
  --host_function_depth;
  lock.lock();
  timeline_.finish_host(operation, now_ns());
  timeline_.run_until(now_ns());
  host_returned_.notify_all();
}

// The end of every call: what time has made due, and in eager mode all that can run. A host function that a host
// function makes due is left to the thread that is in the first one, when that returns.
void Machine::drain(std::unique_lock<std::mutex>& lock) {
  if (timeline_.idle() || in_host_function()) return;
  for (;;) {
    if (timeline_.host_due()) {
      run_host(lock);
      continue;
    }
    if (mode() != Mode::eager) return;
    const auto next = timeline_.next_end_ns();
    if (!next) return;
    move_to(*next);
  }
}

// Moves the clock on until the operation is done. False where the deadline passes first, or where it never will be.
bool Machine::wait_for(Turn& turn, const Operation& operation, std::uint64_t deadline_ns) {
  while (!operation.done) {
    if (timeline_.host_due()) {
      run_host(turn.lock());
      continue;
    }
    const auto next = timeline_.next_end_ns();
    if (next && *next <= deadline_ns) {
      move_to(*next);
    } else if (deadline_ns != for_ever) {
      move_to(deadline_ns);
      if (!timeline_.host_due()) return operation.done;
    } else if (timeline_.hosts_running() != 0) {
      host_returned_.wait(turn.lock());
    } else {
      return false;
    }
  }
  return true;
}

// The host knows of all or, where one never ends, of none.
Code Machine::wait_endless(Turn& turn, const std::vector<Waitable>& all, const char* what) {
  for (const Waitable& one : all) {
    if (one.operation == nullptr || wait_for(turn, *one.operation, for_ever)) continue;
    report(FaultKind::endless_wait, 0, 0, fmt::format("{} would wait for ever: what it waits for is held", what));
    return Code::launch_timeout;
  }
  for (const Waitable& one : all) learn(one.clock);
  return Code::success;
}

void Machine::collect_device(int device, std::vector<Waitable>& out) const {
  for (const auto& queue : timeline_.queues()) {
    if (queue->device == device) out.push_back({queue->last, queue->clock});
  }
}

Code Machine::wait_for_device(Turn& turn, int device, const char* what) {
  std::vector<Waitable> all;
  collect_device(device, all);
  return wait_endless(turn, all, what);
}

Code Machine::synchronize(int device) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::synchronize); code != Code::success) return code;
  spend(costs::stream_call_ns);
  if (capturing_on(device)) {
    invalidate_on(device);
    return Code::capture_unsupported;
  }
  const Code code = wait_for_device(turn, device, "a device's synchronization");
  if (code == Code::success) trim_at_synchronization(device);
  return code;
}

Code Machine::stream_synchronize(int device, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::stream_synchronize); code != Code::success) return code;
  spend(costs::stream_call_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->capture != nullptr) {
    queue->capture->invalidated = true;
    return Code::capture_unsupported;
  }
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = admit(*queue); code != Code::success) return code;
  // What is queued on the legacy stream waits for the blocking ones: so does its synchronization.
  const Placed last = queue->role == Role::legacy ? enqueue_marker(*queue) : queue->last;
  const Code code = wait_endless(turn, {{last, queue->clock}}, "a stream's synchronization");
  if (code == Code::success) trim_at_synchronization(device);
  return code;
}

Code Machine::stream_query(int device, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::stream_query); code != Code::success) return code;
  spend(costs::stream_call_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->capture != nullptr) {
    queue->capture->invalidated = true;
    return Code::capture_unsupported;
  }
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = admit(*queue); code != Code::success) return code;
  const Placed last = queue->role == Role::legacy ? enqueue_marker(*queue) : queue->last;
  if (last != nullptr && !last->done) return Code::not_ready;
  learn(queue->clock);
  return Code::success;
}

Code Machine::event_wait(EventId event, std::uint64_t timeout_ns) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_wait); code != Code::success) return code;
  spend(costs::event_query_ns);
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = record_state(*found); code != Code::success) return code;
  const std::shared_ptr<Record> record = found->record;
  if (record == nullptr) return Code::success;
  constexpr std::uint64_t longest_ns = std::uint64_t{1} << 62;
  if (!record->done() && !wait_for(turn, *record->operation, now_ns() + std::min(timeout_ns, longest_ns))) {
    return Code::not_ready;
  }
  learn(record->clock);
  return Code::success;
}

Code Machine::event_synchronize(EventId event) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::event_wait); code != Code::success) return code;
  spend(costs::event_query_ns);
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = record_state(*found); code != Code::success) return code;
  const std::shared_ptr<Record> record = found->record;
  if (record == nullptr) return Code::success;
  const int device = found->device;
  const Code code = wait_endless(turn, {{record->operation, record->clock}}, "an event's synchronization");
  if (code == Code::success) trim_at_synchronization(device);
  return code;
}

}  // namespace reprieve::simgpu
