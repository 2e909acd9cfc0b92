// A simulated machine: GPUs with memory and streams, the driver's calls upon them, a virtual clock, and a record of
// what the program under test did wrong (faults.hpp).
//
// - Every call may be made from any thread; one lock covers the machine.
// - Time is virtual. Each call moves the host's clock on by what the call costs (costs.hpp), waiting moves it on to the
//   end of what is waited for, advance() moves it on by itself. Work that is queued runs at the moment, on that clock,
//   at which everything it depends on is done; its effect on the bytes then happens at once. In eager mode time moves
//   on at the end of each call until nothing is left that can run.
// - Host functions run without the lock, at the end of the call, or in the wait, that made time pass. Meanwhile they
//   count as running work: a thread that waits for them waits for real. Inside one, calls of the driver fail with
//   Code::not_permitted; those that only steer or look (second half below) work.
// - Addresses are real ones of this process: mapped memory can be read and written, anything else faults.
// - The host is one actor: what one thread knows to be complete, every thread is taken to know.
// - A call that fails changes nothing.
// - In a child that was forked after the machine was made, driver calls fail with Code::not_initialized, looking at
//   memory finds none, and device memory is not mapped: the child cannot touch its parent's.
//
// A stream is named by its handle, or by the three below, which are the values that CUDA gives them; handles are small
// numbers from 0x1000 on and never dereferenced, so a CUstream may hold one as it is. `device` is the one that a call
// is made on: where it is not the stream's own, the call fails with invalid_handle.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simgpu/address_space.hpp"
#include "simgpu/capture.hpp"
#include "simgpu/codes.hpp"
#include "simgpu/config.hpp"
#include "simgpu/costs.hpp"
#include "simgpu/failures.hpp"
#include "simgpu/faults.hpp"
#include "simgpu/graph.hpp"
#include "simgpu/ipc.hpp"
#include "simgpu/pointer.hpp"
#include "simgpu/pool.hpp"
#include "simgpu/stream_pool.hpp"
#include "simgpu/timeline.hpp"
#include "simgpu/work.hpp"

namespace reprieve::simgpu {

using StreamId = std::uintptr_t;
using EventId = std::uintptr_t;
using HandleId = std::uint64_t;

inline constexpr StreamId legacy_stream = 0;      // and 1: in step with every blocking stream of the device
inline constexpr StreamId per_thread_stream = 2;  // another queue for every calling thread; blocking

struct StreamFlags {
  bool blocking = false;  // in step with the legacy stream; CUDA's default, but not this struct's
  int priority = 0;       // kept for who asks, and nothing else
};

struct StreamInfo {
  int device = 0;
  StreamFlags flags;
  std::uint64_t id = 0;  // no two in the process's life have the same
};

struct EventFlags {
  bool timing = true;
  bool interprocess = false;
};

struct HandleInfo {
  Location where = Location::device;
  int device = 0;
  std::uint64_t bytes = 0;
};

enum class CopyCall : std::uint8_t { queued, synchronous };  // cudaMemcpyAsync, cudaMemcpy

class Machine {
 public:
  explicit Machine(const Config& config = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  int device_count() const { return config_.devices; }
  bool context_events() const { return config_.context_events; }
  const Config& config() const { return config_; }

  // Memory by handles. Sizes and addresses are multiples of `granularity` (2 MiB).
  Code reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out);
  Code unreserve(std::uint64_t base, std::uint64_t bytes);
  Code create(int device, Location where, std::uint64_t bytes, HandleId& out);
  Code retain(std::uint64_t address, HandleId& out);  // the handle mapped there; to be released once more
  Code release(HandleId handle);                      // its bytes stay in use until its last mapping is gone
  Code map(std::uint64_t at, std::uint64_t bytes, HandleId handle);
  Code set_access(int device, std::uint64_t at, std::uint64_t bytes);  // whole mappings, no gap
  Code unmap(std::uint64_t at, std::uint64_t bytes);                   // whole mappings, no gap
  Code memory_info(int device, std::uint64_t& free_bytes, std::uint64_t& total_bytes);
  Code handle_info(HandleId handle, HandleInfo& out);

  // Plain memory: cudaMalloc, cudaFree. Takes whole granules of the device; every device may use it. free() first
  // waits for all that is queued on the device; it takes pooled memory as well, and `address` 0, which does nothing.
  // Neither is legal during capture, but in a relaxed thread. 0 bytes give address 0.
  Code malloc(int device, std::uint64_t bytes, std::uint64_t& out, bool managed = false);
  Code free(std::uint64_t address);

  // Host memory that every device may use, counted against the host's capacity in pages of 4 KiB. host_free() and
  // host_unregister() first wait for all that is queued on every device. Registered memory stays the caller's: it must
  // stay mapped until host_unregister(). `base` must be the start of what was registered.
  Code host_alloc(int device, std::uint64_t bytes, std::uint64_t& out);
  Code host_free(std::uint64_t address);
  Code host_register(int device, std::uint64_t base, std::uint64_t bytes);
  Code host_unregister(std::uint64_t base);

  // Memory in stream order: cudaMallocAsync, cudaFreeAsync. Memory that was freed is given out again at once on the
  // stream that freed it and on streams ordered behind it, elsewhere once the free has run, and where the device is
  // full behind a wait for it. During capture of `stream` the memory belongs to the graph. Pooled memory that is freed
  // goes back to the device at synchronizations and by pool_trim(), in whole segments.
  PoolId default_pool(int device) const { return static_cast<PoolId>(device) + 1; }
  Code pool_create(int device, PoolId& out);
  Code pool_destroy(PoolId pool);  // what is still allocated from it stays valid until it is freed
  Code malloc_async(PoolId pool, std::uint64_t bytes, StreamId stream, std::uint64_t& out);
  Code free_async(std::uint64_t address, int device, StreamId stream);  // plain memory as well: waits as free() does
  Code pool_trim(PoolId pool, std::uint64_t keep_bytes);
  Code pool_stats(PoolId pool, PoolStats& out);
  Code pool_set_release_threshold(PoolId pool, std::uint64_t bytes);
  Code pool_reset_high(PoolId pool, bool reserved, bool used);

  // Streams made here do not synchronize with the legacy one, unless the flags say so. A destroyed stream's queued work
  // still runs.
  Code stream_create(int device, StreamId& out, const StreamFlags& flags = {});
  Code stream_destroy(int device, StreamId stream);
  Code stream_synchronize(int device, StreamId stream);
  Code stream_query(int device, StreamId stream);  // success, not_ready, or an error
  Code stream_wait(int device, StreamId stream, EventId event, bool external = false);
  Code is_capturing(int device, StreamId stream, bool& capturing);
  Code synchronize(int device);  // with everything queued on the device

  // `external`: on a capturing stream, a node that records (waits for) the event each time the graph runs.
  Code event_create(int device, EventId& out, const EventFlags& flags = {});
  Code event_destroy(EventId event);
  Code event_record(int device, EventId event, StreamId stream, bool external = false);
  Code event_record_all(int device, EventId event);  // after all that is queued on the device now
  Code event_query(EventId event);                   // success, not_ready, or an error; success if never recorded
  // Waits on the virtual clock, at most `timeout_ns`: success or not_ready, or an error.
  Code event_wait(EventId event, std::uint64_t timeout_ns);
  Code event_synchronize(EventId event);  // without end
  // Virtual nanoseconds from one to the other, negative where `to` was earlier. invalid_handle where one has no timing
  // or was never recorded, not_ready where one is not done.
  Code event_elapsed(EventId from, EventId to, std::int64_t& ns);

  Code launch(int device, StreamId stream, Work work);
  // Both sides the machine's memory, and accessible from the device.
  Code copy(int device, std::uint64_t to, std::uint64_t from, std::uint64_t bytes, StreamId stream);
  Code fill(int device, std::uint64_t to, std::uint8_t value, std::uint64_t bytes, StreamId stream);
  // As cudaMemcpy and its kin: a side may be any memory of the process. Plain, pooled and host memory is accepted
  // whatever device it belongs to. From pageable memory the bytes are taken at the call; to pageable memory, and from
  // pageable to pageable, the call returns when the copy has run. A synchronous call waits as well, except for copies
  // within device memory. During capture pageable memory is read and written when the graph runs.
  Code copy(int device, const Transfer& transfer, StreamId stream, CopyCall call);
  Code fill(int device, const Fill& fill, StreamId stream);
  Code launch_host(int device, StreamId stream, HostFunction function);

  Code begin_capture(int device, StreamId stream, CaptureMode mode);
  // capture_invalidated where an illegal call spoiled it, capture_unjoined where a stream that joined was not joined
  // back: the capture is over all the same, and there is no graph.
  Code end_capture(int device, StreamId stream, GraphId& out);
  Code end_capture(int device, StreamId stream);  // and the graph is destroyed
  // Never spoils a capture. capture_implicit for the legacy stream while a blocking one captures.
  Code capture_info(int device, StreamId stream, CaptureInfo& out);
  // What the stream's next node waits for; `add`: besides what it waits for already. Nodes must be of this capture.
  Code update_capture_dependencies(int device, StreamId stream, const std::vector<NodeId>& nodes, bool add);

  // Graphs and executable graphs are destroyed in any order, and while launches are queued.
  Code graph_create(GraphId& out);
  Code graph_destroy(GraphId graph);
  // To a graph that exists or is being captured. `node.after` and `node.id` are ignored for `after`.
  Code graph_add(GraphId graph, const std::vector<NodeId>& after, Node node, NodeId& out);
  Code graph_nodes(GraphId graph, std::vector<NodeId>& out);
  Code graph_node(NodeId node, NodeKind& kind, std::vector<NodeId>& after);  // of a graph that exists
  Code graph_instantiate(GraphId graph, GraphExecId& out);
  Code graph_exec_destroy(GraphExecId exec);
  Code graph_launch(int device, GraphExecId exec, StreamId stream);  // into a capture: its nodes are added

  Code ipc_export(std::uint64_t address, IpcMemory& out);  // the whole plain allocation that holds the address
  // The base of the allocation. A handle opened again gives the same address, to be closed once more. invalid_context
  // for memory of this process.
  Code ipc_import(int device, const IpcMemory& memory, std::uint64_t& out);
  Code ipc_close(std::uint64_t base);               // waits for the devices first
  Code export_handle(HandleId handle, int& file);   // the caller closes it; it keeps the memory alive
  Code import_handle(int file, HandleId& out);      // the file stays the caller's; another handle of the same memory
  Code event_export(EventId event, IpcEvent& out);  // of an interprocess event
  Code event_import(int device, const IpcEvent& event, EventId& out);

  // The rest is not the driver's, or costs it nothing: it steers and looks, takes no virtual time, cannot be made to
  // fail, and is allowed inside host functions and captures.

  // False, and kind `none`, where the address is not in memory of the machine.
  bool find_pointer(std::uint64_t address, PointerInfo& out);
  // Whether [address, address + bytes) is all memory of the machine that the device may use.
  bool accessible(int device, std::uint64_t address, std::uint64_t bytes);
  bool stream_info(int device, StreamId stream, StreamInfo& out);  // `device`: for the three named ones
  int stream_device(StreamId stream);                              // -1 where it is one of those, or none
  int event_device(EventId event);                                 // -1 where there is no such event

  std::uint64_t now_ns() const { return now_ns_.load(std::memory_order_relaxed); }
  void advance(std::uint64_t ns);

  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  void set_mode(Mode mode);
  void set_poison(Poison poison);  // of memory that is fresh from now on

  // The handle of a stream, usable from any thread: for per_thread_stream that of the calling thread's.
  StreamId resolve(int device, StreamId stream);

  // While held, nothing on the stream runs. False where there is no such stream.
  bool hold(int device, StreamId stream);
  bool resume(int device, StreamId stream);
  // Holds the `number`-th stream (from 1) that will be made on the device, from its creation on.
  void hold_when_created(int device, std::uint64_t number);

  // May be below what is in use: then nothing can be created until enough is released.
  void set_capacity(int device, std::uint64_t bytes);
  void set_host_capacity(std::uint64_t bytes);
  // Bytes of the device that something outside the program holds.
  void set_foreign_use(int device, std::uint64_t bytes);
  std::uint64_t used_bytes(int device);
  std::uint64_t peak_used_bytes(int device);  // since the last reset_counters()
  std::uint64_t host_used_bytes();
  std::size_t mapping_count();

  void fail(Call call, std::uint64_t after, std::uint64_t times, Code code);
  void clear_failures();
  std::uint64_t pending_failures();

  std::uint64_t launches(std::string_view name_part);  // of kernels whose name contains it
  std::uint64_t calls(Call call);
  void reset_counters();

  // The first 1,000 since the last clear, and how many there were in all.
  std::vector<Fault> faults();
  std::uint64_t fault_count();
  void clear_faults();

 private:
  // The lock, for one call from outside. At its end host functions that came due run on this thread, without it.
  class Turn;

  // One recording of an event.
  struct Record {
    std::shared_ptr<Operation> operation;  // null: done, at `end_ns`
    std::uint64_t end_ns = 0;
    VectorClock clock;
    std::shared_ptr<Capture> capture;  // set where it was recorded into a graph: then there is no operation
    std::vector<std::uint32_t> nodes;  // of the graph: what it was recorded behind

    bool done() const { return operation == nullptr || operation->done; }
    std::uint64_t done_ns() const { return operation == nullptr ? end_ns : operation->end_ns; }
  };
  struct Event {
    int device = 0;
    EventFlags flags;
    std::shared_ptr<Record> record;  // the latest; null before the first
  };
  struct Access {
    std::vector<Piece> pieces;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool write = false;
  };
  // Where queued work came to stand: what later work and events go by. Nothing: done.
  using Placed = std::shared_ptr<Operation>;
  struct Waitable {
    Placed operation;
    VectorClock clock;  // what the host knows once it is done
  };

  // All below expect the lock to be held.
  bool usable() const;  // false in a forked child
  void spend(std::uint64_t ns);
  void move_to(std::uint64_t ns);
  void learn(const VectorClock& clock);
  void inform(Queue& queue);  // of what the host knows
  bool is_device(int device) const { return device >= 0 && device < config_.devices; }
  Queue* find_queue(int device, StreamId stream);
  Queue& make_queue(int device, Role role);
  Event* find_event(EventId event);
  void report(FaultKind kind, std::uint64_t address, std::uint64_t bytes, std::string text);

  // Waiting gives the lock away while a host function runs: what was looked up before must be looked up again.
  bool wait_for(Turn& turn, const Operation& operation, std::uint64_t deadline_ns);
  Code wait_endless(Turn& turn, const std::vector<Waitable>& all, const char* what);
  Code wait_for_device(Turn& turn, int device, const char* what);
  Code wait_for_all_devices(Turn& turn, const char* what);
  void collect_device(int device, std::vector<Waitable>& out) const;
  void drain(std::unique_lock<std::mutex>& lock);
  void run_host(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Operation> enqueue_marker(Queue& queue, std::vector<std::shared_ptr<Operation>> after = {});
  std::shared_ptr<Record> new_record(Queue& queue);
  Code record_state(const Event& event) const;
  // The two ways of work: into the graph that the queue captures, or behind what is queued.
  Code submit(Queue& queue, NodeKind kind, Work&& work, Code unmapped);
  Code enqueue_work(Queue& queue, Work work, Code unmapped, std::vector<std::shared_ptr<Operation>> after = {});
  void enqueue_host(Queue& queue, HostFunction function, std::vector<std::shared_ptr<Operation>> after);
  Code find_pieces(const Queue& queue, const Work& work, std::vector<Access>& out, Code unmapped);
  void note_uses(Queue& queue, const std::vector<Access>& accesses, const std::shared_ptr<const WorkId>& id);
  void run_work(const Work& work, const std::vector<Access>& accesses, const WorkId* id);
  void check_early_unmap(const Mapping& mapping);
  void count_launch(const Work& work);
  struct Sides;
  bool is_pageable(std::uint64_t address) const;
  Sides look_at_sides(const Transfer& transfer) const;

  Code check_unsafe_call();
  Code admit(Queue& queue);  // success, or why nothing may be queued on it now
  bool capturing_on(int device) const;
  bool blocking_capture_on(int device) const;
  void invalidate_on(int device);
  void add_node(Queue& queue, Node node);
  std::shared_ptr<Graph> find_graph(GraphId graph) const;
  Queue& lane_queue(Queue& queue, std::uint32_t lane);
  Code run_node(Queue& queue, const Node& node, std::vector<std::shared_ptr<Operation>> after);
  void launch_into_capture(Queue& queue, const Graph& graph);
  Code run_graph(Queue& queue, const std::shared_ptr<const Graph>& graph);

  Code free_waiting(Turn& turn, std::uint64_t address);
  Code free_host_range(Turn& turn, std::uint64_t base, PointerKind kind, Code none);
  Code free_pooled(std::uint64_t address, StreamPool::Fence fence);
  StreamPool* find_pool(PoolId pool);
  StreamPool* pool_of(std::uint64_t address);
  Code take_pooled(StreamPool& pool, std::uint64_t bytes, Queue& queue, std::uint64_t& out);
  Code take_for_graph(StreamPool& pool, std::uint64_t bytes, Queue& queue, std::uint64_t& out);
  Code grow_pool(StreamPool& pool, std::uint64_t bytes);
  void trim(StreamPool& pool, std::uint64_t keep_bytes);
  void trim_at_synchronization(int device);

  const Config config_;
  const std::uint64_t forks_;  // of the process, when it was made
  mutable std::mutex mutex_;
  std::condition_variable host_returned_;
  std::atomic<std::uint64_t> now_ns_{0};
  std::atomic<Mode> mode_;
  AddressSpace space_;
  Timeline timeline_;
  VectorClock known_;  // what the host knows to be complete
  std::uint64_t known_version_ = 1;
  std::unordered_map<StreamId, Queue*> streams_;
  StreamId next_stream_;
  std::vector<Queue*> left_queues_;                                // of destroyed streams
  std::map<std::pair<int, std::uint64_t>, Queue*> thread_queues_;  // by device and thread number
  std::vector<std::uint64_t> streams_created_;                     // by device
  std::vector<std::pair<int, std::uint64_t>> held_at_birth_;
  std::unordered_map<EventId, Event> events_;
  EventId next_event_ = 1;
  std::vector<std::shared_ptr<Capture>> captures_;  // those going on
  std::unordered_map<GraphId, std::shared_ptr<Graph>> graphs_;
  std::unordered_map<GraphExecId, std::shared_ptr<const Graph>> execs_;
  std::map<PoolId, std::unique_ptr<StreamPool>> pools_;
  PoolId next_pool_ = 0;
  struct Imported {
    std::uint64_t base;
    std::uint64_t opened;
  };
  std::map<std::string, Imported> imported_;  // by the handle's bytes
  Failures failures_;
  std::array<std::uint64_t, call_kinds> calls_{};
  std::vector<std::uint64_t> launches_;  // by kernel
  std::vector<Fault> faults_;
  std::uint64_t fault_count_ = 0;
};

}  // namespace reprieve::simgpu
