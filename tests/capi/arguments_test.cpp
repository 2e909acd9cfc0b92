// What each function says to bad arguments.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "capi_test.hpp"

namespace {

class ArgumentsTest : public CapiTest {
 protected:
  static std::string not_a_block(void* ptr) {
    return fmt::format("{:#x}: not the beginning of a live block", reinterpret_cast<std::uintptr_t>(ptr));
  }
};

TEST_F(ArgumentsTest, Strings) {
  EXPECT_EQ(reprieve_version(),
            fmt::format("{}.{}.{}", REPRIEVE_VERSION_MAJOR, REPRIEVE_VERSION_MINOR, REPRIEVE_VERSION_PATCH));
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_OK), "success");
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_ERROR_OUT_OF_MEMORY), "out of memory");
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_ERROR_INVALID_ARGUMENT), "invalid argument");
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_ERROR_DEVICE), "device error");
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_ERROR_NOT_SUPPORTED), "not supported");
  EXPECT_STREQ(reprieve_status_string(REPRIEVE_ERROR_HOST_MEMORY), "out of host memory");
  EXPECT_STREQ(reprieve_status_string(static_cast<reprieve_status>(7)), "unknown status");
  for (int kind = 0; kind < REPRIEVE_CALL_KINDS; ++kind) {
    ASSERT_NE(reprieve_call_name(kind), nullptr);
    EXPECT_GT(std::strlen(reprieve_call_name(kind)), 2U);
  }
  EXPECT_STREQ(reprieve_call_name(2), "create");
  EXPECT_EQ(reprieve_call_name(REPRIEVE_CALL_KINDS), nullptr);
  EXPECT_EQ(reprieve_call_name(-1), nullptr);
}

TEST_F(ArgumentsTest, Options) {
  expect_invalid(reprieve_set_option(nullptr, "1"), "an option needs a name and a value");
  expect_invalid(reprieve_set_option("limit", nullptr), "an option needs a name and a value");
  expect_invalid(reprieve_set_option("limits", "1GiB"), "unknown option 'limits'; the nearest is 'limit'");
  expect_invalid(reprieve_set_option("log", "loud"),
                 "log: 'loud' is not accepted: one of off, error, warn, info, debug");
  reprieve_option_info info{};
  info.size = sizeof info;
  std::size_t count = 0;
  while (reprieve_get_option_info(count, &info) == REPRIEVE_OK) {
    ++count;
    EXPECT_NE(info.name, nullptr);
    EXPECT_EQ(std::string(info.environment).rfind("REPRIEVE_", 0), 0U);
    for (const char* text : {info.type, info.default_value, info.accepted, info.text}) EXPECT_NE(text, nullptr);
  }
  expect_invalid(reprieve_get_option_info(count, &info), fmt::format("option {0}: there are {0}", count));
  EXPECT_EQ(reprieve_is_started(), 0);
}

TEST_F(ArgumentsTest, Devices) {
  expect_invalid(reprieve_device_count(nullptr), "nowhere to put the count");
  int count = 0;
  EXPECT_EQ(reprieve_device_count(&count), REPRIEVE_OK);
  EXPECT_EQ(count, 2);
  void* out = nullptr;
  for (const int device : {-1, -2, 2, 64, 1 << 30, -(1 << 30)}) {
    const std::string text = fmt::format("device {}: there are 2 (0 to 1)", device);
    expect_invalid(reprieve_alloc(&out, 1, device, nullptr), text);
    size_t bytes = 0;
    expect_invalid(reprieve_get_limit(device, &bytes), text);
    reprieve_pool pool = 0;
    expect_invalid(reprieve_pool_create(device, 0, &pool), text);
    expect_invalid(reprieve_pool_destroy(device, 1), text);
    expect_invalid(reprieve_capture_begin(device), text);
    expect_invalid(reprieve_capture_end(device), text);
    reprieve_stats stats{};
    stats.size = sizeof stats;
    expect_invalid(reprieve_get_stats(device, &stats), text);
    reprieve_stream stream = nullptr;
    expect_invalid(reprieve_stream_create(device, &stream), text);
    expect_invalid(reprieve_forget_stream(device, stream), text);
    expect_invalid(reprieve_stream_destroy(device, stream), text);
    expect_invalid(reprieve_stream_synchronize(device, stream), text);
    if (device == -1) continue;  // all devices
    expect_invalid(reprieve_empty_cache(device), text);
    expect_invalid(reprieve_trim(device, 0), text);
    expect_invalid(reprieve_set_limit(device, 0), text);
    expect_invalid(reprieve_reset_peak_stats(device), text);
    expect_invalid(reprieve_reset_accumulated_stats(device), text);
    expect_invalid(reprieve_validate(device), text);
  }
}

TEST_F(ArgumentsTest, NowhereToPutIt) {
  expect_invalid(reprieve_alloc(nullptr, 1, 0, nullptr), "nowhere to put the block's address");
  expect_invalid(reprieve_alloc_in_pool(nullptr, 1, 0, nullptr, 0), "nowhere to put the block's address");
  expect_invalid(reprieve_pool_create(0, 0, nullptr), "nowhere to put the pool");
  expect_invalid(reprieve_get_limit(0, nullptr), "nowhere to put the limit");
  expect_invalid(reprieve_stream_create(0, nullptr), "nowhere to put the stream");
}

TEST_F(ArgumentsTest, Blocks) {
  EXPECT_EQ(reprieve_dealloc(nullptr), REPRIEVE_OK);
  EXPECT_EQ(reprieve_dealloc_on(nullptr, nullptr), REPRIEVE_OK);
  void* out = &out;
  EXPECT_EQ(reprieve_alloc(&out, 0, 0, nullptr), REPRIEVE_OK);
  EXPECT_EQ(out, nullptr);

  void* const block = alloc(4 * KiB);
  for (void* wrong : {static_cast<void*>(static_cast<char*>(block) + 512), static_cast<void*>(&out), pointer(16)}) {
    expect_invalid(reprieve_dealloc(wrong), not_a_block(wrong));
    expect_invalid(reprieve_dealloc_on(wrong, nullptr), not_a_block(wrong));
    expect_invalid(reprieve_record_stream(wrong, nullptr), not_a_block(wrong));
    expect_invalid(reprieve_pin_backing(wrong), not_a_block(wrong));
  }
  expect_invalid(reprieve_record_stream(nullptr, nullptr), not_a_block(nullptr));
  EXPECT_EQ(stats(0).invalid_frees, 6);
  EXPECT_EQ(stats(1).invalid_frees, 4);  // strays belong to no device
  EXPECT_EQ(reprieve_pin_backing(block), REPRIEVE_OK);
  free(block);
  expect_invalid(reprieve_dealloc(block), not_a_block(block));
}

TEST_F(ArgumentsTest, Pools) {
  reprieve_pool pool = 0;
  expect_invalid(reprieve_pool_create(0, 2, &pool), "flags 0x2: 0 or REPRIEVE_POOL_GRAPH");
  expect_invalid(reprieve_pool_create(0, ~0U, &pool), "flags 0xffffffff: 0 or REPRIEVE_POOL_GRAPH");
  EXPECT_EQ(pool, 0U);
  EXPECT_EQ(reprieve_pool_create(0, REPRIEVE_POOL_GRAPH, &pool), REPRIEVE_OK);
  EXPECT_NE(pool, 0U);
  void* out = nullptr;
  EXPECT_EQ(reprieve_alloc_in_pool(&out, KiB, 0, nullptr, pool), REPRIEVE_OK);
  expect_invalid(reprieve_alloc_in_pool(&out, KiB, 1, nullptr, pool), "no such pool");  // of another device
  expect_invalid(reprieve_alloc_in_pool(&out, KiB, 0, nullptr, 77), "no such pool");
  expect_invalid(reprieve_pool_destroy(0, 77), "pool 77: there is none of this number");
  expect_invalid(reprieve_pool_destroy(0, 0), "pool 0: there is none of this number");
  EXPECT_EQ(reprieve_pool_destroy(0, pool), REPRIEVE_OK);
  expect_invalid(reprieve_pool_destroy(0, pool), fmt::format("pool {}: there is none of this number", pool));
  EXPECT_EQ(reprieve_capture_begin(0), REPRIEVE_OK);
  EXPECT_EQ(reprieve_capture_end(0), REPRIEVE_OK);
  expect_invalid(reprieve_capture_end(0), "the end of a capture that never began");
  free(out);
}

// Structures of older callers are filled as far as they go; what no version has, is refused.
TEST_F(ArgumentsTest, StructureSizes) {
  free(alloc(3'000));
  struct {
    reprieve_stats stats;
    std::uint8_t beyond[64];
  } room{};
  for (const std::size_t size : {sizeof(std::size_t), offsetof(reprieve_stats, reserved_bytes),
                                 offsetof(reprieve_stats, small), sizeof(reprieve_stats)}) {
    std::memset(&room, 0x5a, sizeof room);
    room.stats.size = size;
    EXPECT_EQ(reprieve_get_stats(0, &room.stats), REPRIEVE_OK);
    EXPECT_EQ(room.stats.size, size);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&room);
    for (std::size_t i = size; i < sizeof room; ++i) ASSERT_EQ(bytes[i], 0x5a) << i;
    if (size > offsetof(reprieve_stats, allocated_bytes)) {
      EXPECT_EQ(room.stats.requested_bytes.peak, 3'000);
      EXPECT_EQ(room.stats.inactive_split_bytes.current, 0);
    }
  }
  const std::string text = "the structure's size is not that of a version up to this library's";
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof(reprieve_stats) + 8, ~std::size_t{0}}) {
    room.stats.size = size;
    expect_invalid(reprieve_get_stats(0, &room.stats), text);
  }
  expect_invalid(reprieve_get_stats(0, nullptr), text);
  reprieve_option_info info{};
  expect_invalid(reprieve_get_option_info(0, &info), text);
  expect_invalid(reprieve_get_option_info(0, nullptr), text);
  info.size = offsetof(reprieve_option_info, environment);
  EXPECT_EQ(reprieve_get_option_info(0, &info), REPRIEVE_OK);
  EXPECT_STREQ(info.name, "device");
  EXPECT_EQ(info.environment, nullptr);
}

TEST_F(ArgumentsTest, OutOfMemory) {
  EXPECT_EQ(reprieve_set_limit(0, 512 * MiB), REPRIEVE_OK);
  void* const block = alloc(300 * MiB);
  void* out = nullptr;
  EXPECT_EQ(reprieve_alloc(&out, 600 * MiB, 0, nullptr), REPRIEVE_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(last_error(),
            "CUDA out of memory. Tried to allocate 600.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 724.00 "
            "MiB is free. The limit is 512.00 MiB. reprieve has reserved 300.00 MiB: 300.00 MiB allocated, 0 bytes "
            "freed but in use on other streams, 0 bytes free in pieces that do not fit.");
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(reprieve_alloc(&out, SIZE_MAX, 1, nullptr), REPRIEVE_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(last_error().rfind("CUDA out of memory. Tried to allocate ", 0), 0U) << last_error();
  EXPECT_EQ(last_error().find("The limit"), std::string::npos) << last_error();
  EXPECT_EQ(stats(0).ooms, 1);
  EXPECT_EQ(stats(1).ooms, 1);
  free(block);
}

TEST_F(ArgumentsTest, TheLastErrorIsTheThreadsOwnAndStays) {
  expect_invalid(reprieve_device_count(nullptr), "nowhere to put the count");
  free(alloc(KiB));
  EXPECT_EQ(last_error(), "nowhere to put the count");
}

}  // namespace
