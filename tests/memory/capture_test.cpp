// While a stream captures: nothing is recorded on it, growth works, and what had to be put off is made up for.
#include <thread>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class CaptureTest : public MemoryTest {
 protected:
  Stream s = stream();
  Stream t = stream();
};

TEST_F(CaptureTest, GrowthAndReuse) {
  const PoolId graph = pool(true);
  capture(s);
  void* const first = alloc(s, 16 * MiB, graph);
  free(first);
  EXPECT_EQ(alloc(s, 16 * MiB, graph), first);
  void* const second = alloc(s, 48 * MiB, graph);
  void* const small = alloc(s, 4 * KiB, graph);
  end_capture(s);
  for (void* block : {first, second, small}) free(block);
}

TEST_F(CaptureTest, GrowthInADefaultPool) {
  free(alloc(s, 16 * MiB));
  const std::uint64_t records = calls(device::Call::event_record);
  capture(s);
  void* const block = alloc(s, 48 * MiB);
  EXPECT_EQ(calls(device::Call::event_record), records);
  end_capture(s);
  free(block);
}

TEST_F(CaptureTest, NoHarvestOnTheCapturingStream) {
  allocator->set_limit(64 * MiB);
  std::vector<void*> blocks = alloc_many(s, 4, 16 * MiB);
  free(blocks[0]);
  free(blocks[2]);
  capture(s);
  EXPECT_EQ(alloc_code(s, 32 * MiB), Errc::out_of_memory);
  EXPECT_TRUE(allocator->trim(0).ok());
  allocator->set_limit(32 * MiB);
  end_capture(s);
  EXPECT_EQ(allocator->stats().harvested_bytes, 0);
  EXPECT_EQ(reserved(), 64 * MiB);
  allocator->set_limit(64 * MiB);
  EXPECT_EQ(alloc_code(s, 32 * MiB), Errc::ok);
  free(blocks[1]);
  free(blocks[3]);
}

TEST_F(CaptureTest, DeferredFreesAreFinishedAfterwards) {
  void* const block = alloc(t, 16 * MiB);
  void* const other = alloc(t, 16 * MiB);
  record(block, s);
  const std::uint64_t records = calls(device::Call::event_record);
  capture(s);
  free(block);
  free_on(other, s);
  EXPECT_EQ(calls(device::Call::event_record), records);
  void* const next = alloc(t, 32 * MiB);
  EXPECT_EQ(metric(active_blocks).current, 3);
  EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok());
  EXPECT_EQ(metric(active_blocks).current, 3);
  end_capture(s);
  EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok());
  EXPECT_EQ(metric(active_blocks).current, 1);
  free(next);
}

TEST_F(CaptureTest, AnotherThreadsWorkDoesNotSpoilIt) {
  const PoolId graph = pool(true);
  void* const shared = alloc(t, 16 * MiB);
  record(shared, s);
  capture(s);
  void* const mine = alloc(s, 16 * MiB, graph);
  std::thread([&] {
    allocator->set_limit(128 * MiB);
    free(shared);
    std::vector<void*> blocks = alloc_many(t, 4, 16 * MiB);
    free(blocks[0]);
    free(blocks[2]);
    free(alloc(t, 32 * MiB));
    free(blocks[1]);
    free(blocks[3]);
    EXPECT_TRUE(allocator->trim(0).ok());
  }).join();
  end_capture(s);
  free(mine);
}

// The legacy stream is in step with a blocking one that captures: to record an event on it would spoil the capture.
TEST_F(CaptureTest, NothingIsRecordedOnTheLegacyStreamWhileABlockingOneCaptures) {
  void* const shared = alloc(t, 16 * MiB);
  record(shared, device::legacy_stream);
  free(alloc(device::legacy_stream, 16 * MiB));
  allocator->set_limit(48 * MiB);
  const PoolId graph = pool(true);
  const std::uint64_t records = calls(device::Call::event_record);
  const Stream blocking = device::per_thread_stream;
  ASSERT_EQ(machine.begin_capture(0, id(blocking), simgpu::CaptureMode::global), simgpu::Code::success);
  void* const mine = alloc(blocking, 16 * MiB, graph);
  EXPECT_EQ(alloc_code(blocking, 16 * MiB, graph), Errc::out_of_memory);
  free(shared);
  EXPECT_EQ(calls(device::Call::event_record), records);
  static_cast<void>(machine.end_capture(0, id(blocking)));
  EXPECT_EQ(metric(active_blocks).current, 2);
  EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok());
  EXPECT_EQ(metric(active_blocks).current, 1);
  free(mine);
}

}  // namespace
}  // namespace reprieve::memory
