// Reuse is ordered by streams: which memory may be taken when.
#include <thread>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

constexpr std::uint64_t block_bytes = 8 * MiB;

class StreamsTest : public MemoryTest {
 protected:
  explicit StreamsTest(const Rig& rig = {}) : MemoryTest(rig) {}

  // Makes the allocator look at deferred frees without changing what is held.
  void look() { EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok()); }

  Stream a = stream();
  Stream b = stream();
};

TEST_F(StreamsTest, OnItsOwnStreamAtOnce) {
  void* const block = alloc(a, block_bytes);
  write(a, block, block_bytes, 1, 100 * ms);
  free(block);
  EXPECT_EQ(alloc(a, block_bytes), block);
  write(a, block, block_bytes, 2);
  free(block);
}

TEST_F(StreamsTest, ARecordedBlockWaitsForTheEvent) {
  hold(b);
  void* const block = alloc(a, block_bytes);
  record(block, b);
  record(block, b);  // once more changes nothing
  record(block, a);  // its own stream neither
  write(b, block, block_bytes, 1);
  free(block);
  EXPECT_EQ(metric(allocated_bytes).current, 0);
  EXPECT_EQ(metric(active_bytes).current, static_cast<std::int64_t>(block_bytes));
  EXPECT_EQ(metric(active_blocks).current, 1);

  void* const other = alloc(a, block_bytes);
  EXPECT_NE(other, block);
  write(a, other, block_bytes, 2);
  look();
  EXPECT_EQ(metric(active_blocks).current, 2);

  resume(b);
  synchronize();
  look();
  EXPECT_EQ(metric(active_blocks).current, 1);
  EXPECT_EQ(alloc(a, block_bytes), block);
  write(a, block, block_bytes, 3);
  free(block);
  free(other);
}

TEST_F(StreamsTest, WorkQueuedAfterTheFreeIsNotWaitedFor) {
  void* const block = alloc(a, block_bytes);
  record(block, b);
  free(block);
  hold(b);
  void* const own = alloc(b, block_bytes);
  write(b, own, block_bytes, 1);
  EXPECT_EQ(alloc(a, block_bytes), block);
  free(block);
  free(own);
  resume(b);
}

TEST_F(StreamsTest, FreedOnAnotherStream) {
  hold(b);
  void* const block = alloc(a, block_bytes);
  write(b, block, block_bytes, 1);
  free_on(block, b);
  void* const other = alloc(a, block_bytes);
  EXPECT_NE(other, block);
  write(a, other, block_bytes, 2);
  resume(b);
  synchronize();
  look();
  EXPECT_EQ(metric(active_blocks).current, 1);
  EXPECT_EQ(alloc(a, block_bytes), block);
  write(a, block, block_bytes, 3);
  free_on(block, a);  // its own: at once
  EXPECT_EQ(alloc(a, block_bytes), block);
  free(block);
  free(other);
}

TEST_F(StreamsTest, SeveralStreamsAreAllWaitedFor) {
  const Stream c = stream();
  hold(b);
  hold(c);
  void* const block = alloc(a, block_bytes);
  record(block, b);
  write(b, block, MiB, 1);
  write(c, static_cast<char*>(block) + MiB, MiB, 1);
  free_on(block, c);
  resume(b);
  EXPECT_TRUE(opened->stream_synchronize(b).ok());
  look();
  EXPECT_EQ(metric(active_blocks).current, 1);
  resume(c);
  synchronize();
  look();
  EXPECT_EQ(metric(active_blocks).current, 0);
}

TEST_F(StreamsTest, AnotherStreamsMemoryOnlyOnceItHasFinished) {
  allocator->set_limit(64 * MiB);
  void* const first = alloc(a, 64 * MiB);
  hold(a);
  write(a, first, 64 * MiB, 1);
  free(first);
  EXPECT_EQ(alloc_code(b, 64 * MiB), Errc::out_of_memory);
  EXPECT_EQ(allocator->stats().ooms, 1);
  resume(a);
  synchronize();
  void* const second = alloc(b, 64 * MiB);
  write(b, second, 64 * MiB, 2);
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_GT(allocator->stats().alloc_retries, 0);
  free(second);
}

TEST_F(StreamsTest, WaitsForAnotherStreamsMemoryWhereItWouldFail) {
  allocator->set_limit(64 * MiB);
  void* const first = alloc(a, 64 * MiB);
  write(a, first, 64 * MiB, 1, 100 * ms);
  free(first);
  void* const second = alloc(b, 64 * MiB);
  write(b, second, 64 * MiB, 2);
  EXPECT_GE(machine.now_ns(), 100 * ms);
  EXPECT_EQ(allocator->stats().alloc_retries, 1);
  free(second);
}

TEST_F(StreamsTest, WaitsForDeferredFreesWhereItWouldFail) {
  allocator->set_limit(64 * MiB);
  void* const first = alloc(a, 64 * MiB);
  record(first, b);
  write(b, first, 64 * MiB, 1, 100 * ms);
  free(first);
  void* const second = alloc(a, 64 * MiB);
  write(a, second, 64 * MiB, 2);
  EXPECT_GE(machine.now_ns(), 100 * ms);
  free(second);
}

TEST_F(StreamsTest, LegacyHasTwoNames) {
  void* const block = alloc(Stream{0}, block_bytes);
  free(block);
  EXPECT_EQ(alloc(Stream{1}, block_bytes), block);
  free_on(block, Stream{0});
  EXPECT_EQ(alloc(Stream{0}, block_bytes), block);
  record(block, Stream{1});
  free_on(block, Stream{1});
  EXPECT_EQ(alloc(Stream{1}, block_bytes), block);
  free(block);
  EXPECT_EQ(reserved(), block_bytes);
}

TEST_F(StreamsTest, ThePerThreadStreamIsAnotherInEachThread) {
  void* const here = alloc(device::per_thread_stream, block_bytes);
  write(device::per_thread_stream, here, block_bytes, 1);
  free(here);
  EXPECT_EQ(alloc(device::per_thread_stream, block_bytes), here);
  free(here);
  EXPECT_TRUE(machine.hold(0, id(device::per_thread_stream)));
  void* const held = alloc(device::per_thread_stream, block_bytes);
  write(device::per_thread_stream, held, block_bytes, 2);
  free(held);
  std::thread([&] {
    void* const there = alloc(device::per_thread_stream, block_bytes);
    EXPECT_NE(there, held);
    write(device::per_thread_stream, there, block_bytes, 3);
    free(there);
  }).join();
  EXPECT_TRUE(machine.resume(0, id(device::per_thread_stream)));
}

TEST_F(StreamsTest, AThreadsOwnStreamIsWaitedForByAnotherThread) {
  void* block = nullptr;
  simgpu::StreamId theirs = 0;
  std::thread([&] {
    block = alloc(a, block_bytes);
    theirs = machine.resolve(0, id(device::per_thread_stream));
    EXPECT_TRUE(machine.hold(0, theirs));
    write(device::per_thread_stream, block, block_bytes, 1);
    record(block, device::per_thread_stream);
  }).join();
  free(block);
  void* const other = alloc(a, block_bytes);
  EXPECT_NE(other, block);
  EXPECT_TRUE(machine.resume(0, theirs));
  synchronize();
  look();
  EXPECT_EQ(metric(active_blocks).current, 1);
  EXPECT_EQ(alloc(a, block_bytes), block);
  write(a, block, block_bytes, 2);
  free(block);
  free(other);
}

TEST_F(StreamsTest, ADestroyedStream) {
  const Stream gone = stream();
  void* const block = alloc(gone, block_bytes);
  void* const shared = alloc(a, block_bytes);
  record(shared, gone);
  write(gone, block, block_bytes, 1, 50 * ms);
  write(gone, shared, block_bytes, 1, 50 * ms);
  EXPECT_TRUE(opened->stream_destroy(gone).ok());
  free(block);
  free(shared);
  EXPECT_EQ(metric(active_blocks).current, 1);
  machine.advance(200 * ms);
  look();
  EXPECT_EQ(metric(active_blocks).current, 0);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

class ForgottenStreamTest : public StreamsTest {
 protected:
  // No call may name the stream to the driver from now on: it would be refused.
  void destroy(Stream gone) {
    EXPECT_TRUE(allocator->forget_stream(gone).ok());
    EXPECT_TRUE(opened->stream_destroy(gone).ok());
  }
};

TEST_F(ForgottenStreamTest, ItsWorkIsWaitedForAndItsMemoryServesOthers) {
  allocator->set_limit(32 * MiB);
  std::vector<void*> blocks = alloc_many(b, 2, 16 * MiB);
  write(b, blocks[0], 16 * MiB, 1, 50 * ms);
  write(b, blocks[1], 16 * MiB, 2, 50 * ms);
  free(blocks[0]);
  destroy(b);
  EXPECT_GE(machine.now_ns(), 100 * ms);
  void* const mine = alloc(a, 16 * MiB);
  write(a, mine, 16 * MiB, 3);
  check(a, blocks[1], 16 * MiB, 2);  // what lives there, lives
  synchronize();
  EXPECT_EQ(checks_passed, 1);
  expect_consistent();
  free(blocks[1]);
  free(mine);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(ForgottenStreamTest, BlocksThatNamedItAreFreedWithoutIt) {
  void* const block = alloc(a, block_bytes);
  record(block, b);
  write(b, block, block_bytes, 1, 50 * ms);
  destroy(b);
  free(block);
  look();
  EXPECT_EQ(metric(active_blocks).current, 0);
  EXPECT_EQ(alloc(a, block_bytes), block);
  free(block);
}

TEST_F(ForgottenStreamTest, ABlockOfItUsedElsewhereWaitsForThat) {
  void* const block = alloc(b, block_bytes);
  record(block, a);
  destroy(b);
  hold(a);
  write(a, block, block_bytes, 1);
  free(block);
  look();
  EXPECT_EQ(metric(active_blocks).current, 1);
  resume(a);
  synchronize();
  look();
  EXPECT_EQ(metric(active_blocks).current, 0);
}

TEST_F(ForgottenStreamTest, AHandleThatIsUsedAgainIsAnotherStream) {
  void* const block = alloc(b, block_bytes);
  write(b, block, block_bytes, 1);
  free(block);
  EXPECT_TRUE(allocator->forget_stream(b).ok());
  // A new stream of the same handle.
  void* const next = alloc(b, block_bytes);
  write(b, next, block_bytes, 2, 50 * ms);
  free(next);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_GE(machine.now_ns(), 50 * ms);
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(ForgottenStreamTest, AnUnknownStreamIsAnError) {
  EXPECT_EQ(allocator->forget_stream(Stream{0x99}).code, Errc::invalid_argument);
}

// Drivers before CUDA 12.5.
class OlderDriverTest : public StreamsTest {
 protected:
  OlderDriverTest() : StreamsTest({Settings{}, {1, 4 * GiB, 4 * GiB, false, false}}) {}
};

TEST_F(OlderDriverTest, OwnPerThreadStreamWorks) {
  void* const block = alloc(device::per_thread_stream, block_bytes);
  write(device::per_thread_stream, block, block_bytes, 1);
  free_on(block, device::per_thread_stream);
  EXPECT_EQ(alloc(device::per_thread_stream, block_bytes), block);
  free(block);
}

TEST_F(OlderDriverTest, RecordingAPerThreadStreamIsRefused) {
  void* const block = alloc(a, block_bytes);
  EXPECT_EQ(Allocator::record_stream(addresses, block, device::per_thread_stream).code, Errc::not_supported);
  free(block);
  EXPECT_EQ(alloc(a, block_bytes), block);  // no trace of it
  free(block);
}

TEST_F(OlderDriverTest, FreeingOnTheCallersPerThreadStreamIsWaitedFor) {
  EXPECT_TRUE(machine.hold(0, id(device::per_thread_stream)));
  void* const block = alloc(a, block_bytes);
  write(device::per_thread_stream, block, block_bytes, 1);
  free_on(block, device::per_thread_stream);
  void* const other = alloc(a, block_bytes);
  EXPECT_NE(other, block);
  free(other);
  EXPECT_TRUE(machine.resume(0, id(device::per_thread_stream)));
}

}  // namespace
}  // namespace reprieve::memory
