// Events.
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinEvents : public Standin {};

TEST_F(StandinEvents, FlagsThatMakeNoSenseAreRefused) {
  cudaEvent_t made = nullptr;
  EXPECT_TRUE(fails(cudaEventCreateWithFlags(&made, 64), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaEventCreateWithFlags(&made, cudaEventInterprocess), cudaErrorInvalidValue));
}

TEST_F(StandinEvents, AreDoneBeforeTheyAreRecorded) {
  const cudaEvent_t fresh = event(cudaEventDefault);
  const cudaEvent_t other = event(cudaEventDefault);
  float ms = 0;
  EXPECT_TRUE(ok(cudaEventQuery(fresh)));
  EXPECT_TRUE(ok(cudaEventSynchronize(fresh)));
  EXPECT_TRUE(ok(cudaStreamWaitEvent(nullptr, fresh, 0)));
  EXPECT_TRUE(fails(cudaEventElapsedTime(&ms, fresh, other), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(ok(cudaEventDestroy(fresh)));
  EXPECT_TRUE(ok(cudaEventDestroy(other)));
}

TEST_F(StandinEvents, MeasureVirtualTime) {
  lazy();
  char* const memory = device_memory<char>(32 * mib);
  const cudaEvent_t begin = event(cudaEventDefault);
  const cudaEvent_t end = event(cudaEventDefault);
  const cudaEvent_t no_timing = event();
  float ms = 0;
  EXPECT_TRUE(ok(cudaEventRecord(begin, nullptr)));
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 1, 32 * mib, nullptr)));
  EXPECT_TRUE(ok(cudaEventRecord(end, nullptr)));
  EXPECT_TRUE(gives(cudaEventQuery(end), cudaErrorNotReady));
  EXPECT_TRUE(gives(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady));
  EXPECT_TRUE(ok(cudaEventSynchronize(end)));
  EXPECT_TRUE(ok(cudaEventElapsedTime(&ms, begin, end)));
  EXPECT_GT(ms, 0);
  EXPECT_TRUE(ok(cudaEventElapsedTime(&ms, end, begin)));
  EXPECT_LT(ms, 0);
  EXPECT_TRUE(ok(cudaEventRecord(no_timing, nullptr)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  EXPECT_TRUE(fails(cudaEventElapsedTime(&ms, begin, no_timing), cudaErrorInvalidResourceHandle));
  for (const cudaEvent_t each : {begin, end, no_timing}) EXPECT_TRUE(ok(cudaEventDestroy(each)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinEvents, NoHandleIsNoEvent) {
  EXPECT_TRUE(fails(cudaEventQuery(nullptr), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaStreamWaitEvent(nullptr, nullptr, 0), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(fails(cudaEventSynchronize(nullptr), cudaErrorInvalidResourceHandle));
}

TEST_F(StandinEvents, ExternalRecordsBelongIntoCaptures) {
  const cudaEvent_t made = event();
  EXPECT_TRUE(fails(cudaEventRecordWithFlags(made, nullptr, 9), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaEventRecordWithFlags(made, stream(), cudaEventRecordExternal), cudaErrorIllegalState));
  EXPECT_TRUE(ok(cudaEventDestroy(made)));
}

}  // namespace
}  // namespace reprieve::standin
