// Queued work on the virtual clock: queues that run one operation after the other, each from the moment at which
// everything it waits for is done. Not thread-safe: the machine's lock covers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "simgpu/vector_clock.hpp"

namespace reprieve::simgpu {

struct Capture;

struct Operation {
  std::uint64_t enqueued_ns = 0;
  std::uint64_t duration_ns = 0;
  std::vector<std::shared_ptr<Operation>> after;  // besides what is before it in its queue; emptied when it is done
  std::function<void()> on_done;                  // runs under the machine's lock
  std::function<void()> host;                     // a host function: the operation ends when it has returned

  std::uint64_t sequence = 0;  // in the order of enqueueing, over all queues
  std::uint64_t end_ns = 0;    // set once it has started
  bool started = false;
  bool in_host = false;  // its host function is due or runs; nothing behind it in its queue starts
  bool done = false;
};

enum class Role : std::uint8_t {
  legacy,    // in step with the device's blocking queues
  blocking,  // in step with the device's legacy queue
  free,
};

struct Queue {
  std::uint32_t index = 0;
  int device = 0;
  Role role = Role::free;
  std::uintptr_t stream = 0;  // its handle
  std::uint64_t id = 0;
  int priority = 0;
  bool held = false;
  std::uint64_t not_before_ns = 0;  // its last operation's end, or the end of a hold
  std::deque<std::shared_ptr<Operation>> operations;
  std::shared_ptr<Operation> last;  // the latest enqueued, done or not; null where what followed it is done
  VectorClock clock;                // what is ordered before anything enqueued now
  std::uint64_t known_version = 0;  // of the host's knowledge, as far as `clock` has it
  std::uint64_t uses = 0;           // of memory, so far
  std::shared_ptr<Capture> capture;
  std::vector<std::uint32_t> capture_after;  // nodes that its next one waits for
  std::vector<Queue*> lanes;                 // further queues that graphs launched on it run on
};

class Timeline {
 public:
  Timeline() = default;
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Queue& add_queue(int device, Role role);
  // A queue whose stream is gone, whose operations are done, and all of whose uses the host knows to be complete may
  // serve another stream.
  void reuse(Queue& queue, const VectorClock& known);
  const std::vector<std::unique_ptr<Queue>>& queues() const { return queues_; }

  // Puts the operation behind all others of the queue, and, where the legacy stream asks for it, behind other queues'.
  // Joins the clocks accordingly.
  void enqueue(Queue& queue, const std::shared_ptr<Operation>& operation);

  // Whether an operation put on the queue now could run at once: nothing is queued anywhere.
  bool free_to_run(const Queue& queue) const { return idle() && !queue.held; }
  // As enqueue() and the end of an operation in one, where free_to_run(). Returns its end.
  std::uint64_t pass(Queue& queue, std::uint64_t now_ns, std::uint64_t duration_ns);

  // An operation that only waits for what is in `after` and holds nothing up.
  void enqueue_apart(const std::shared_ptr<Operation>& operation);

  // Completes, in the order of their ends, all operations that end by `now_ns`.
  void run_until(std::uint64_t now_ns);

  // Host functions are not run here. One that is due is handed out once; its operation ends with finish_host().
  bool host_due() const { return !hosts_due_.empty(); }
  std::shared_ptr<Operation> take_host();
  void finish_host(const std::shared_ptr<Operation>& operation, std::uint64_t now_ns);
  std::size_t hosts_running() const { return hosts_running_.size(); }

  // The earliest end of an operation that can run; nothing where none can.
  std::optional<std::uint64_t> next_end_ns();

  // While held nothing of the queue ends; what had begun begins anew after the hold.
  void hold(Queue& queue);
  void resume(Queue& queue, std::uint64_t now_ns);

  bool idle() const { return busy_.empty() && apart_.empty(); }

 private:
  static bool try_start(Operation& operation, std::uint64_t not_before_ns);
  static void finish(Operation& operation);
  template <typename F>
  void for_each_in_step(const Queue& queue, F&& visit) const;

  struct InStep {
    Queue* legacy = nullptr;
    std::vector<Queue*> blocking;
  };
  struct Host {
    Queue* queue;
    std::shared_ptr<Operation> operation;
  };

  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<InStep> in_step_;  // by device
  std::deque<Host> hosts_due_;
  std::vector<Host> hosts_running_;
  std::vector<Queue*> busy_;  // those with operations
  std::vector<std::shared_ptr<Operation>> apart_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace reprieve::simgpu
