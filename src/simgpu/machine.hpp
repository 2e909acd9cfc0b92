// A simulated machine: GPUs with memory and streams, the driver's calls upon them, a virtual clock, and a record of
// what the program under test did wrong (faults.hpp).
//
// - Every call may be made from any thread; one lock covers the machine.
// - Time is virtual. Each call moves the host's clock on by what the call costs (costs.hpp), waiting moves it on to the
//   end of what is waited for, advance() moves it on by itself. Work that is queued runs at the moment, on that clock,
//   at which everything it depends on is done; its effect on the bytes then happens at once.
// - Addresses are real ones of this process: mapped memory can be read and written, anything else faults.
// - The host is one actor: what one thread knows to be complete, every thread is taken to know.
// - A call that fails changes nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simgpu/address_space.hpp"
#include "simgpu/capture.hpp"
#include "simgpu/codes.hpp"
#include "simgpu/costs.hpp"
#include "simgpu/failures.hpp"
#include "simgpu/faults.hpp"
#include "simgpu/timeline.hpp"

namespace reprieve::simgpu {

using StreamId = std::uintptr_t;
using EventId = std::uintptr_t;
using HandleId = std::uint64_t;

inline constexpr StreamId legacy_stream = 0;      // and 1: in step with every blocking stream of the device
inline constexpr StreamId per_thread_stream = 2;  // another queue for every calling thread; blocking

struct Config {
  int devices = 1;  // 1 to 64
  std::uint64_t device_bytes = std::uint64_t{140} << 30;
  std::uint64_t host_bytes = std::uint64_t{256} << 30;  // for allocations located in host memory
  bool context_events = true;                           // event_record_all works (CUDA 12.5 and newer)
  bool poison_fresh = false;  // fresh memory reads 0xa5, not 0; touches every byte that is made accessible
};

struct Range {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// A kernel, as far as memory is concerned.
struct Work {
  std::string name = "kernel";
  std::vector<Range> reads;
  std::vector<Range> writes;
  std::uint64_t duration_ns = 1'000;
  std::function<void()> effect = {};  // on the bytes, when the work ends; under the lock: it must not call the machine
};

class Machine {
 public:
  explicit Machine(const Config& config = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  int device_count() const { return config_.devices; }
  bool context_events() const { return config_.context_events; }

  // Memory. Sizes and addresses are multiples of `granularity` (2 MiB).
  Code reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out);
  Code unreserve(std::uint64_t base, std::uint64_t bytes);
  Code create(int device, Location where, std::uint64_t bytes, HandleId& out);
  Code release(HandleId handle);  // its bytes stay in use until its last mapping is gone
  Code map(std::uint64_t at, std::uint64_t bytes, HandleId handle);
  Code set_access(int device, std::uint64_t at, std::uint64_t bytes);  // whole mappings, no gap
  Code unmap(std::uint64_t at, std::uint64_t bytes);                   // whole mappings, no gap
  Code memory_info(int device, std::uint64_t& free_bytes, std::uint64_t& total_bytes);

  // Streams made here do not synchronize with the legacy one. A destroyed stream's queued work still runs.
  Code stream_create(int device, StreamId& out);
  Code stream_destroy(int device, StreamId stream);
  Code stream_synchronize(int device, StreamId stream);
  Code stream_wait(int device, StreamId stream, EventId event);
  Code is_capturing(int device, StreamId stream, bool& capturing);
  Code synchronize(int device);  // with everything queued on the device

  Code event_create(int device, EventId& out);
  Code event_destroy(EventId event);
  Code event_record(int device, EventId event, StreamId stream);
  Code event_record_all(int device, EventId event);  // after all that is queued on the device now
  Code event_query(EventId event);                   // success, not_ready, or an error; success if never recorded
  // Waits on the virtual clock, at most `timeout_ns`: success or not_ready, or an error.
  Code event_wait(EventId event, std::uint64_t timeout_ns);

  Code launch(int device, StreamId stream, Work work);
  Code copy(int device, std::uint64_t to, std::uint64_t from, std::uint64_t bytes, StreamId stream);
  Code fill(int device, std::uint64_t to, std::uint8_t value, std::uint64_t bytes, StreamId stream);

  Code begin_capture(int device, StreamId stream, CaptureMode mode);
  Code end_capture(int device, StreamId stream);  // capture_invalidated where an illegal call spoiled it

  // The rest is not the driver's: it steers the simulation, costs no time and cannot be made to fail.

  std::uint64_t now_ns() const { return now_ns_.load(std::memory_order_relaxed); }
  void advance(std::uint64_t ns);

  // The handle of a stream, usable from any thread: for per_thread_stream that of the calling thread's.
  StreamId resolve(int device, StreamId stream);

  // While held, nothing on the stream runs. False where there is no such stream.
  bool hold(int device, StreamId stream);
  bool resume(int device, StreamId stream);

  // May be below what is in use: then nothing can be created until enough is released.
  void set_capacity(int device, std::uint64_t bytes);
  void set_host_capacity(std::uint64_t bytes);
  // Bytes of the device that something outside the program holds.
  void set_foreign_use(int device, std::uint64_t bytes);
  std::uint64_t used_bytes(int device);
  std::uint64_t host_used_bytes();
  std::size_t mapping_count();

  void fail(Call call, std::uint64_t after, std::uint64_t times, Code code);
  void clear_failures();
  std::uint64_t pending_failures();

  // The first 1,000 since the last clear, and how many there were in all.
  std::vector<Fault> faults();
  std::uint64_t fault_count();
  void clear_faults();

 private:
  // One recording of an event.
  struct Record {
    std::shared_ptr<Operation> operation;
    VectorClock clock;
    std::shared_ptr<Capture> capture;  // set where it was recorded into a graph: then there is no operation
  };
  struct Event {
    int device = 0;
    std::shared_ptr<Record> record;  // the latest; null before the first
  };
  struct Access {
    std::vector<Piece> pieces;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool write = false;
  };

  // All below expect the lock to be held.
  void spend(std::uint64_t ns);
  void move_to(std::uint64_t ns);
  Code begin(Call call);
  bool is_device(int device) const { return device >= 0 && device < config_.devices; }
  Queue* find_queue(int device, StreamId stream);
  Event* find_event(EventId event);
  void report(FaultKind kind, std::uint64_t address, std::uint64_t bytes, std::string text);

  bool wait_for(const Operation& operation, std::uint64_t deadline_ns);
  Code wait_endless(const Operation& operation, const char* what);
  std::shared_ptr<Operation> enqueue_marker(Queue& queue);
  Code record_state(const Event& event) const;
  Code enqueue_work(Queue& queue, Work&& work, Code unmapped);
  void note_uses(Queue& queue, const std::vector<Access>& accesses, const std::shared_ptr<const WorkId>& id);
  void run_work(const Work& work, const std::vector<Access>& accesses);
  void check_early_unmap(const Mapping& mapping);

  Code check_unsafe_call();
  Code admit(Queue& queue);  // success, or why nothing may be queued on it now
  bool capturing_on(int device) const;
  bool blocking_capture_on(int device) const;
  void invalidate_on(int device);

  const Config config_;
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> now_ns_{0};
  AddressSpace space_;
  Timeline timeline_;
  VectorClock known_;  // what the host knows to be complete
  std::unordered_map<StreamId, Queue*> streams_;
  std::map<std::pair<int, std::uint64_t>, Queue*> thread_queues_;  // by device and thread number
  std::unordered_map<EventId, Event> events_;
  EventId next_event_ = 1;
  std::vector<std::shared_ptr<Capture>> captures_;  // those going on
  Failures failures_;
  std::vector<Fault> faults_;
  std::uint64_t fault_count_ = 0;
};

}  // namespace reprieve::simgpu
