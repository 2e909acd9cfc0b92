// What a machine is made of, and how it is steered.
#include "simgpu/machine.hpp"

#include <algorithm>

#include "simgpu/forks.hpp"
#include "simgpu/turn.hpp"

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

Machine::Machine(const Config& config)
    : config_(config),
      forks_(forks_of_process()),
      mode_(config.mode),
      space_(config.devices, config.poison_fresh ? Poison::at_once : config.poison),
      next_stream_(first_stream) {
  space_.host_memory().capacity = config.host_bytes;
  streams_created_.resize(static_cast<std::size_t>(config.devices), 0);
  for (int device = 0; device < config.devices; ++device) {
    space_.device_memory(device).capacity = config.device_bytes;
    make_queue(device, Role::legacy);  // queue number `device`: find_queue relies on it
    pools_.emplace(default_pool(device), std::make_unique<StreamPool>(device));
  }
  next_pool_ = static_cast<PoolId>(config.devices) + 1;
}

// A forked child leaves everything to its parent: the mappings are not its own, and what the files hold is shared.
Machine::~Machine() {
  if (!usable()) space_.abandon();
}

bool Machine::usable() const { return forks_ == forks_of_process(); }

void Machine::move_to(std::uint64_t ns) {
  if (ns > now_ns()) now_ns_.store(ns, std::memory_order_relaxed);
  timeline_.run_until(now_ns());
}

void Machine::spend(std::uint64_t ns) { move_to(now_ns() + ns); }

Code Machine::Turn::begin() {
  if (!*this) return Code::not_initialized;
  return in_host_function() ? Code::not_permitted : Code::success;
}

Code Machine::Turn::begin(Call call) {
  if (const Code code = begin(); code != Code::success) return code;
  ++machine_.calls_[static_cast<std::size_t>(call)];
  const Code code = machine_.failures_.next(call);
  if (code != Code::success) machine_.spend(failed_call_ns);
  return code;
}

Queue& Machine::make_queue(int device, Role role) {
  const auto spare = std::find_if(left_queues_.begin(), left_queues_.end(), [&](const Queue* queue) {
    return queue->device == device && queue->role == role && queue->operations.empty() &&
           known_.covers(queue->index, queue->uses);
  });
  Queue* queue = nullptr;
  if (spare != left_queues_.end()) {
    queue = *spare;
    left_queues_.erase(spare);
    timeline_.reuse(*queue, known_);
  } else {
    queue = &timeline_.add_queue(device, role);
  }
  queue->stream = next_stream_++;
  queue->id = next_number();
  streams_.emplace(queue->stream, queue);
  return *queue;
}

Queue* Machine::find_queue(int device, StreamId stream) {
  if (!is_device(device)) return nullptr;
  if (stream <= 1) return timeline_.queues()[static_cast<std::size_t>(device)].get();
  if (stream == per_thread_stream) {
    Queue*& queue = thread_queues_[{device, this_thread_number()}];
    if (queue == nullptr) queue = &make_queue(device, Role::blocking);
    return queue;
  }
  const auto it = streams_.find(stream);
  return it != streams_.end() && it->second->device == device ? it->second : nullptr;
}

void Machine::learn(const VectorClock& clock) {
  known_.join(clock);
  ++known_version_;
}

void Machine::inform(Queue& queue) {
  if (queue.known_version == known_version_) return;
  queue.clock.join(known_);
  queue.known_version = known_version_;
}

Machine::Event* Machine::find_event(EventId event) {
  const auto it = events_.find(event);
  return it == events_.end() ? nullptr : &it->second;
}

void Machine::report(FaultKind kind, std::uint64_t address, std::uint64_t bytes, std::string text) {
  ++fault_count_;
  if (faults_.size() < faults_kept) faults_.push_back({kind, address, bytes, std::move(text)});
}

void Machine::advance(std::uint64_t ns) {
  const Turn turn(*this);
  if (turn) spend(ns);
}

void Machine::set_mode(Mode mode) {
  const Turn turn(*this);
  mode_.store(mode, std::memory_order_relaxed);
}

void Machine::set_poison(Poison poison) {
  const Turn turn(*this);
  if (turn) space_.set_poison(poison);
}

StreamId Machine::resolve(int device, StreamId stream) {
  const Turn turn(*this);
  const Queue* queue = turn ? find_queue(device, stream) : nullptr;
  return queue != nullptr ? queue->stream : 0;
}

bool Machine::hold(int device, StreamId stream) {
  const Turn turn(*this);
  Queue* queue = turn ? find_queue(device, stream) : nullptr;
  if (queue != nullptr) timeline_.hold(*queue);
  return queue != nullptr;
}

bool Machine::resume(int device, StreamId stream) {
  const Turn turn(*this);
  Queue* queue = turn ? find_queue(device, stream) : nullptr;
  if (queue == nullptr) return false;
  timeline_.resume(*queue, now_ns());
  timeline_.run_until(now_ns());
  return true;
}

void Machine::hold_when_created(int device, std::uint64_t number) {
  const Turn turn(*this);
  if (turn) held_at_birth_.emplace_back(device, number);
}

void Machine::set_capacity(int device, std::uint64_t bytes) {
  const Turn turn(*this);
  if (turn && is_device(device)) space_.device_memory(device).capacity = bytes;
}

void Machine::set_host_capacity(std::uint64_t bytes) {
  const Turn turn(*this);
  if (turn) space_.host_memory().capacity = bytes;
}

void Machine::set_foreign_use(int device, std::uint64_t bytes) {
  const Turn turn(*this);
  if (turn && is_device(device)) space_.device_memory(device).foreign = bytes;
}

std::uint64_t Machine::used_bytes(int device) {
  const Turn turn(*this);
  return turn && is_device(device) ? space_.device_memory(device).used : 0;
}

std::uint64_t Machine::peak_used_bytes(int device) {
  const Turn turn(*this);
  return turn && is_device(device) ? space_.device_memory(device).peak_used : 0;
}

std::uint64_t Machine::host_used_bytes() {
  const Turn turn(*this);
  return turn ? space_.host_memory().used : 0;
}

std::size_t Machine::mapping_count() {
  const Turn turn(*this);
  return turn ? space_.mapping_count() : 0;
}

void Machine::fail(Call call, std::uint64_t after, std::uint64_t times, Code code) {
  const Turn turn(*this);
  if (turn) failures_.add(call, after, times, code);
}

void Machine::clear_failures() {
  const Turn turn(*this);
  if (turn) failures_.clear();
}

std::uint64_t Machine::pending_failures() {
  const Turn turn(*this);
  return turn ? failures_.pending() : 0;
}

void Machine::count_launch(const Work& work) {
  const KernelId kernel = work.kernel != KernelId::none ? work.kernel : kernel_id(work.name);
  const auto index = static_cast<std::size_t>(kernel);
  if (launches_.size() <= index) launches_.resize(index + 1, 0);
  ++launches_[index];
}

std::uint64_t Machine::launches(std::string_view name_part) {
  const Turn turn(*this);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; turn && i < launches_.size(); ++i) {
    if (launches_[i] != 0 && kernel_name(static_cast<KernelId>(i)).find(name_part) != std::string::npos) {
      sum += launches_[i];
    }
  }
  return sum;
}

std::uint64_t Machine::calls(Call call) {
  const Turn turn(*this);
  return turn ? calls_[static_cast<std::size_t>(call)] : 0;
}

void Machine::reset_counters() {
  const Turn turn(*this);
  if (!turn) return;
  launches_.clear();
  calls_.fill(0);
  for (int device = 0; device < config_.devices; ++device) {
    Memory& memory = space_.device_memory(device);
    memory.peak_used = memory.used;
  }
}

std::vector<Fault> Machine::faults() {
  const Turn turn(*this);
  return turn ? faults_ : std::vector<Fault>{};
}

std::uint64_t Machine::fault_count() {
  const Turn turn(*this);
  return turn ? fault_count_ : 0;
}

void Machine::clear_faults() {
  const Turn turn(*this);
  if (!turn) return;
  faults_.clear();
  fault_count_ = 0;
}

}  // namespace reprieve::simgpu
