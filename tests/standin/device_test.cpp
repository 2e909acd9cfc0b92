// Devices, errors, contexts, and the driver's entries by name.
#include <cstring>
#include <thread>

#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinDevice : public Standin {};

TEST_F(StandinDevice, AreAsManyAsTheEnvironmentSays) {
  int count = 0;
  EXPECT_TRUE(ok(cudaGetDeviceCount(&count)));
  EXPECT_EQ(count, 2);
}

TEST_F(StandinDevice, EveryThreadHasItsOwnCurrentOne) {
  EXPECT_TRUE(ok(cudaSetDevice(1)));
  std::thread([] {
    int device = -1;
    EXPECT_TRUE(ok(cudaGetDevice(&device)));
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  EXPECT_TRUE(ok(cudaGetDevice(&device)));
  EXPECT_EQ(device, 1);
}

TEST_F(StandinDevice, OthersAreRefused) {
  EXPECT_TRUE(fails(cudaSetDevice(2), cudaErrorInvalidDevice));
  EXPECT_TRUE(fails(cudaSetDevice(-1), cudaErrorInvalidDevice));
  cudaDeviceProp properties;
  EXPECT_TRUE(fails(cudaGetDeviceProperties(&properties, 9), cudaErrorInvalidDevice));
  int value = 0;
  EXPECT_TRUE(fails(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice));
  EXPECT_TRUE(fails(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(0), 0), cudaErrorInvalidValue));
}

TEST_F(StandinDevice, HasTheProperties) {
  cudaDeviceProp properties;
  ASSERT_TRUE(ok(cudaGetDeviceProperties(&properties, 1)));
  EXPECT_STREQ(properties.name, "Simulated H200");
  EXPECT_EQ(properties.totalGlobalMem, capacity);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.minor, 0);
  EXPECT_EQ(properties.multiProcessorCount, 132);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, 232448U);
  int value = 0;
  EXPECT_TRUE(ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1)));
  EXPECT_EQ(value, 132);
  char bus[32] = {};
  char other_bus[32] = {};
  EXPECT_TRUE(ok(cudaDeviceGetPCIBusId(bus, sizeof bus, 0)));
  EXPECT_TRUE(ok(cudaDeviceGetPCIBusId(other_bus, sizeof other_bus, 1)));
  EXPECT_STRNE(bus, other_bus);
}

TEST_F(StandinDevice, ReachTheirPeersOnceAsked) {
  int can = 0;
  EXPECT_TRUE(ok(cudaDeviceCanAccessPeer(&can, 0, 1)));
  EXPECT_EQ(can, 1);
  EXPECT_TRUE(ok(cudaDeviceCanAccessPeer(&can, 0, 0)));
  EXPECT_EQ(can, 0);
  EXPECT_TRUE(ok(cudaDeviceEnablePeerAccess(1, 0)));
  EXPECT_TRUE(fails(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled));
  EXPECT_TRUE(fails(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported));
  EXPECT_TRUE(ok(cudaDeviceDisablePeerAccess(1)));
  EXPECT_TRUE(fails(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled));
}

TEST_F(StandinDevice, TheLastErrorStaysUntilItIsTaken) {
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  int device = 0;
  EXPECT_TRUE(ok(cudaGetDevice(&device)));  // a success does not clear it
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(StandinDevice, ErrorsHaveCudasNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorStreamCaptureUnsupported),
               "operation not permitted when stream is capturing");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(10001)), "unrecognized error code");
  const char* text = nullptr;
  EXPECT_TRUE(ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text)));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_TRUE(ok(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text)));
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_TRUE(gives(cuGetErrorName(static_cast<CUresult>(1001), &text), CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(text, nullptr);
}

TEST_F(StandinDevice, TheRuntimeAndTheDriverShareContexts) {
  std::thread([] {
    CUcontext context = nullptr;
    EXPECT_TRUE(ok(cuCtxGetCurrent(&context)));
    EXPECT_EQ(context, nullptr);
    EXPECT_TRUE(ok(cudaFree(nullptr)));
    EXPECT_TRUE(ok(cuCtxGetCurrent(&context)));
    EXPECT_NE(context, nullptr);
    CUcontext retained = nullptr;
    EXPECT_TRUE(ok(cuDevicePrimaryCtxRetain(&retained, 1)));
    EXPECT_TRUE(ok(cuCtxPushCurrent(retained)));
    int device = -1;
    EXPECT_TRUE(ok(cudaGetDevice(&device)));
    EXPECT_EQ(device, 1);
    EXPECT_TRUE(ok(cuCtxPopCurrent(&retained)));
    EXPECT_TRUE(ok(cudaGetDevice(&device)));
    EXPECT_EQ(device, 0);
    EXPECT_TRUE(ok(cuDevicePrimaryCtxRelease(1)));
    EXPECT_TRUE(ok(cuCtxPopCurrent(&context)));
    EXPECT_TRUE(gives(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT));
    CUdeviceptr memory = 0;
    EXPECT_TRUE(gives(cuMemAlloc(&memory, 100), CUDA_ERROR_INVALID_CONTEXT));
  }).join();
}

TEST_F(StandinDevice, EntriesAreFoundByNameAndVersion) {
  void* entry = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_TRUE(ok(cuGetProcAddress("cuMemCreate", &entry, 12000, 0, &status)));
  EXPECT_EQ(entry, reinterpret_cast<void*>(cuMemCreate));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_TRUE(ok(cuGetProcAddress("cuMemCreate", &entry, 9000, 0, &status)));
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  cudaDriverEntryPointQueryResult answer{};
  EXPECT_TRUE(ok(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &entry, 13000, 0, &answer)));
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(answer, cudaDriverEntryPointSymbolNotFound);
}

}  // namespace
}  // namespace reprieve::standin
