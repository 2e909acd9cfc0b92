#include "simgpu/machine.hpp"

#include <algorithm>

namespace reprieve::simgpu {
namespace {

constexpr std::size_t faults_kept = 1'000;
constexpr std::uint64_t failed_call_ns = 1'000;
constexpr StreamId first_stream = 0x1000;

}  // namespace

const char* fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::early_unmap: return "early unmap";
    case FaultKind::unordered_use: return "unordered use";
    case FaultKind::unmapped_use: return "use of unmapped addresses";
    case FaultKind::changed_backing: return "backing changed before use";
    case FaultKind::endless_wait: return "endless wait";
  }
  return "";
}

Machine::Machine(const Config& config) : config_(config), space_(config.devices, config.poison_fresh) {
  space_.host_memory().capacity = config.host_bytes;
  for (int device = 0; device < config.devices; ++device) {
    space_.device_memory(device).capacity = config.device_bytes;
    Queue& legacy = timeline_.add_queue(device);  // queue number `device`: find_queue relies on it
    legacy.legacy = true;
    legacy.stream = first_stream + legacy.index;
    streams_.emplace(legacy.stream, &legacy);
  }
}

Machine::~Machine() = default;

void Machine::move_to(std::uint64_t ns) {
  if (ns > now_ns()) now_ns_.store(ns, std::memory_order_relaxed);
  timeline_.run_until(now_ns());
}

void Machine::spend(std::uint64_t ns) { move_to(now_ns() + ns); }

Code Machine::begin(Call call) {
  const Code code = failures_.next(call);
  if (code != Code::success) spend(failed_call_ns);
  return code;
}

Queue* Machine::find_queue(int device, StreamId stream) {
  if (!is_device(device)) return nullptr;
  if (stream <= 1) return timeline_.queues()[static_cast<std::size_t>(device)].get();
  if (stream == per_thread_stream) {
    Queue*& queue = thread_queues_[{device, this_thread_number()}];
    if (queue == nullptr) {
      queue = &timeline_.add_queue(device);
      queue->blocking = true;
      queue->stream = first_stream + queue->index;
      streams_.emplace(queue->stream, queue);
    }
    return queue;
  }
  const auto it = streams_.find(stream);
  return it != streams_.end() && it->second->device == device ? it->second : nullptr;
}

Machine::Event* Machine::find_event(EventId event) {
  const auto it = events_.find(event);
  return it == events_.end() ? nullptr : &it->second;
}

void Machine::report(FaultKind kind, std::uint64_t address, std::uint64_t bytes, std::string text) {
  ++fault_count_;
  if (faults_.size() < faults_kept) faults_.push_back({kind, address, bytes, std::move(text)});
}

Code Machine::stream_create(int device, StreamId& out) {
  const std::lock_guard lock(mutex_);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = begin(Call::stream_create); code != Code::success) return code;
  spend(costs::stream_create_ns);
  Queue& queue = timeline_.add_queue(device);
  queue.stream = first_stream + queue.index;
  streams_.emplace(queue.stream, &queue);
  out = queue.stream;
  return Code::success;
}

Code Machine::stream_destroy(int device, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const Code code = begin(Call::stream_destroy); code != Code::success) return code;
  spend(costs::stream_create_ns);
  const Queue* queue = find_queue(device, stream);
  if (queue == nullptr || queue->legacy || queue->blocking) return Code::invalid_handle;
  if (queue->capture != nullptr) return Code::capture_unsupported;
  streams_.erase(stream);
  return Code::success;
}

void Machine::advance(std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  spend(ns);
}

StreamId Machine::resolve(int device, StreamId stream) {
  const std::lock_guard lock(mutex_);
  const Queue* queue = find_queue(device, stream);
  return queue != nullptr ? queue->stream : 0;
}

bool Machine::hold(int device, StreamId stream) {
  const std::lock_guard lock(mutex_);
  Queue* queue = find_queue(device, stream);
  if (queue != nullptr) timeline_.hold(*queue);
  return queue != nullptr;
}

bool Machine::resume(int device, StreamId stream) {
  const std::lock_guard lock(mutex_);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return false;
  timeline_.resume(*queue, now_ns());
  timeline_.run_until(now_ns());
  return true;
}

void Machine::set_capacity(int device, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (is_device(device)) space_.device_memory(device).capacity = bytes;
}

void Machine::set_host_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  space_.host_memory().capacity = bytes;
}

void Machine::set_foreign_use(int device, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (is_device(device)) space_.device_memory(device).foreign = bytes;
}

std::uint64_t Machine::used_bytes(int device) {
  const std::lock_guard lock(mutex_);
  return is_device(device) ? space_.device_memory(device).used : 0;
}

std::uint64_t Machine::host_used_bytes() {
  const std::lock_guard lock(mutex_);
  return space_.host_memory().used;
}

std::size_t Machine::mapping_count() {
  const std::lock_guard lock(mutex_);
  return space_.mapping_count();
}

void Machine::fail(Call call, std::uint64_t after, std::uint64_t times, Code code) {
  const std::lock_guard lock(mutex_);
  failures_.add(call, after, times, code);
}

void Machine::clear_failures() {
  const std::lock_guard lock(mutex_);
  failures_.clear();
}

std::uint64_t Machine::pending_failures() {
  const std::lock_guard lock(mutex_);
  return failures_.pending();
}

std::vector<Fault> Machine::faults() {
  const std::lock_guard lock(mutex_);
  return faults_;
}

std::uint64_t Machine::fault_count() {
  const std::lock_guard lock(mutex_);
  return fault_count_;
}

void Machine::clear_faults() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  fault_count_ = 0;
}

}  // namespace reprieve::simgpu
