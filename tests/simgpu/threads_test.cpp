#include <thread>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

using ThreadsTest = MachineTest;

TEST_F(ThreadsTest, CallsFromManyThreadsAtOnce) {
  constexpr int thread_count = 6;
  constexpr int rounds = 60;
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      const int device = i % 2;
      const StreamId stream = i < 4 ? this->stream(device) : per_thread_stream;
      const EventId end = event(device);
      for (int round = 0; round < rounds; ++round) {
        const auto value = static_cast<std::uint8_t>(1 + i + round);
        const std::uint64_t at = reserve(chunk_bytes);
        const HandleId handle = create(chunk_bytes, round % 3 == 0 ? Location::host : Location::device, device);
        map(at, chunk_bytes, handle, device);
        EXPECT_EQ(machine.fill(device, at, value, 4096, stream), Code::success);
        EXPECT_EQ(machine.copy(device, at + 8192, at, 4096, stream), Code::success);
        EXPECT_EQ(machine.event_record(device, end, stream), Code::success);
        EXPECT_EQ(machine.event_wait(end, 1'000'000'000), Code::success);
        EXPECT_EQ(bytes_at(at)[8192 + 4095], value);
        EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
        EXPECT_EQ(machine.release(handle), Code::success);
        EXPECT_EQ(machine.unreserve(at, chunk_bytes), Code::success);
      }
    });
  }
  for (int i = 0; i < rounds; ++i) {  // the test's own hand on the machine, meanwhile
    machine.advance(1'000);
    machine.set_foreign_use(0, static_cast<std::uint64_t>(i));
    EXPECT_LE(machine.used_bytes(0), 256 * MiB);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(machine.used_bytes(0), 0U);
  EXPECT_EQ(machine.host_used_bytes(), 0U);
  for (const Fault& fault : machine.faults()) ADD_FAILURE() << fault.text;
}

}  // namespace
}  // namespace reprieve::simgpu
