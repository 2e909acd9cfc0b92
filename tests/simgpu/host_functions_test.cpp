// Host functions: in stream order, without the machine's lock.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class HostFunctionsTest : public MachineTest {
 protected:
  void host(StreamId stream, HostFunction function) {
    EXPECT_EQ(machine.launch_host(0, stream, std::move(function)), Code::success);
  }
};

// Opened by one thread, waited for by others.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST_F(HostFunctionsTest, RunInStreamOrder) {
  const std::uint64_t at = malloc(64);
  const StreamId stream = this->stream();
  std::vector<int> seen;
  EXPECT_EQ(machine.fill(0, at, 1, 8, stream), Code::success);
  host(stream, [&] { seen.push_back(bytes_at(at)[0]); });
  EXPECT_EQ(machine.fill(0, at, 2, 8, stream), Code::success);
  host(stream, [&] { seen.push_back(bytes_at(at)[0]); });
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success);
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST_F(HostFunctionsTest, TimeThatPassesRunsThem) {
  int ran = 0;
  host(stream(), [&] { ++ran; });
  machine.advance(costs::host_function_ns);
  EXPECT_EQ(ran, 1);
}

TEST_F(HostFunctionsTest, EagerlyTheyRunInTheCall) {
  machine.set_mode(Mode::eager);
  int ran = 0;
  host(stream(), [&] { ++ran; });
  EXPECT_EQ(ran, 1);
}

TEST_F(HostFunctionsTest, CallsInsideThemAreNotPermittedButLookingIs) {
  const std::uint64_t at = malloc(8);
  std::uint64_t out = 0;
  Code codes[4] = {};
  PointerInfo info;
  host(legacy_stream, [&] {
    codes[0] = machine.malloc(0, 8, out);
    codes[1] = machine.launch(0, legacy_stream, {});
    codes[2] = machine.synchronize(0);
    codes[3] = machine.free(at);
    machine.find_pointer(at, info);
    machine.advance(1);
  });
  EXPECT_EQ(machine.synchronize(0), Code::success);
  for (const Code code : codes) EXPECT_EQ(code, Code::not_permitted);
  EXPECT_EQ(info.kind, PointerKind::plain);
  EXPECT_EQ(machine.free(at), Code::success);
}

TEST_F(HostFunctionsTest, OthersUseTheMachineMeanwhile) {
  Gate inside;
  Gate leave;
  const StreamId stream = this->stream();
  host(stream, [&] {
    inside.open();
    leave.wait();
  });
  works(stream, ms);
  const EventId event = recorded(stream);
  std::thread waiter([&] { EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success); });
  inside.wait();
  const std::uint64_t at = malloc(8);
  EXPECT_EQ(machine.fill(0, at, 1, 8, legacy_stream), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, legacy_stream), Code::success);
  machine.advance(100 * ms);
  EXPECT_EQ(machine.event_query(event), Code::not_ready);  // still behind it
  EXPECT_EQ(machine.event_wait(event, ms), Code::not_ready);
  leave.open();
  waiter.join();
  EXPECT_EQ(machine.event_query(event), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(HostFunctionsTest, WhoNeedsItWaitsForReal) {
  Gate inside;
  Gate leave;
  std::atomic<bool> left{false};
  const StreamId stream = this->stream();
  host(stream, [&] {
    inside.open();
    leave.wait();
    left = true;
  });
  const EventId event = recorded(stream);
  std::thread first([&] { EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success); });
  inside.wait();
  std::thread second([&] {
    EXPECT_EQ(machine.event_synchronize(event), Code::success);
    EXPECT_TRUE(left);
  });
  leave.open();
  first.join();
  second.join();
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(HostFunctionsTest, WaitingForAHeldOneIsAFault) {
  const StreamId stream = this->stream();
  bool ran = false;
  machine.hold(0, stream);
  host(stream, [&] { ran = true; });
  EXPECT_EQ(machine.stream_synchronize(0, stream), Code::launch_timeout);
  EXPECT_EQ(faults(), Kinds{FaultKind::endless_wait});
  EXPECT_FALSE(ran);
  machine.resume(0, stream);
  EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success);
  EXPECT_TRUE(ran);
}

TEST_F(HostFunctionsTest, ManyThreadsQueueAndWait) {
  for (const Mode mode : {Mode::lazy, Mode::eager}) {
    machine.set_mode(mode);
    constexpr int thread_count = 6;
    constexpr int rounds = 50;
    std::atomic<int> ran{0};
    std::mutex of_program;  // what a host function may take, such as an interpreter's lock
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
      threads.emplace_back([&] {
        const StreamId mine = this->stream();
        for (int round = 0; round < rounds; ++round) {
          const std::uint64_t pinned = host_alloc(64);
          const std::uint64_t at = malloc_async(64, mine);
          EXPECT_EQ(machine.fill(0, at, 3, 64, mine), Code::success);
          EXPECT_EQ(machine.copy(0, Transfer{pinned, at, 64}, mine, CopyCall::queued), Code::success);
          host(mine, [&, pinned] {
            const std::lock_guard lock(of_program);
            EXPECT_EQ(bytes_at(pinned)[63], 3);
            ++ran;
          });
          EXPECT_EQ(machine.free_async(at, 0, mine), Code::success);
          EXPECT_EQ(machine.stream_synchronize(0, mine), Code::success);
          EXPECT_EQ(machine.host_free(pinned), Code::success);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ran, thread_count * rounds);
  }
  for (const Fault& fault : machine.faults()) ADD_FAILURE() << fault.text;
}

}  // namespace
}  // namespace reprieve::simgpu
