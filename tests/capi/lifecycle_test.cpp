// Start and end of the library, devices apart, memory held, statistics.
#include <cstdlib>

#include "capi_test.hpp"

namespace {

class LifecycleTest : public CapiTest {};

TEST_F(LifecycleTest, TheFirstCallThatNeedsADeviceStarts) {
  EXPECT_EQ(reprieve_is_started(), 0);
  static_cast<void>(reprieve_version());
  EXPECT_EQ(reprieve_dealloc(nullptr), REPRIEVE_OK);
  EXPECT_EQ(reprieve_is_started(), 0);
  free(alloc(KiB));
  EXPECT_EQ(reprieve_is_started(), 1);
  EXPECT_EQ(reprieve_init(), REPRIEVE_OK);
  EXPECT_EQ(reprieve_init(), REPRIEVE_OK);
}

TEST_F(LifecycleTest, ShutdownWithLiveBlocksIsRefused) {
  void* const first = alloc(KiB);
  void* const second = alloc(KiB, 1);
  expect_invalid(reprieve_shutdown(), "2 blocks are live; free them first");
  EXPECT_EQ(reprieve_is_started(), 1);
  free(first);
  free(second);
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
  EXPECT_EQ(reprieve_is_started(), 0);
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
}

TEST_F(LifecycleTest, ShutdownForgetsOptionsAndMemory) {
  set("sim_devices", "3");
  free(alloc(16 * MiB));
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
  set("device", "sim");
  int count = 0;
  EXPECT_EQ(reprieve_device_count(&count), REPRIEVE_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(stats().reserved_bytes.allocated, 0);
}

TEST_F(LifecycleTest, OptionsAreSetBeforeTheStart) {
  set("limit", "64MiB");
  set("limit", "128MiB");  // the last one counts
  size_t limit = 0;
  EXPECT_EQ(reprieve_get_limit(0, &limit), REPRIEVE_OK);
  EXPECT_EQ(limit, 128 * MiB);
  expect_invalid(reprieve_set_option("limit", "64MiB"), "limit: options are set before the library starts");
}

class EnvironmentTest : public CapiTest {
 protected:
  void TearDown() override {
    unsetenv("REPRIEVE_LIMIT");
    CapiTest::TearDown();
  }
};

TEST_F(EnvironmentTest, IsReadAtTheStartAndAnExplicitValueWins) {
  setenv("REPRIEVE_LIMIT", "25%", 1);
  size_t limit = 0;
  EXPECT_EQ(reprieve_get_limit(0, &limit), REPRIEVE_OK);
  EXPECT_EQ(limit, 256 * MiB);
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
  CapiTest::SetUp();
  set("limit", "64MiB");
  EXPECT_EQ(reprieve_get_limit(0, &limit), REPRIEVE_OK);
  EXPECT_EQ(limit, 64 * MiB);
}

TEST_F(EnvironmentTest, ABadValueRefusesTheStartAndMayBeMended) {
  setenv("REPRIEVE_LIMIT", "much", 1);
  expect_invalid(reprieve_init(),
                 "REPRIEVE_LIMIT: 'much' is not accepted: 0, or a size such as 24GiB or 512MiB from 32.00 MiB, or a "
                 "part of the device such as 0.8 or 80%");
  EXPECT_EQ(reprieve_is_started(), 0);
  unsetenv("REPRIEVE_LIMIT");
  EXPECT_EQ(reprieve_init(), REPRIEVE_OK) << last_error();
}

TEST_F(LifecycleTest, DevicesAreApart) {
  EXPECT_EQ(reprieve_set_limit(1, 32 * MiB), REPRIEVE_OK);
  void* const here = alloc(64 * MiB, 0);
  void* out = nullptr;
  EXPECT_EQ(reprieve_alloc(&out, 64 * MiB, 1, nullptr), REPRIEVE_ERROR_OUT_OF_MEMORY);
  void* const there = alloc(16 * MiB, 1);
  EXPECT_EQ(stats(0).reserved_bytes.current, 64 << 20);
  EXPECT_EQ(stats(1).reserved_bytes.current, 16 << 20);
  EXPECT_EQ(stats(0).ooms, 0);
  size_t limit = 1;
  EXPECT_EQ(reprieve_get_limit(0, &limit), REPRIEVE_OK);
  EXPECT_EQ(limit, 0U);
  free(here);
  free(there);
  EXPECT_EQ(reprieve_empty_cache(1), REPRIEVE_OK);
  EXPECT_EQ(stats(0).reserved_bytes.current, 64 << 20);
  EXPECT_EQ(stats(1).reserved_bytes.current, 0);
  EXPECT_EQ(reprieve_trim(-1, 32 * MiB), REPRIEVE_OK);
  EXPECT_LE(stats(0).reserved_bytes.current, 32 << 20);
  EXPECT_EQ(reprieve_empty_cache(-1), REPRIEVE_OK);
  EXPECT_EQ(stats(0).reserved_bytes.current, 0);
  EXPECT_EQ(reprieve_set_limit(-1, 48 * MiB), REPRIEVE_OK);
  for (const int device : {0, 1}) {
    EXPECT_EQ(reprieve_get_limit(device, &limit), REPRIEVE_OK);
    EXPECT_EQ(limit, 48 * MiB);
  }
}

TEST_F(LifecycleTest, WithoutALimitTheHeadroomIsLeftFree) {
  void* out = nullptr;
  EXPECT_EQ(reprieve_alloc(&out, 961 * MiB, 0, nullptr), REPRIEVE_ERROR_OUT_OF_MEMORY);
  free(alloc(960 * MiB));  // a sixteenth of so small a card
}

TEST_F(LifecycleTest, StreamsAndTheirMemory) {
  const reprieve_stream a = stream();
  const reprieve_stream b = stream();
  EXPECT_NE(a, b);
  void* const block = alloc(8 * MiB, 0, a);
  EXPECT_EQ(reprieve_record_stream(block, b), REPRIEVE_OK);
  EXPECT_EQ(reprieve_dealloc_on(block, b), REPRIEVE_OK);
  EXPECT_EQ(reprieve_stream_synchronize(0, b), REPRIEVE_OK);
  EXPECT_EQ(alloc(8 * MiB, 0, a), block);
  free(block);
  EXPECT_EQ(reprieve_stream_destroy(0, a), REPRIEVE_OK);
  EXPECT_EQ(reprieve_stream_destroy(0, a), REPRIEVE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find(": CUDA_ERROR_INVALID_HANDLE: "), std::string::npos) << last_error();
  EXPECT_EQ(reprieve_last_driver_error(), 400);
  EXPECT_EQ(reprieve_stream_destroy(0, b), REPRIEVE_OK);
}

TEST_F(LifecycleTest, Statistics) {
  void* const block = alloc(1'000);
  free(alloc(5 * MiB));
  reprieve_stats now = stats();
  EXPECT_EQ(now.size, sizeof now);
  EXPECT_EQ(now.requested_bytes.current, 1'000);
  EXPECT_EQ(now.allocated_bytes.current, 1'024);
  EXPECT_EQ(now.active_bytes.current, 1'024);
  EXPECT_EQ(now.active_blocks.current, 1);
  EXPECT_EQ(now.requested_bytes.peak, 1'000 + (5 << 20));
  EXPECT_EQ(now.allocations.allocated, 2);
  EXPECT_EQ(now.allocations.freed, 1);
  EXPECT_EQ(now.segments.current, 2);
  EXPECT_EQ(now.inactive_split_blocks.current, 1);
  EXPECT_EQ(now.inactive_split_bytes.current, (2 << 20) - 1'024);
  EXPECT_EQ(now.reserved_bytes.current, 8 << 20);
  EXPECT_EQ(now.small.requested_bytes.current, 1'000);
  EXPECT_EQ(now.small.requested_bytes.peak, 1'000);
  EXPECT_EQ(now.small.inactive_split_bytes.current, (2 << 20) - 1'024);
  EXPECT_EQ(now.small.reserved_bytes.current, 2 << 20);
  EXPECT_EQ(now.small.segments.current, 1);
  EXPECT_EQ(now.large.allocated_bytes.current, 0);
  EXPECT_EQ(now.large.allocated_bytes.peak, 5 << 20);
  EXPECT_EQ(now.large.active_blocks.freed, 1);
  EXPECT_EQ(now.large.inactive_split_blocks.current, 0);
  EXPECT_EQ(now.large.reserved_bytes.current, 6 << 20);
  EXPECT_EQ(now.large.segments.current, 1);
  EXPECT_GT(now.address_space_bytes, 0);
  EXPECT_GT(now.driver_ns, 0);
  EXPECT_GT(now.driver_wall_ns, 0);
  for (int kind = 0; kind < REPRIEVE_CALL_KINDS; ++kind) {
    const std::string name = reprieve_call_name(kind);
    EXPECT_TRUE((name != "create" && name != "map") || now.driver_calls[kind] == 2) << name;
  }
  EXPECT_EQ(reprieve_reset_peak_stats(0), REPRIEVE_OK);
  EXPECT_EQ(reprieve_reset_accumulated_stats(-1), REPRIEVE_OK);
  now = stats();
  EXPECT_EQ(now.requested_bytes.peak, 1'000);
  EXPECT_EQ(now.allocations.allocated, 0);
  EXPECT_EQ(now.reserved_bytes.allocated, 0);
  free(block);
}

}  // namespace
