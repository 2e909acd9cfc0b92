#include "simgpu/timeline.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::simgpu {

// What is left waits for one another, over and over: taken apart here, so that no destructor recurses through it all.
Timeline::~Timeline() {
  for (Queue* queue : busy_) {
    for (const auto& operation : queue->operations) operation->after.clear();
  }
  for (const auto& operation : apart_) operation->after.clear();
}

Queue& Timeline::add_queue(int device, Role role) {
  auto queue = std::make_unique<Queue>();
  queue->index = static_cast<std::uint32_t>(queues_.size());
  queue->device = device;
  queue->role = role;
  const auto place = static_cast<std::size_t>(device);
  if (in_step_.size() <= place) in_step_.resize(place + 1);
  if (role == Role::legacy) in_step_[place].legacy = queue.get();
  if (role == Role::blocking) in_step_[place].blocking.push_back(queue.get());
  queues_.push_back(std::move(queue));
  return *queues_.back();
}

void Timeline::reuse(Queue& queue, const VectorClock& known) {
  queue.held = false;
  queue.last = nullptr;
  queue.clock = known;
  queue.known_version = 0;
}

template <typename F>
void Timeline::for_each_in_step(const Queue& queue, F&& visit) const {
  if (queue.role == Role::free) return;
  const InStep& in_step = in_step_[static_cast<std::size_t>(queue.device)];
  if (queue.role == Role::blocking) {
    if (in_step.legacy != nullptr) visit(*in_step.legacy);
    return;
  }
  for (const Queue* other : in_step.blocking) visit(*other);
}

void Timeline::enqueue(Queue& queue, const std::shared_ptr<Operation>& operation) {
  for_each_in_step(queue, [&](const Queue& other) {
    queue.clock.join(other.clock);
    if (other.last != nullptr && !other.last->done) operation->after.push_back(other.last);
  });
  operation->sequence = next_sequence_++;
  if (queue.operations.empty()) busy_.push_back(&queue);
  queue.operations.push_back(operation);
  queue.last = operation;
}

std::uint64_t Timeline::pass(Queue& queue, std::uint64_t now_ns, std::uint64_t duration_ns) {
  std::uint64_t start_ns = std::max(now_ns, queue.not_before_ns);
  for_each_in_step(queue, [&](const Queue& other) {
    queue.clock.join(other.clock);
    start_ns = std::max(start_ns, other.not_before_ns);
  });
  ++next_sequence_;
  queue.not_before_ns = start_ns + duration_ns;
  queue.last = nullptr;
  return queue.not_before_ns;
}

void Timeline::enqueue_apart(const std::shared_ptr<Operation>& operation) {
  operation->sequence = next_sequence_++;
  apart_.push_back(operation);
}

bool Timeline::try_start(Operation& operation, std::uint64_t not_before_ns) {
  if (operation.in_host) return false;
  if (operation.started) return true;
  std::uint64_t start_ns = std::max(operation.enqueued_ns, not_before_ns);
  for (const auto& other : operation.after) {
    if (!other->done) return false;
    start_ns = std::max(start_ns, other->end_ns);
  }
  operation.started = true;
  operation.end_ns = start_ns + operation.duration_ns;
  return true;
}

void Timeline::finish(Operation& operation) {
  operation.done = true;
  operation.after.clear();
  if (operation.on_done) std::exchange(operation.on_done, nullptr)();
}

void Timeline::run_until(std::uint64_t now_ns) {
  while (!idle()) {
    Operation* first = nullptr;
    std::size_t place = 0;
    bool queued = false;
    const auto consider = [&](Operation& operation, std::size_t at, bool in_queue) {
      if (operation.end_ns > now_ns) return;
      if (first != nullptr &&
          std::pair(first->end_ns, first->sequence) <= std::pair(operation.end_ns, operation.sequence)) {
        return;
      }
      first = &operation;
      place = at;
      queued = in_queue;
    };
    for (std::size_t i = 0; i < busy_.size(); ++i) {
      Queue& queue = *busy_[i];
      Operation& head = *queue.operations.front();
      if (!queue.held && try_start(head, queue.not_before_ns)) consider(head, i, true);
    }
    for (std::size_t i = 0; i < apart_.size(); ++i) {
      if (try_start(*apart_[i], 0)) consider(*apart_[i], i, false);
    }
    if (first == nullptr) return;
    std::shared_ptr<Operation> ended;
    if (queued) {
      Queue& queue = *busy_[place];
      if (first->host) {
        first->in_host = true;
        hosts_due_.push_back({&queue, queue.operations.front()});
        continue;
      }
      ended = std::move(queue.operations.front());
      queue.operations.pop_front();
      queue.not_before_ns = ended->end_ns;
      if (queue.operations.empty()) busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(place));
    } else {
      ended = std::move(apart_[place]);
      apart_.erase(apart_.begin() + static_cast<std::ptrdiff_t>(place));
    }
    finish(*ended);
  }
}

std::optional<std::uint64_t> Timeline::next_end_ns() {
  std::optional<std::uint64_t> out;
  const auto consider = [&](const Operation& operation) {
    if (!out || operation.end_ns < *out) out = operation.end_ns;
  };
  for (Queue* queue : busy_) {
    Operation& head = *queue->operations.front();
    if (!queue->held && try_start(head, queue->not_before_ns)) consider(head);
  }
  for (const auto& operation : apart_) {
    if (try_start(*operation, 0)) consider(*operation);
  }
  return out;
}

std::shared_ptr<Operation> Timeline::take_host() {
  hosts_running_.push_back(std::move(hosts_due_.front()));
  hosts_due_.pop_front();
  return hosts_running_.back().operation;
}

void Timeline::finish_host(const std::shared_ptr<Operation>& operation, std::uint64_t now_ns) {
  const auto running = std::find_if(hosts_running_.begin(), hosts_running_.end(),
                                    [&](const Host& host) { return host.operation == operation; });
  Queue& queue = *running->queue;
  hosts_running_.erase(running);
  operation->end_ns = std::max(operation->end_ns, now_ns);
  queue.operations.pop_front();
  queue.not_before_ns = operation->end_ns;
  if (queue.operations.empty()) std::erase(busy_, &queue);
  operation->host = nullptr;
  finish(*operation);
}

void Timeline::hold(Queue& queue) {
  queue.held = true;
  if (!queue.operations.empty() && !queue.operations.front()->in_host) queue.operations.front()->started = false;
}

void Timeline::resume(Queue& queue, std::uint64_t now_ns) {
  queue.held = false;
  queue.not_before_ns = std::max(queue.not_before_ns, now_ns);
}

}  // namespace reprieve::simgpu
