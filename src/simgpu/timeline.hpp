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

  std::uint64_t sequence = 0;  // in the order of enqueueing, over all queues
  std::uint64_t end_ns = 0;    // set once it has started
  bool started = false;
  bool done = false;
};

struct Queue {
  std::uint32_t index = 0;
  int device = 0;
  std::uintptr_t stream = 0;  // its handle
  bool legacy = false;
  bool blocking = false;  // in step with the device's legacy stream
  bool held = false;
  std::uint64_t not_before_ns = 0;  // its last operation's end, or the end of a hold
  std::deque<std::shared_ptr<Operation>> operations;
  std::shared_ptr<Operation> last;  // the latest enqueued, done or not
  VectorClock clock;                // what is ordered before anything enqueued now
  std::uint64_t uses = 0;           // of memory, so far
  std::shared_ptr<Capture> capture;
};

class Timeline {
 public:
  Timeline() = default;
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Queue& add_queue(int device);
  const std::vector<std::unique_ptr<Queue>>& queues() const { return queues_; }

  // Puts the operation behind all others of the queue, and, where the legacy stream asks for it, behind other queues'.
  // Joins the clocks accordingly.
  void enqueue(Queue& queue, const std::shared_ptr<Operation>& operation);

  // An operation that only waits for what is in `after` and holds nothing up.
  void enqueue_apart(const std::shared_ptr<Operation>& operation);

  // Completes, in the order of their ends, all operations that end by `now_ns`.
  void run_until(std::uint64_t now_ns);

  // The earliest end of an operation that can run; nothing where none can.
  std::optional<std::uint64_t> next_end_ns();

  // While held nothing of the queue ends; what had begun begins anew after the hold.
  void hold(Queue& queue);
  void resume(Queue& queue, std::uint64_t now_ns);

  bool idle() const { return busy_.empty() && apart_.empty(); }

 private:
  static bool try_start(Operation& operation, std::uint64_t not_before_ns);
  static void finish(Operation& operation);
  void add_dependency(Operation& operation, Queue& queue, const Queue& other);

  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Queue*> busy_;  // those with operations
  std::vector<std::shared_ptr<Operation>> apart_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace reprieve::simgpu
