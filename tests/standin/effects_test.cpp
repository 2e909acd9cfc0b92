// Kernels of torch whose effect is simulated, launched as torch launches them.
#include <array>
#include <cstring>

#include "registered_kernel.hpp"
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinEffects : public Standin {
 protected:
  template <typename... Arguments>
  static cudaError_t launch(const RegisteredKernel& kernel, dim3 grid, Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> pointers{&arguments...};
    return cudaLaunchKernel(kernel.function(), grid, 128, pointers.data(), 0, nullptr);
  }
};

using Addresses1 = std::array<void*, 1>;
using Addresses2 = std::array<void*, 2>;
using Addresses3 = std::array<void*, 3>;

TEST_F(StandinEffects, Fill) {
  const RegisteredKernel kernel(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_");
  float* const memory = device_memory<float>(5);
  EXPECT_TRUE(ok(cudaMemset(memory, 0, 20)));
  EXPECT_TRUE(ok(launch(kernel, 1, 4, 2.5F, Addresses1{memory})));
  EXPECT_EQ(read(memory, 5), (std::vector<float>{2.5F, 2.5F, 2.5F, 2.5F, 0}));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinEffects, AddAndMultiply) {
  const RegisteredKernel add(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIlEESt5arrayIPcLm3EEEEviT0_T1_");
  const RegisteredKernel multiply(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEES"
      "t5arrayIPcLm2EEEEviT0_T1_");
  auto* const numbers = device_memory<std::int64_t>(4);
  const std::vector<std::int64_t> given{1, -2, std::int64_t{1} << 60, 4};
  EXPECT_TRUE(ok(cudaMemcpy(numbers, given.data(), 32, cudaMemcpyHostToDevice)));
  EXPECT_TRUE(ok(launch(add, 1, 4, std::int64_t{3}, Addresses3{numbers, numbers, numbers})));
  EXPECT_EQ(read(numbers, 4), (std::vector<std::int64_t>{4, -8, std::int64_t{1} << 62, 16}));
  auto* const reals = reinterpret_cast<float*>(numbers);
  const std::vector<float> real{1.5F, -2};
  EXPECT_TRUE(ok(cudaMemcpy(reals, real.data(), 8, cudaMemcpyHostToDevice)));
  struct {
    float nothing;
    float by;
  } const functor{0, 3};
  EXPECT_TRUE(ok(launch(multiply, 1, 2, functor, Addresses2{reals, reals})));
  EXPECT_EQ(read(reals, 2), (std::vector<float>{4.5F, -6}));
  EXPECT_TRUE(ok(cudaFree(numbers)));
}

TEST_F(StandinEffects, ConvertingCopy) {
  const RegisteredKernel kernel(
      "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_"
      "clEv"
      "ENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13"
      "StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_");
  auto* const from = device_memory<std::int64_t>(3);
  auto* const to = device_memory<std::uint16_t>(3);
  const std::vector<std::int64_t> given{1, 2, -3};
  EXPECT_TRUE(ok(cudaMemcpy(from, given.data(), 24, cudaMemcpyHostToDevice)));
  struct Conversion {
    std::int8_t type;
    std::uint32_t bytes;
  };
  const char nothing = 0;
  EXPECT_TRUE(
      ok(launch(kernel, 1, 3, nothing, Addresses2{to, from}, nothing, nothing, Conversion{4, 8}, Conversion{15, 2})));
  EXPECT_EQ(read(to, 3), (std::vector<std::uint16_t>{0x3f80, 0x4000, 0xc040}));  // bfloat16
  EXPECT_TRUE(ok(cudaFree(from)));
  EXPECT_TRUE(ok(cudaFree(to)));
}

TEST_F(StandinEffects, ReadTheBytesOfWhenTheyRun) {
  lazy();
  const RegisteredKernel kernel(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_");
  float* const memory = device_memory<float>(2);
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 0, 8, nullptr)));
  EXPECT_TRUE(ok(launch(kernel, 1, 2, 1.0F, Addresses3{memory, memory, memory})));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  EXPECT_EQ(read(memory, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(faults(), std::vector<std::string>{});
  EXPECT_TRUE(ok(cudaFree(memory)));
}

// In a child, since nothing works in a context afterwards.
TEST_F(StandinEffects, AnIllegalAddressSpoilsTheContext) {
  const auto spoil = [] {
    const RegisteredKernel kernel(
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_");
    void* memory = nullptr;
    (void)cudaSetDevice(0);
    const bool launched = launch(kernel, 1, 4, 2.5F, Addresses1{reinterpret_cast<void*>(16)}) == cudaSuccess;
    const bool waited = cudaDeviceSynchronize() == cudaErrorIllegalAddress;
    const cudaError_t first = cudaGetLastError();
    const bool taken = first == cudaErrorIllegalAddress && cudaGetLastError() == cudaSuccess;
    const bool stays = cudaMalloc(&memory, 100) == cudaErrorIllegalAddress;
    int device = -1;
    const bool looks = cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(1) == cudaSuccess &&
                       cudaMalloc(&memory, 100) == cudaSuccess;
    std::exit(launched && waited && taken && stays && looks ? 0 : 1);
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(spoil(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprieve::standin
