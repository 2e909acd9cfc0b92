// What the tests of the C interface share: the library on simulated devices, started anew for each test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "reprieve/reprieve.h"

inline constexpr std::size_t KiB = std::size_t{1} << 10;
inline constexpr std::size_t MiB = std::size_t{1} << 20;
inline constexpr std::size_t GiB = std::size_t{1} << 30;

inline std::string last_error() { return reprieve_last_error(); }

inline void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

class CapiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(reprieve_shutdown(), REPRIEVE_OK) << last_error();
    set("device", "sim");
    set("sim_capacity", "1GiB");
    set("sim_devices", "2");
    set("log", "off");
  }
  void TearDown() override {
    if (reprieve_is_started() != 0) {
      EXPECT_EQ(reprieve_validate(-1), REPRIEVE_OK) << last_error();
    }
    EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK) << last_error();
  }

  static void set(const char* name, const char* value) {
    EXPECT_EQ(reprieve_set_option(name, value), REPRIEVE_OK) << last_error();
  }
  static void* alloc(std::size_t bytes, int device = 0, reprieve_stream stream = nullptr) {
    void* out = nullptr;
    EXPECT_EQ(reprieve_alloc(&out, bytes, device, stream), REPRIEVE_OK) << last_error();
    return out;
  }
  static void free(void* ptr) { EXPECT_EQ(reprieve_dealloc(ptr), REPRIEVE_OK) << last_error(); }
  static reprieve_stats stats(int device = 0) {
    reprieve_stats out{};
    out.size = sizeof out;
    EXPECT_EQ(reprieve_get_stats(device, &out), REPRIEVE_OK) << last_error();
    return out;
  }
  static reprieve_stream stream(int device = 0) {
    reprieve_stream out = nullptr;
    EXPECT_EQ(reprieve_stream_create(device, &out), REPRIEVE_OK) << last_error();
    return out;
  }
  // The call is the caller's mistake, and its line says so.
  static void expect_invalid(reprieve_status status, const std::string& text) {
    EXPECT_EQ(status, REPRIEVE_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(last_error(), text);
    EXPECT_EQ(reprieve_last_driver_error(), 0);
  }
};
