// Memory in stream order.
#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class PoolTest : public MachineTest {
 protected:
  void free(std::uint64_t address, StreamId stream) {
    EXPECT_EQ(machine.free_async(address, 0, stream), Code::success);
  }
  PoolStats stats() {
    PoolStats out;
    EXPECT_EQ(machine.pool_stats(pool, out), Code::success);
    return out;
  }

  PoolId pool = machine.default_pool(0);
  StreamId first = stream();
  StreamId second = stream();
};

TEST_F(PoolTest, SegmentsAreCutIntoBlocks) {
  const std::uint64_t a = malloc_async(100, first);
  const std::uint64_t b = malloc_async(1000, first);
  EXPECT_EQ(b, a + 512);
  EXPECT_EQ(machine.used_bytes(0), 32 * MiB);
  EXPECT_EQ(stats().used_bytes, 100U + 1000U);
  EXPECT_EQ(stats().reserved_bytes, 32 * MiB);
  PointerInfo info;
  EXPECT_TRUE(machine.find_pointer(b + 999, info));
  EXPECT_EQ(info.kind, PointerKind::pooled);
  EXPECT_EQ(info.base, b);
  EXPECT_EQ(info.bytes, 1000U);
  free(b, first);
  EXPECT_FALSE(machine.find_pointer(b, info));
  EXPECT_EQ(machine.free_async(b, 0, first), Code::invalid_value);
  EXPECT_EQ(machine.free_async(a + 1, 0, first), Code::invalid_value);
  EXPECT_EQ(stats().used_bytes, 100U);
  EXPECT_EQ(stats().used_high_bytes, 1100U);
}

TEST_F(PoolTest, TheFreeingStreamReusesAtOnce) {
  const std::uint64_t a = malloc_async(100, first);
  writes(first, a, 100, 10 * ms);
  free(a, first);
  EXPECT_EQ(malloc_async(100, first), a);
  writes(first, a, 100);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(PoolTest, OthersReuseWhenTheyAreBehindIt) {
  const std::uint64_t a = malloc_async(30 * MiB, first);
  works(first, 10 * ms);
  free(a, first);
  const std::uint64_t apart = malloc_async(30 * MiB, second);
  EXPECT_NE(apart, a);
  EXPECT_EQ(machine.stream_wait(0, second, recorded(first)), Code::success);
  EXPECT_EQ(malloc_async(30 * MiB, second), a);
  writes(second, a, 100);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(PoolTest, OthersReuseWhatHasRun) {
  const std::uint64_t a = malloc_async(30 * MiB, first);
  writes(first, a, 100, 10 * ms);
  free(a, first);
  machine.advance(20 * ms);
  EXPECT_EQ(malloc_async(30 * MiB, second), a);
  writes(second, a, 100);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(PoolTest, AFullDeviceMakesTheStreamWait) {
  const std::uint64_t a = malloc_async(200 * MiB, first);
  writes(first, a, 100, 10 * ms);
  free(a, first);
  const std::uint64_t b = malloc_async(100 * MiB, second);
  EXPECT_EQ(b, a);
  writes(second, b, 100);
  EXPECT_EQ(machine.stream_query(0, second), Code::not_ready);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.stream_synchronize(0, second), Code::success);
  EXPECT_GE(machine.now_ns() - before, 9 * ms);
  EXPECT_EQ(faults(), Kinds{});
  std::uint64_t out = 0;
  EXPECT_EQ(machine.malloc_async(pool, 300 * MiB, first, out), Code::out_of_memory);
}

TEST_F(PoolTest, ASynchronizationGivesBackWhatIsAboveTheThreshold) {
  EXPECT_EQ(machine.pool_set_release_threshold(pool, ~std::uint64_t{0}), Code::success);
  const std::uint64_t a = malloc_async(100, first);
  free(a, first);
  EXPECT_EQ(machine.stream_synchronize(0, first), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 32 * MiB);
  EXPECT_EQ(machine.pool_set_release_threshold(pool, 0), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, first), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  EXPECT_EQ(stats().reserved_high_bytes, 32 * MiB);
  EXPECT_EQ(machine.pool_reset_high(pool, true, true), Code::success);
  EXPECT_EQ(stats().reserved_high_bytes, 0U);
}

TEST_F(PoolTest, ATrimLeavesWhatIsInUseOrStillToBeFreed) {
  const std::uint64_t a = malloc_async(100, first);
  const std::uint64_t b = malloc_async(40 * MiB, first);
  works(first, 10 * ms);
  free(b, first);
  EXPECT_EQ(machine.pool_trim(pool, 0), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 96 * MiB);
  machine.advance(20 * ms);
  EXPECT_EQ(machine.pool_trim(pool, 0), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 32 * MiB);
  free(a, first);
}

TEST_F(PoolTest, FreesCrossTheTwoKinds) {
  const std::uint64_t pooled = malloc_async(100, first);
  writes(first, pooled, 100, 10 * ms);
  EXPECT_EQ(machine.free(pooled), Code::success);
  const std::uint64_t plain = malloc(100);
  writes(first, plain, 100, 10 * ms);
  EXPECT_EQ(machine.free_async(plain, 0, second), Code::success);
  EXPECT_EQ(stats().used_bytes, 0U);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(PoolTest, APoolOfOnesOwn) {
  PoolId own = 0;
  EXPECT_EQ(machine.pool_create(0, own), Code::success);
  std::uint64_t at = 0;
  EXPECT_EQ(machine.malloc_async(own, 100, first, at), Code::success);
  EXPECT_EQ(stats().used_bytes, 0U);
  EXPECT_EQ(machine.pool_destroy(own), Code::success);
  EXPECT_EQ(machine.pool_destroy(own), Code::invalid_value);
  EXPECT_EQ(machine.pool_destroy(pool), Code::invalid_value);
  writes(first, at, 100);
  free(at, first);
  EXPECT_EQ(machine.stream_synchronize(0, first), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  EXPECT_EQ(faults(), Kinds{});
}

}  // namespace
}  // namespace reprieve::simgpu
