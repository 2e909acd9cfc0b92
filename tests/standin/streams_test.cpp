// Streams: order within and between them, what a missing wait does, and host functions.
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinStreams : public Standin {};

TEST_F(StandinStreams, HaveFlagsPrioritiesAndNumbers) {
  cudaStream_t made = nullptr;
  EXPECT_TRUE(fails(cudaStreamCreateWithFlags(&made, 9), cudaErrorInvalidValue));
  ASSERT_TRUE(ok(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, -99)));
  int priority = 0;
  EXPECT_TRUE(ok(cudaStreamGetPriority(made, &priority)));
  EXPECT_EQ(priority, -5);
  unsigned flags = 0;
  EXPECT_TRUE(ok(cudaStreamGetFlags(made, &flags)));
  EXPECT_EQ(flags, cudaStreamNonBlocking);
  EXPECT_TRUE(ok(cudaStreamGetFlags(nullptr, &flags)));
  EXPECT_EQ(flags, cudaStreamDefault);
  unsigned long long id = 0;
  unsigned long long legacy_id = 0;
  EXPECT_TRUE(ok(cudaStreamGetId(made, &id)));
  EXPECT_TRUE(ok(cudaStreamGetId(cudaStreamLegacy, &legacy_id)));
  EXPECT_NE(id, legacy_id);
  EXPECT_TRUE(ok(cudaStreamDestroy(made)));
}

TEST_F(StandinStreams, TheDefaultOnesAreNotDestroyed) {
  EXPECT_TRUE(fails(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaStreamDestroy(cudaStreamLegacy), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle));
}

TEST_F(StandinStreams, RunInOrder) {
  lazy();
  int* const memory = device_memory<int>(1);
  int* const out = pinned_memory<int>(1);
  const cudaStream_t side = stream();
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 1, 4, side)));
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 2, 4, side)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(out, memory, 4, cudaMemcpyDeviceToHost, side)));
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_EQ(*out, 0x02020202);
  EXPECT_EQ(faults(), std::vector<std::string>{});
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(ok(cudaFreeHost(out)));
}

// The bytes are wrong, and it is reported, every time: not only when the timing is unlucky.
TEST_F(StandinStreams, AMissingWaitReadsTheOldBytes) {
  lazy();
  constexpr std::size_t bytes = 32 * mib;
  unsigned char* const memory = device_memory<unsigned char>(bytes);
  unsigned char* const out = pinned_memory<unsigned char>(1);
  EXPECT_TRUE(ok(cudaMemset(memory, 1, bytes)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  const cudaStream_t writer = stream();
  const cudaStream_t reader = stream();
  const cudaEvent_t written = event();
  for (const bool wait : {false, true}) {
    reprieve_sim_clear_faults();
    EXPECT_TRUE(ok(cudaMemsetAsync(memory, wait ? 3 : 2, bytes, writer)));
    EXPECT_TRUE(ok(cudaEventRecord(written, writer)));
    if (wait) {
      EXPECT_TRUE(ok(cudaStreamWaitEvent(reader, written, 0)));
    }
    EXPECT_TRUE(ok(cudaMemcpyAsync(out, memory + bytes - 1, 1, cudaMemcpyDeviceToHost, reader)));
    EXPECT_TRUE(ok(cudaStreamSynchronize(reader)));
    EXPECT_EQ(*out, wait ? 3 : 1);
    EXPECT_EQ(faults().empty(), wait);
    EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  }
  for (const cudaStream_t each : {writer, reader}) EXPECT_TRUE(ok(cudaStreamDestroy(each)));
  EXPECT_TRUE(ok(cudaEventDestroy(written)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(ok(cudaFreeHost(out)));
}

TEST_F(StandinStreams, BlockingOnesAreInStepWithTheLegacyStream) {
  lazy();
  unsigned char* const memory = device_memory<unsigned char>(32 * mib);
  unsigned char* const out = pinned_memory<unsigned char>(1);
  const cudaStream_t blocking = stream(cudaStreamDefault);
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 9, 32 * mib, blocking)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(out, memory, 1, cudaMemcpyDeviceToHost, nullptr)));
  EXPECT_TRUE(ok(cudaStreamSynchronize(nullptr)));
  EXPECT_EQ(*out, 9);
  EXPECT_EQ(faults(), std::vector<std::string>{});
  EXPECT_TRUE(ok(cudaStreamDestroy(blocking)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(ok(cudaFreeHost(out)));
}

TEST_F(StandinStreams, AQueryTellsWhetherWorkIsLeftAndIsNoError) {
  lazy();
  char* const memory = device_memory<char>(mib);
  const cudaStream_t side = stream();
  ASSERT_EQ(reprieve_sim_hold(0, side), 0);
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 1, mib, side)));
  EXPECT_TRUE(gives(cudaStreamQuery(side), cudaErrorNotReady));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  ASSERT_EQ(reprieve_sim_release(0, side), 0);
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_TRUE(ok(cudaStreamQuery(side)));
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinStreams, PageableMemoryIsTakenAtTheCall) {
  lazy();
  int* const memory = device_memory<int>(1);
  const cudaStream_t side = stream();
  int number = 5;
  EXPECT_TRUE(ok(cudaMemcpyAsync(memory, &number, 4, cudaMemcpyHostToDevice, side)));
  number = 6;
  int back = 0;
  EXPECT_TRUE(ok(cudaMemcpyAsync(&back, memory, 4, cudaMemcpyDeviceToHost, side)));
  EXPECT_EQ(back, 5);
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

struct Called {
  int count = 0;
  cudaError_t inside = cudaSuccess;
};

TEST_F(StandinStreams, HostFunctionsRunInOrderAndMayNotCallCuda) {
  lazy();
  const cudaStream_t side = stream();
  Called called;
  const auto function = [](void* data) {
    auto& self = *static_cast<Called*>(data);
    ++self.count;
    void* memory = nullptr;
    self.inside = cudaMalloc(&memory, 100);
    (void)cudaGetLastError();
  };
  EXPECT_TRUE(ok(cudaLaunchHostFunc(side, function, &called)));
  EXPECT_TRUE(fails(cudaLaunchHostFunc(side, nullptr, &called), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_EQ(called.count, 1);
  EXPECT_TRUE(gives(called.inside, cudaErrorNotPermitted));
  EXPECT_TRUE(ok(cudaStreamAddCallback(
      side, [](cudaStream_t, cudaError_t, void* data) { ++static_cast<Called*>(data)->count; }, &called, 0)));
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_EQ(called.count, 2);
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
}

TEST_F(StandinStreams, AStreamIsOfItsDevice) {
  const cudaStream_t here = stream();
  char* const memory = device_memory<char>(16);
  ASSERT_TRUE(ok(cudaSetDevice(1)));
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 1, 16, here)));  // the stream's own device does it
  EXPECT_TRUE(ok(cudaStreamSynchronize(here)));
  ASSERT_TRUE(ok(cudaSetDevice(0)));
  EXPECT_EQ(read(memory, 1)[0], 1);
  EXPECT_TRUE(ok(cudaStreamDestroy(here)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinStreams, WaitForAWordInMemory) {
  lazy();
  auto* const word = pinned_memory<std::uint32_t>(1);
  *word = 0;
  char* const memory = device_memory<char>(16);
  EXPECT_TRUE(ok(cudaMemset(memory, 1, 16)));
  const cudaStream_t side = stream();
  EXPECT_TRUE(ok(cuStreamWaitValue32(side, reinterpret_cast<CUdeviceptr>(word), 7, CU_STREAM_WAIT_VALUE_EQ)));
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 2, 16, side)));
  reprieve_sim_advance(1'000'000'000);
  EXPECT_TRUE(gives(cudaStreamQuery(side), cudaErrorNotReady));
  __atomic_store_n(word, 7U, __ATOMIC_RELEASE);
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_EQ(read(memory, 1)[0], 2);
  EXPECT_TRUE(ok(cuStreamWriteValue32(side, reinterpret_cast<CUdeviceptr>(word), 9, 0)));
  EXPECT_TRUE(ok(cudaStreamSynchronize(side)));
  EXPECT_EQ(*word, 9U);
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(ok(cudaFreeHost(word)));
}

}  // namespace
}  // namespace reprieve::standin
