// What the tests of the stand-in CUDA libraries share.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "simgpu/sim.h"

namespace reprieve::standin {

inline constexpr std::size_t mib = std::size_t{1} << 20;
inline constexpr std::size_t capacity = 256 * mib;

// Before the first call of CUDA's: two devices of 256 MiB each.
inline const bool environment_is_set = [] {
  setenv("REPRIEVE_SIM_CAPACITY", "256MiB", 1);
  setenv("REPRIEVE_SIM_HOST_CAPACITY", "256MiB", 1);
  setenv("REPRIEVE_SIM_DEVICES", "2", 1);
  return true;
}();

inline ::testing::AssertionResult gives(cudaError_t result, cudaError_t expected) {
  if (result == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << cudaGetErrorName(result) << ", not " << cudaGetErrorName(expected);
}
inline ::testing::AssertionResult gives(CUresult result, CUresult expected) {
  if (result == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "driver code " << result << ", not " << expected;
}
inline ::testing::AssertionResult ok(cudaError_t result) { return gives(result, cudaSuccess); }
inline ::testing::AssertionResult ok(CUresult result) { return gives(result, CUDA_SUCCESS); }

class Standin : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ok(cudaSetDevice(0)));
    ASSERT_TRUE(ok(cudaDeviceSynchronize()));
    (void)cudaGetLastError();
    reprieve_sim_clear_faults();
    reprieve_sim_reset_counters();
    ASSERT_EQ(reprieve_sim_set_mode("eager"), 0);
  }
  void TearDown() override {
    EXPECT_TRUE(ok(cudaSetDevice(0)));
    EXPECT_TRUE(ok(cudaDeviceSynchronize()));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a test leaves no error behind";
  }

  void lazy() { ASSERT_EQ(reprieve_sim_set_mode("lazy"), 0); }

  // An error that the test expects is taken off.
  static ::testing::AssertionResult fails(cudaError_t result, cudaError_t expected) {
    const cudaError_t last = cudaGetLastError();
    if (last != expected) {
      return ::testing::AssertionFailure() << "the last error is " << cudaGetErrorName(last) << ", the call's "
                                           << cudaGetErrorName(result) << ", expected " << cudaGetErrorName(expected);
    }
    return gives(result, expected);
  }

  template <typename T>
  T* device_memory(std::size_t count) {
    void* out = nullptr;
    EXPECT_TRUE(ok(cudaMalloc(&out, count * sizeof(T))));
    return static_cast<T*>(out);
  }

  template <typename T>
  T* pinned_memory(std::size_t count) {
    void* out = nullptr;
    EXPECT_TRUE(ok(cudaHostAlloc(&out, count * sizeof(T), cudaHostAllocDefault)));
    return static_cast<T*>(out);
  }

  // By a synchronous copy.
  template <typename T>
  static std::vector<T> read(const T* from, std::size_t count) {
    std::vector<T> out(count);
    EXPECT_TRUE(ok(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDefault)));
    return out;
  }

  static cudaStream_t stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t out = nullptr;
    EXPECT_TRUE(ok(cudaStreamCreateWithFlags(&out, flags)));
    return out;
  }

  static cudaEvent_t event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t out = nullptr;
    EXPECT_TRUE(ok(cudaEventCreateWithFlags(&out, flags)));
    return out;
  }

  static std::vector<std::string> faults() {
    std::vector<std::string> out(reprieve_sim_fault_count());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].resize(reprieve_sim_fault(i, nullptr, 0));
      (void)reprieve_sim_fault(i, out[i].data(), out[i].size() + 1);
    }
    return out;
  }
};

}  // namespace reprieve::standin
