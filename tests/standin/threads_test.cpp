// Several threads at once.
#include <atomic>
#include <thread>

#include "registered_kernel.hpp"
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

constexpr int thread_count = 4;
constexpr int rounds = 50;

class StandinThreads : public Standin {
 protected:
  template <typename Body>
  static void in_threads(Body&& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) threads.emplace_back([&body, i] { body(i); });
    for (std::thread& each : threads) each.join();
  }
};

TEST_F(StandinThreads, AllocateCopyAndFreeSideBySide) {
  in_threads([](int number) {
    EXPECT_TRUE(ok(cudaSetDevice(number % 2)));
    const cudaStream_t side = stream();
    for (int round = 0; round < rounds; ++round) {
      unsigned char* memory = nullptr;
      unsigned char back[16] = {};
      const bool pooled = round % 2 == 0;
      void* out = nullptr;
      EXPECT_TRUE(ok(pooled ? cudaMallocAsync(&out, 4096, side) : cudaMalloc(&out, 4096)));
      memory = static_cast<unsigned char*>(out);
      EXPECT_TRUE(ok(cudaMemsetAsync(memory, number + round, 4096, side)));
      EXPECT_TRUE(ok(cudaMemcpyAsync(back, memory, 16, cudaMemcpyDeviceToHost, side)));
      EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
      EXPECT_EQ(back[15], number + round);
      EXPECT_TRUE(ok(pooled ? cudaFreeAsync(memory, side) : cudaFree(memory)));
    }
    EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  });
  EXPECT_EQ(faults(), std::vector<std::string>{});
}

TEST_F(StandinThreads, LaunchKernelsAndHostFunctions) {
  const RegisteredKernel kernel("_Z14threads_kernelv");
  std::atomic<int> called{0};
  in_threads([&](int) {
    const cudaStream_t side = stream();
    for (int round = 0; round < rounds; ++round) {
      EXPECT_TRUE(ok(cudaLaunchKernel(kernel.function(), 1, 32, nullptr, 0, side)));
      EXPECT_TRUE(ok(cudaLaunchHostFunc(
          side, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &called)));
    }
    EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
    EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  });
  EXPECT_EQ(called.load(), thread_count * rounds);
  EXPECT_EQ(reprieve_sim_launches("threads_kernel"), static_cast<std::uint64_t>(thread_count * rounds));
}

TEST_F(StandinThreads, CaptureAndLaunchGraphsOfTheirOwn) {
  in_threads([](int number) {
    unsigned char* memory = nullptr;
    void* out = nullptr;
    const cudaStream_t side = stream();
    EXPECT_TRUE(ok(cudaMallocAsync(&out, 64, side)));
    memory = static_cast<unsigned char*>(out);
    for (int round = 0; round < rounds; ++round) {
      EXPECT_TRUE(ok(cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed)));
      EXPECT_TRUE(ok(cudaMemsetAsync(memory, number + round, 64, side)));
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      EXPECT_TRUE(ok(cudaStreamEndCapture(side, &graph)));
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      EXPECT_TRUE(ok(cudaThreadExchangeStreamCaptureMode(&mode)));
      EXPECT_TRUE(ok(cudaGraphInstantiate(&exec, graph, 0)));
      EXPECT_TRUE(ok(cudaThreadExchangeStreamCaptureMode(&mode)));
      EXPECT_TRUE(ok(cudaGraphLaunch(exec, side)));
      EXPECT_TRUE(ok(cudaGraphExecDestroy(exec)));
      EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
    }
    EXPECT_TRUE(ok(cudaFreeAsync(memory, side)));
    EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  });
}

TEST_F(StandinThreads, OneWaitsUntilAnotherWritesTheWord) {
  auto* const word = pinned_memory<std::uint32_t>(1);
  *word = 0;
  const cudaStream_t side = stream();
  EXPECT_TRUE(ok(cuStreamWaitValue32(side, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_GEQ)));
  std::thread writer([&] { __atomic_store_n(word, 1U, __ATOMIC_RELEASE); });
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  writer.join();
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFreeHost(word)));
}

}  // namespace
}  // namespace reprieve::standin
