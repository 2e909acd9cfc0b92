// Capturing streams into graphs, running them, and what may not be called meanwhile.
#include <functional>
#include <thread>

#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinGraphs : public Standin {
 protected:
  void SetUp() override {
    Standin::SetUp();
    memory_ = device_memory<unsigned char>(mib);
    side_ = stream();
    other_ = stream();
    event_ = event();
    ASSERT_TRUE(ok(cudaEventRecord(event_, other_)));
    ASSERT_TRUE(ok(cudaDeviceSynchronize()));
  }
  void TearDown() override {
    for (const cudaStream_t each : {side_, other_}) EXPECT_TRUE(ok(cudaStreamDestroy(each)));
    EXPECT_TRUE(ok(cudaEventDestroy(event_)));
    EXPECT_TRUE(ok(cudaFree(memory_)));
    Standin::TearDown();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_TRUE(ok(cudaStreamBeginCapture(side_, mode)));
  }
  cudaGraph_t end() {
    cudaGraph_t out = nullptr;
    EXPECT_TRUE(ok(cudaStreamEndCapture(side_, &out)));
    return out;
  }

  unsigned char* memory_ = nullptr;
  cudaStream_t side_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;  // recorded on other_, done
};

TEST_F(StandinGraphs, WhatIsCapturedRunsWhenTheGraphDoes) {
  EXPECT_TRUE(ok(cudaMemset(memory_, 1, 64)));
  begin();
  EXPECT_TRUE(ok(cudaMemsetAsync(memory_, 2, 32, side_)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(memory_ + 32, memory_, 32, cudaMemcpyDeviceToDevice, side_)));
  const cudaGraph_t graph = end();
  EXPECT_EQ(read(memory_, 1)[0], 1);
  cudaGraphExec_t exec = nullptr;
  ASSERT_TRUE(ok(cudaGraphInstantiate(&exec, graph, 0)));
  EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ok(cudaMemset(memory_, 0, 64)));
    EXPECT_TRUE(ok(cudaGraphLaunch(exec, side_)));
    EXPECT_TRUE(ok(cudaStreamSynchronize(side_)));
    EXPECT_EQ(read(memory_, 64), std::vector<unsigned char>(64, 2));
  }
  EXPECT_TRUE(ok(cudaGraphExecDestroy(exec)));
}

TEST_F(StandinGraphs, TellWhatTheyConsistOf) {
  const cudaStream_t joined = stream();
  begin();
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t being_made = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 9;
  EXPECT_TRUE(ok(cudaStreamGetCaptureInfo(side_, &status, &id, &being_made, &dependencies, nullptr, &count)));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(count, 0U);
  EXPECT_TRUE(ok(cudaMemsetAsync(memory_, 2, 32, side_)));
  EXPECT_TRUE(ok(cudaEventRecord(event_, side_)));
  EXPECT_TRUE(ok(cudaStreamWaitEvent(joined, event_, 0)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(memory_ + 64, memory_, 32, cudaMemcpyDeviceToDevice, joined)));
  EXPECT_TRUE(ok(cudaLaunchHostFunc(
      side_, [](void*) {}, nullptr)));
  EXPECT_TRUE(ok(cudaEventRecord(event_, joined)));
  EXPECT_TRUE(ok(cudaStreamWaitEvent(side_, event_, 0)));
  EXPECT_TRUE(ok(cudaStreamGetCaptureInfo(side_, &status, &id, &being_made, &dependencies, nullptr, &count)));
  EXPECT_EQ(count, 2U);
  EXPECT_TRUE(ok(cudaMemsetAsync(memory_, 3, 32, side_)));
  const cudaGraph_t graph = end();
  EXPECT_EQ(graph, being_made);

  EXPECT_TRUE(ok(cudaGraphGetNodes(graph, nullptr, &count)));
  ASSERT_EQ(count, 4U);
  std::vector<cudaGraphNode_t> nodes(count + 1, reinterpret_cast<cudaGraphNode_t>(7));
  count = nodes.size();
  EXPECT_TRUE(ok(cudaGraphGetNodes(graph, nodes.data(), &count)));
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(nodes[4], nullptr);
  std::size_t fills = 0;
  std::size_t edges = 0;
  for (std::size_t i = 0; i < count; ++i) {
    cudaGraphNodeType type{};
    EXPECT_TRUE(ok(cudaGraphNodeGetType(nodes[i], &type)));
    fills += type == cudaGraphNodeTypeMemset ? 1 : 0;
    std::size_t before = 0;
    EXPECT_TRUE(ok(cudaGraphNodeGetDependencies(nodes[i], nullptr, nullptr, &before)));
    edges += before;
  }
  EXPECT_EQ(fills, 2U);
  EXPECT_EQ(edges, 4U);
  EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
  EXPECT_TRUE(ok(cudaStreamDestroy(joined)));
}

TEST_F(StandinGraphs, AStreamThatJoinedMustBeJoinedBack) {
  begin();
  EXPECT_TRUE(ok(cudaEventRecord(event_, side_)));
  EXPECT_TRUE(ok(cudaStreamWaitEvent(other_, event_, 0)));
  EXPECT_TRUE(ok(cudaMemsetAsync(memory_, 1, 8, other_)));
  cudaGraph_t graph = nullptr;
  EXPECT_TRUE(fails(cudaStreamEndCapture(side_, &graph), cudaErrorStreamCaptureUnjoined));
  EXPECT_EQ(graph, nullptr);
}

struct CapturedCall {
  const char* name;
  std::function<cudaError_t()> call;
  cudaError_t result;
  bool spoils;
};

// Measured on an H200; see docs/driver.md for the calls of the driver's.
TEST_F(StandinGraphs, CallsAreLegalOrNotAsOnAGpu) {
  void* allocated = nullptr;
  char pageable[64] = {};
  void* const freed = device_memory<char>(2 * mib);
  const std::vector<CapturedCall> calls = {
      {"cudaMalloc", [&] { return cudaMalloc(&allocated, 100); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaFree", [&] { return cudaFree(freed); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaFree(nullptr)", [] { return cudaFree(nullptr); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaHostAlloc", [&] { return cudaHostAlloc(&allocated, 100, 0); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaMallocAsync elsewhere", [&] { return cudaMallocAsync(&allocated, 100, other_); },
       cudaErrorStreamCaptureUnsupported, true},
      {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamSynchronize", [&] { return cudaStreamSynchronize(side_); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamSynchronize elsewhere", [&] { return cudaStreamSynchronize(other_); },
       cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamQuery", [&] { return cudaStreamQuery(side_); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamQuery elsewhere", [&] { return cudaStreamQuery(other_); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaEventQuery", [&] { return cudaEventQuery(event_); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaEventSynchronize", [&] { return cudaEventSynchronize(event_); }, cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(side_, event_, 0); }, cudaErrorStreamCaptureIsolation,
       true},
      {"cudaStreamAddCallback",
       [&] {
         return cudaStreamAddCallback(
             side_, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
       },
       cudaErrorStreamCaptureUnsupported, true},
      {"cudaStreamBeginCapture", [&] { return cudaStreamBeginCapture(side_, cudaStreamCaptureModeGlobal); },
       cudaErrorIllegalState, false},
      {"cudaStreamBeginCapture of the legacy stream",
       [] { return cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal); }, cudaErrorStreamCaptureUnsupported,
       false},
      {"cudaMemcpy", [&] { return cudaMemcpy(memory_, pageable, 64, cudaMemcpyHostToDevice); }, cudaSuccess, false},
      {"cudaMemset", [&] { return cudaMemset(memory_, 0, 64); }, cudaSuccess, false},
      {"cudaMemcpyAsync elsewhere",
       [&] { return cudaMemcpyAsync(memory_, memory_ + 64, 64, cudaMemcpyDeviceToDevice, other_); }, cudaSuccess,
       false},
      {"cudaMemcpyAsync of pageable memory",
       [&] { return cudaMemcpyAsync(memory_, pageable, 64, cudaMemcpyHostToDevice, side_); }, cudaSuccess, false},
      {"cudaMemsetAsync on the legacy stream", [&] { return cudaMemsetAsync(memory_, 0, 64, nullptr); }, cudaSuccess,
       false},
      {"cudaMemGetInfo",
       [] {
         std::size_t free_bytes = 0;
         std::size_t total = 0;
         return cudaMemGetInfo(&free_bytes, &total);
       },
       cudaSuccess, false},
      {"cudaPointerGetAttributes",
       [&] {
         cudaPointerAttributes attributes{};
         return cudaPointerGetAttributes(&attributes, memory_);
       },
       cudaSuccess, false},
      {"cudaMallocAsync",
       [&] {
         void* pooled = nullptr;
         const cudaError_t result = cudaMallocAsync(&pooled, 100, side_);
         return result != cudaSuccess ? result : cudaFreeAsync(pooled, side_);
       },
       cudaSuccess, false},
  };
  for (const CapturedCall& each : calls) {
    SCOPED_TRACE(each.name);
    begin();
    EXPECT_TRUE(gives(each.call(), each.result));
    cudaStreamCaptureStatus status{};
    EXPECT_TRUE(ok(cudaStreamIsCapturing(side_, &status)));
    EXPECT_EQ(status, each.spoils ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    EXPECT_TRUE(
        gives(cudaStreamEndCapture(side_, &graph), each.spoils ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    EXPECT_EQ(graph == nullptr, each.spoils);
    if (graph != nullptr) {
      EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
    }
    (void)cudaGetLastError();
  }
  EXPECT_TRUE(ok(cudaFree(freed)));
}

TEST_F(StandinGraphs, ARelaxedThreadMayCallWhatItLikes) {
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_TRUE(ok(cudaThreadExchangeStreamCaptureMode(&mode)));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* allocated = nullptr;
  EXPECT_TRUE(ok(cudaMalloc(&allocated, 100)));
  EXPECT_TRUE(ok(cudaEventQuery(event_)));
  EXPECT_TRUE(ok(cudaThreadExchangeStreamCaptureMode(&mode)));
  EXPECT_TRUE(ok(cudaGraphDestroy(end())));
  EXPECT_TRUE(ok(cudaFree(allocated)));
}

TEST_F(StandinGraphs, OtherThreadsMindGlobalCapturesOnly) {
  for (const bool global : {true, false}) {
    begin(global ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal);
    void* allocated = nullptr;
    std::thread([&] {
      EXPECT_TRUE(gives(cudaMalloc(&allocated, 100), global ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
    }).join();
    cudaGraph_t graph = nullptr;
    EXPECT_TRUE(gives(cudaStreamEndCapture(side_, &graph), global ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    if (graph != nullptr) {
      EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
    }
    (void)cudaGetLastError();
    EXPECT_TRUE(ok(cudaFree(allocated)));
  }
}

TEST_F(StandinGraphs, TheLegacyStreamCannotWaitForABlockingCapture) {
  const cudaStream_t blocking = stream(cudaStreamDefault);
  ASSERT_TRUE(ok(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed)));
  cudaStreamCaptureStatus status{};
  EXPECT_TRUE(fails(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit));
  EXPECT_TRUE(ok(cudaStreamIsCapturing(blocking, &status)));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_TRUE(fails(cudaMemsetAsync(memory_, 0, 64, nullptr), cudaErrorStreamCaptureImplicit));
  cudaGraph_t graph = nullptr;
  EXPECT_TRUE(fails(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated));
  EXPECT_TRUE(ok(cudaStreamDestroy(blocking)));
}

TEST_F(StandinGraphs, NothingIsEndedThatWasNotBegun) {
  cudaGraph_t graph = nullptr;
  EXPECT_TRUE(fails(cudaStreamEndCapture(side_, &graph), cudaErrorIllegalState));
  EXPECT_TRUE(fails(cudaStreamBeginCapture(side_, static_cast<cudaStreamCaptureMode>(3)), cudaErrorInvalidValue));
}

TEST_F(StandinGraphs, OfNothingDoNothing) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_TRUE(ok(cudaGraphCreate(&graph, 0)));
  EXPECT_TRUE(fails(cudaGraphInstantiate(&exec, graph, 999), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaGraphInstantiate(&exec, graph, 0)));
  EXPECT_TRUE(ok(cudaGraphLaunch(exec, side_)));
  EXPECT_TRUE(ok(cudaGraphExecDestroy(exec)));
  EXPECT_TRUE(ok(cudaGraphDestroy(graph)));
}

}  // namespace
}  // namespace reprieve::standin
