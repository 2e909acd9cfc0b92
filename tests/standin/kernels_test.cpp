// Registering, launching and counting kernels, and what a launch may ask for.
#include "registered_kernel.hpp"
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinKernels : public Standin {
 protected:
  cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t on = nullptr) {
    return cudaLaunchKernel(kernel_.function(), grid, block, nullptr, shared_bytes, on);
  }
  int blocks(int threads, std::size_t shared_bytes) {
    int out = -1;
    EXPECT_TRUE(ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&out, kernel_.function(), threads, shared_bytes)));
    return out;
  }

  RegisteredKernel kernel_{"_Z9test_kernelv"};
};

TEST_F(StandinKernels, AreCountedByName) {
  EXPECT_TRUE(ok(launch(1, 1)));
  EXPECT_TRUE(ok(launch(2, 32)));
  EXPECT_EQ(reprieve_sim_launches("test_kernel"), 2U);
  EXPECT_EQ(reprieve_sim_launches("other_kernel"), 0U);
}

TEST_F(StandinKernels, TakeTimeOnTheirStream) {
  lazy();
  EXPECT_TRUE(ok(launch(1, 1)));
  EXPECT_TRUE(gives(cudaStreamQuery(nullptr), cudaErrorNotReady));
  const std::uint64_t before = reprieve_sim_now_ns();
  EXPECT_TRUE(ok(cudaStreamSynchronize(nullptr)));
  EXPECT_GT(reprieve_sim_now_ns(), before);
}

TEST_F(StandinKernels, AreCapturedAndCountedWhenTheGraphRuns) {
  const cudaStream_t side = stream();
  ASSERT_TRUE(ok(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal)));
  EXPECT_TRUE(ok(launch(1, 1, 0, side)));
  cudaGraph_t graph = nullptr;
  ASSERT_TRUE(ok(cudaStreamEndCapture(side, &graph)));
  cudaGraphExec_t exec = nullptr;
  ASSERT_TRUE(ok(cudaGraphInstantiate(&exec, graph, 0)));
  reprieve_sim_reset_counters();
  EXPECT_TRUE(ok(cudaGraphLaunch(exec, side)));
  EXPECT_TRUE(ok(cudaGraphLaunch(exec, side)));
  EXPECT_EQ(reprieve_sim_launches("test_kernel"), 2U);
  EXPECT_TRUE(ok(cudaGraphExecDestroy(exec)));
  EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
}

TEST_F(StandinKernels, ImpossibleLaunchesAreRefused) {
  int local = 0;
  EXPECT_TRUE(fails(launch(1, 0), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(launch(0, 1), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(launch(1, 1025), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(launch(1, dim3(1, 1, 65)), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(launch(dim3(1, 70000), 1), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(launch(1, 1, 300000), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaLaunchKernel(&local, 1, 1, nullptr, 0, nullptr), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction));
  EXPECT_TRUE(fails(cudaLaunchCooperativeKernel(kernel_.function(), 100000, 1024, nullptr, 0, nullptr),
                    cudaErrorCooperativeLaunchTooLarge));
  const cudaStream_t here = stream();
  ASSERT_TRUE(ok(cudaSetDevice(1)));
  EXPECT_TRUE(fails(launch(1, 1, 0, here), cudaErrorInvalidResourceHandle));
  ASSERT_TRUE(ok(cudaSetDevice(0)));
  EXPECT_TRUE(ok(cudaStreamDestroy(here)));
}

TEST_F(StandinKernels, MayAskForMoreSharedMemoryOnceAllowed) {
  EXPECT_TRUE(fails(launch(1, 1, 60000), cudaErrorInvalidValue));
  const auto allow = [&](int bytes) {
    return cudaFuncSetAttribute(kernel_.function(), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_TRUE(ok(allow(100000)));
  EXPECT_TRUE(ok(launch(1, 1, 60000)));
  cudaFuncAttributes attributes;
  EXPECT_TRUE(ok(cudaFuncGetAttributes(&attributes, kernel_.function())));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 100000);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.binaryVersion, 90);
  EXPECT_TRUE(fails(allow(300000), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(allow(-1), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(allow(48 << 10)));
}

// With half of the memory set aside as shared, as measured.
TEST_F(StandinKernels, FillAMultiprocessorAsOnAGpu) {
  EXPECT_TRUE(ok(cudaFuncSetAttribute(kernel_.function(), cudaFuncAttributePreferredSharedMemoryCarveout, 50)));
  EXPECT_EQ(blocks(32, 0), 32);
  EXPECT_EQ(blocks(96, 0), 21);
  EXPECT_EQ(blocks(1000, 0), 2);
  EXPECT_EQ(blocks(1025, 0), 0);
  EXPECT_EQ(blocks(1, 10000), 12);
  EXPECT_EQ(blocks(1, 48 << 10), 2);
  EXPECT_EQ(blocks(1, 100000), 1);
  EXPECT_EQ(blocks(1, 300000), 0);
  int out = 0;
  EXPECT_TRUE(
      fails(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&out, kernel_.function(), 0, 0), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFuncSetAttribute(kernel_.function(), cudaFuncAttributePreferredSharedMemoryCarveout, -1)));
}

TEST_F(StandinKernels, ShapesOfLaunchesAreStacked) {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t on = nullptr;
  EXPECT_EQ(__cudaPushCallConfiguration(3, 4, 5, cudaStreamPerThread), 0U);
  EXPECT_TRUE(ok(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &on)));
  EXPECT_EQ(grid.x, 3U);
  EXPECT_EQ(block.x, 4U);
  EXPECT_EQ(shared_bytes, 5U);
  EXPECT_EQ(on, cudaStreamPerThread);
  EXPECT_TRUE(fails(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &on), cudaErrorMissingConfiguration));
}

TEST_F(StandinKernels, VariablesHaveMemoryThatIsZeroAtFirst) {
  static char symbol = 0;
  int local = 0;
  void** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterVar(binary, &symbol, nullptr, "variable", 0, 16, 0, 0);
  int numbers[4] = {9, 9, 9, 9};
  EXPECT_TRUE(ok(cudaMemcpyFromSymbol(numbers, &symbol, sizeof numbers, 0, cudaMemcpyDeviceToHost)));
  EXPECT_EQ(numbers[3], 0);
  numbers[3] = 7;
  EXPECT_TRUE(ok(cudaMemcpyToSymbol(&symbol, numbers, sizeof numbers, 0, cudaMemcpyHostToDevice)));
  EXPECT_TRUE(ok(cudaMemcpyFromSymbol(&local, &symbol, 4, 12, cudaMemcpyDeviceToHost)));
  EXPECT_EQ(local, 7);
  EXPECT_TRUE(fails(cudaMemcpyToSymbol(&symbol, numbers, 16, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue));
  void* address = nullptr;
  EXPECT_TRUE(fails(cudaGetSymbolAddress(&address, &local), cudaErrorInvalidSymbol));
  __cudaUnregisterFatBinary(binary);
  EXPECT_TRUE(fails(cudaGetSymbolAddress(&address, &symbol), cudaErrorInvalidSymbol));
}

TEST_F(StandinKernels, OfModulesAreLaunchedByTheDriver) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_TRUE(gives(cuModuleLoadData(&module, "garbage"), CUDA_ERROR_INVALID_IMAGE));
  ASSERT_TRUE(ok(cuModuleLoadData(&module, "//\n.version 8.0\n.target sm_90\n")));
  ASSERT_TRUE(ok(cuModuleGetFunction(&function, module, "triton_kernel")));
  int value = 0;
  EXPECT_TRUE(ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)));
  EXPECT_EQ(value, 1024);
  EXPECT_TRUE(ok(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr)));
  EXPECT_EQ(reprieve_sim_launches("triton_kernel"), 1U);
  EXPECT_TRUE(ok(cuModuleUnload(module)));
}

}  // namespace
}  // namespace reprieve::standin
