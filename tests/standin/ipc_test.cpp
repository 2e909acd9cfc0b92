// Memory and events that two processes share. The other process is this program again, told by its environment what to
// do.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

constexpr const char* child_variable = "STANDIN_IPC_TEST_HANDLE";
constexpr std::size_t bytes = 3 * mib;

std::string to_text(const void* data, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(data)[i]);
    out += two;
  }
  return out;
}

void from_text(const std::string& text, void* data) {
  for (std::size_t i = 0; i < text.size() / 2; ++i) {
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
}

// Runs one test of this program in a new process, with the handle in its environment.
int run_other(const char* test, const std::string& handle) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(child_variable, handle.c_str(), 1);
    const std::string filter = std::string("--gtest_filter=") + test;
    execl("/proc/self/exe", "standin_ipc_test", filter.c_str(), "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class StandinIpc : public Standin {};

TEST_F(StandinIpc, MemoryIsSharedBothWays) {
  unsigned char* const memory = device_memory<unsigned char>(bytes);
  EXPECT_TRUE(ok(cudaMemset(memory, 1, bytes)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  cudaIpcMemHandle_t handle;
  ASSERT_TRUE(ok(cudaIpcGetMemHandle(&handle, memory + 100)));  // any address stands for the whole allocation
  EXPECT_EQ(run_other("StandinIpc.DISABLED_TheOtherProcess", to_text(&handle, sizeof handle)), 0);
  EXPECT_EQ(read(memory, bytes), std::vector<unsigned char>(bytes, 2));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinIpc, DISABLED_TheOtherProcess) {
  const char* const text = std::getenv(child_variable);
  ASSERT_NE(text, nullptr) << "run by MemoryIsSharedBothWays";
  cudaIpcMemHandle_t handle;
  from_text(text, &handle);
  void* opened = nullptr;
  ASSERT_TRUE(ok(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess)));
  auto* const memory = static_cast<unsigned char*>(opened);
  cudaPointerAttributes attributes{};
  EXPECT_TRUE(ok(cudaPointerGetAttributes(&attributes, memory)));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(read(memory, bytes), std::vector<unsigned char>(bytes, 1));
  EXPECT_TRUE(ok(cudaMemset(memory, 2, bytes)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  EXPECT_TRUE(fails(cudaFree(memory), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaIpcCloseMemHandle(memory)));
  EXPECT_TRUE(fails(cudaIpcCloseMemHandle(memory), cudaErrorInvalidValue));
}

TEST_F(StandinIpc, EventsCrossAsWell) {
  const cudaEvent_t shared = event(cudaEventDisableTiming | cudaEventInterprocess);
  EXPECT_TRUE(ok(cudaEventRecord(shared, nullptr)));
  cudaIpcEventHandle_t handle;
  ASSERT_TRUE(ok(cudaIpcGetEventHandle(&handle, shared)));
  EXPECT_EQ(run_other("StandinIpc.DISABLED_TheOtherProcesssEvent", to_text(&handle, sizeof handle)), 0);
  EXPECT_TRUE(ok(cudaEventDestroy(shared)));
}

TEST_F(StandinIpc, DISABLED_TheOtherProcesssEvent) {
  const char* const text = std::getenv(child_variable);
  ASSERT_NE(text, nullptr) << "run by EventsCrossAsWell";
  cudaIpcEventHandle_t handle;
  from_text(text, &handle);
  cudaEvent_t opened = nullptr;
  ASSERT_TRUE(ok(cudaIpcOpenEventHandle(&opened, handle)));
  EXPECT_TRUE(ok(cudaStreamWaitEvent(nullptr, opened, 0)));
  EXPECT_TRUE(ok(cudaEventSynchronize(opened)));
  EXPECT_TRUE(ok(cudaEventDestroy(opened)));
}

TEST_F(StandinIpc, OnlyPlainMemoryAndOnlyAbroad) {
  char* const memory = device_memory<char>(100);
  char* const pinned = pinned_memory<char>(100);
  void* pooled = nullptr;
  int local = 0;
  ASSERT_TRUE(ok(cudaMallocAsync(&pooled, 100, nullptr)));
  cudaIpcMemHandle_t handle;
  EXPECT_TRUE(fails(cudaIpcGetMemHandle(&handle, pooled), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaIpcGetMemHandle(&handle, pinned), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaIpcGetMemHandle(&handle, &local), cudaErrorInvalidValue));
  ASSERT_TRUE(ok(cudaIpcGetMemHandle(&handle, memory)));
  void* opened = nullptr;
  EXPECT_TRUE(fails(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorInvalidValue));
  EXPECT_TRUE(
      fails(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized));
  std::memset(&handle, 0, sizeof handle);
  EXPECT_TRUE(fails(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaIpcCloseMemHandle(memory), cudaErrorInvalidValue));
  cudaIpcEventHandle_t event_handle;
  const cudaEvent_t ordinary = event();
  EXPECT_TRUE(fails(cudaIpcGetEventHandle(&event_handle, ordinary), cudaErrorInvalidResourceHandle));
  EXPECT_TRUE(ok(cudaEventDestroy(ordinary)));
  EXPECT_TRUE(ok(cudaFreeAsync(pooled, nullptr)));
  EXPECT_TRUE(ok(cudaFreeHost(pinned)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinIpc, AForkedChildHasNoDevice) {
  char* const memory = device_memory<char>(100);
  const pid_t child = fork();
  if (child == 0) {
    void* out = nullptr;
    const bool refused = cudaMalloc(&out, 100) == cudaErrorInitializationError;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(ok(cudaFree(memory)));
}

}  // namespace
}  // namespace reprieve::standin
