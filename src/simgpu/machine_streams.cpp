// Queued work, events, and waiting.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "simgpu/machine.hpp"

namespace reprieve::simgpu {
namespace {

unsigned char* bytes_at(std::uint64_t address) {
  return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

// Moves the clock on until the operation is done. False where the deadline passes first, or where it never will be.
bool Machine::wait_for(const Operation& operation, std::uint64_t deadline_ns) {
  while (!operation.done) {
    const auto next = timeline_.next_end_ns();
    if (!next || *next > deadline_ns) {
      if (deadline_ns != ~std::uint64_t{0}) move_to(deadline_ns);
      return operation.done;
    }
    move_to(*next);
  }
  return true;
}

Code Machine::wait_endless(const Operation& operation, const char* what) {
  if (wait_for(operation, ~std::uint64_t{0})) return Code::success;
  report(FaultKind::endless_wait, 0, 0, fmt::format("{} would wait for ever: what it waits for is held", what));
  return Code::launch_timeout;
}

std::shared_ptr<Operation> Machine::enqueue_marker(Queue& queue) {
  auto marker = std::make_shared<Operation>();
  marker->enqueued_ns = now_ns();
  timeline_.enqueue(queue, marker);
  queue.clock.join(known_);
  timeline_.run_until(now_ns());
  return marker;
}

Code Machine::stream_synchronize(int device, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::stream_synchronize); code != Code::success) return code;
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
  const std::shared_ptr<Operation> last = queue->legacy ? enqueue_marker(*queue) : queue->last;
  if (last != nullptr) {
    if (const Code code = wait_endless(*last, "a stream's synchronization"); code != Code::success) return code;
  }
  known_.join(queue->clock);
  return Code::success;
}

Code Machine::synchronize(int device) {
  const std::lock_guard lock(mutex_);
  if (!is_device(device)) return Code::invalid_device;
  spend(costs::stream_call_ns);
  if (capturing_on(device)) {
    invalidate_on(device);
    return Code::capture_unsupported;
  }
  for (const auto& queue : timeline_.queues()) {
    if (queue->device != device) continue;
    if (queue->last != nullptr) {
      if (const Code code = wait_endless(*queue->last, "a device's synchronization"); code != Code::success) {
        return code;
      }
    }
    known_.join(queue->clock);
  }
  return Code::success;
}

Code Machine::stream_wait(int device, StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::stream_wait); code != Code::success) return code;
  spend(costs::stream_call_ns);
  Queue* queue = find_queue(device, stream);
  const Event* found = find_event(event);
  if (queue == nullptr || found == nullptr) return Code::invalid_handle;
  if (const Code code = admit(*queue); code != Code::success) return code;
  const std::shared_ptr<Record> record = found->record;
  if (record == nullptr) return Code::success;
  if (record->capture != nullptr) {
    if (record->capture->ended) return Code::captured_event;
    if (queue->legacy) {
      record->capture->invalidated = true;
      return Code::capture_implicit;
    }
    if (queue->capture != nullptr && queue->capture != record->capture) return Code::capture_isolation;
    queue->capture = record->capture;  // the stream joins the capture
    return Code::success;
  }
  if (queue->capture != nullptr) {
    queue->capture->invalidated = true;
    return Code::capture_isolation;
  }
  auto wait = std::make_shared<Operation>();
  wait->enqueued_ns = now_ns();
  if (!record->operation->done) wait->after.push_back(record->operation);
  queue->clock.join(record->clock);
  timeline_.enqueue(*queue, wait);
  timeline_.run_until(now_ns());
  return Code::success;
}

Code Machine::event_create(int device, EventId& out) {
  const std::lock_guard lock(mutex_);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = begin(Call::event_create); code != Code::success) return code;
  spend(costs::event_create_ns);
  out = next_event_++;
  events_.emplace(out, Event{device, nullptr});
  return Code::success;
}

Code Machine::event_destroy(EventId event) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::event_destroy); code != Code::success) return code;
  spend(costs::event_destroy_ns);
  return events_.erase(event) == 1 ? Code::success : Code::invalid_handle;
}

Code Machine::event_record(int device, EventId event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::event_record); code != Code::success) return code;
  spend(costs::event_record_ns);
  Queue* queue = find_queue(device, stream);
  Event* found = find_event(event);
  if (queue == nullptr || found == nullptr || found->device != device) return Code::invalid_handle;
  if (const Code code = admit(*queue); code != Code::success) return code;
  auto record = std::make_shared<Record>();
  if (queue->capture != nullptr) {
    record->capture = queue->capture;
  } else {
    record->operation = enqueue_marker(*queue);
    record->clock = queue->clock;
  }
  found->record = std::move(record);
  return Code::success;
}

Code Machine::event_record_all(int device, EventId event) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::event_record_all); code != Code::success) return code;
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
  event.record->capture->invalidated = true;
  return Code::captured_event;
}

Code Machine::event_query(EventId event) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::event_query); code != Code::success) return code;
  spend(costs::event_query_ns);
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = record_state(*found); code != Code::success) return code;
  if (found->record == nullptr) return Code::success;
  if (!found->record->operation->done) return Code::not_ready;
  known_.join(found->record->clock);
  return Code::success;
}

Code Machine::event_wait(EventId event, std::uint64_t timeout_ns) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::event_wait); code != Code::success) return code;
  spend(costs::event_query_ns);
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (const Code code = record_state(*found); code != Code::success) return code;
  const std::shared_ptr<Record> record = found->record;
  if (record == nullptr) return Code::success;
  constexpr std::uint64_t longest_ns = std::uint64_t{1} << 62;
  if (!wait_for(*record->operation, now_ns() + std::min(timeout_ns, longest_ns))) return Code::not_ready;
  known_.join(record->clock);
  return Code::success;
}

// Enters the uses into the histories of the bytes; whatever they are not ordered after is reported.
void Machine::note_uses(Queue& queue, const std::vector<Access>& accesses, const std::shared_ptr<const WorkId>& id) {
  for (const Access& access : accesses) {
    for (const Piece& piece : access.pieces) {
      Mapping& mapping = *piece.mapping;
      const Use use{id, piece.at};
      const Use conflict = mapping.physical->history.add(piece.physical_begin(), piece.physical_begin() + piece.bytes,
                                                         access.write, use, queue.clock, known_);
      if (conflict) {
        report(FaultKind::unordered_use, piece.at, piece.bytes,
               fmt::format("unordered use: the {} {} {:#x}, {} bytes, which the {} uses at {:#x}; nothing puts one "
                           "after the other",
                           id->name, access.write ? "writes" : "reads", piece.at, piece.bytes, conflict.work->name,
                           conflict.address));
      }
      std::erase_if(mapping.users, [&](const Use& user) { return user.work->queue == queue.index; });
      mapping.users.push_back(use);
    }
  }
}

void Machine::run_work(const Work& work, const std::vector<Access>& accesses) {
  for (const Access& access : accesses) {
    for (const Piece& piece : access.pieces) {
      if (piece.mapping->alive) continue;
      report(FaultKind::changed_backing, piece.at, piece.bytes,
             fmt::format("backing changed before use: what {:#x} was mapped to when the {} was queued had been "
                         "unmapped by the time it ran",
                         piece.at, work.name));
      return;
    }
  }
  if (work.effect) work.effect();
}

Code Machine::enqueue_work(Queue& queue, Work&& work, Code unmapped) {
  if (const Code code = admit(queue); code != Code::success) return code;
  if (queue.capture != nullptr) return Code::success;  // part of a graph now
  work.name = fmt::format("{} on stream {:#x} of device {}", work.name, queue.stream, queue.device);
  std::vector<Access> accesses;
  for (const bool write : {false, true}) {
    for (const Range& range : write ? work.writes : work.reads) {
      if (range.bytes == 0) continue;
      Access access{{}, range.address, range.bytes, write};
      if (!space_.pieces(range.address, range.bytes, queue.device, access.pieces)) {
        report(FaultKind::unmapped_use, range.address, range.bytes,
               fmt::format("use of unmapped addresses: the {} {} {:#x}, {} bytes, not all of it mapped and accessible",
                           work.name, write ? "writes" : "reads", range.address, range.bytes));
        return unmapped;
      }
      accesses.push_back(std::move(access));
    }
  }
  auto operation = std::make_shared<Operation>();
  operation->enqueued_ns = now_ns();
  operation->duration_ns = work.duration_ns;
  timeline_.enqueue(queue, operation);
  queue.clock.join(known_);
  queue.clock.set(queue.index, ++queue.uses);
  const auto id = std::make_shared<const WorkId>(WorkId{queue.index, queue.uses, work.name});
  note_uses(queue, accesses, id);
  operation->on_done = [this, work = std::move(work), accesses = std::move(accesses)] { run_work(work, accesses); };
  timeline_.run_until(now_ns());
  return Code::success;
}

Code Machine::launch(int device, StreamId stream, Work work) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::launch); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  return enqueue_work(*queue, std::move(work), Code::illegal_address);
}

Code Machine::copy(int device, std::uint64_t to, std::uint64_t from, std::uint64_t bytes, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::copy); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (bytes == 0) return Code::success;
  bool over_pcie = false;
  for (const std::uint64_t side : {to, from}) {
    std::vector<Piece> pieces;
    if (!space_.pieces(side, bytes, device, pieces)) continue;  // reported below
    for (const Piece& piece : pieces) over_pcie |= piece.mapping->physical->where == Location::host;
  }
  Work work{"copy", {{from, bytes}}, {{to, bytes}}, costs::copy_work_ns(bytes, over_pcie), {}};
  work.effect = [to, from, bytes] { std::memmove(bytes_at(to), bytes_at(from), bytes); };
  return enqueue_work(*queue, std::move(work), Code::invalid_value);
}

Code Machine::fill(int device, std::uint64_t to, std::uint8_t value, std::uint64_t bytes, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::fill); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (bytes == 0) return Code::success;
  Work work{"fill", {}, {{to, bytes}}, costs::fill_work_ns(bytes), {}};
  work.effect = [to, value, bytes] { std::memset(bytes_at(to), value, bytes); };
  return enqueue_work(*queue, std::move(work), Code::invalid_value);
}

}  // namespace reprieve::simgpu
