// The conformance suite on the first GPU of this machine.
#include "device/cuda.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "conformance.hpp"
#include "device/cuda_driver.hpp"
#include "device/cuda_scopes.hpp"

namespace reprieve::device {
namespace {

// Entries that only the tests need.
struct TestApi {
  driver::Result (*host_alloc)(void** out, std::size_t bytes, unsigned flags);
  driver::Result (*host_free)(void* at);
  driver::Result (*stream_wait_value)(driver::StreamHandle stream, driver::DevicePtr at, std::uint32_t value,
                                      unsigned flags);
  driver::Result (*begin_capture)(driver::StreamHandle stream, int mode);
  driver::Result (*end_capture)(driver::StreamHandle stream, void** graph);
  driver::Result (*graph_destroy)(void* graph);
};

template <typename Function>
void find(const char* name, Function*& out) {
  void* const library = dlopen(driver::library_name, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto get = reinterpret_cast<driver::GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  ASSERT_NE(get, nullptr);
  void* found = nullptr;
  ASSERT_EQ(get(name, &found, driver::minimum_version, driver::proc_address_legacy_stream, nullptr), driver::success);
  out = reinterpret_cast<Function*>(found);
}

driver::StreamHandle native(Stream stream) { return reinterpret_cast<driver::StreamHandle>(stream); }

class CudaSubject final : public Subject {
 public:
  CudaSubject() {
    std::string reason;
    EXPECT_TRUE(open_cuda(backend_, reason).ok()) << reason;
    EXPECT_TRUE(driver::load(api_, reason).ok()) << reason;
    find("cuMemHostAlloc", test_api_.host_alloc);
    find("cuMemFreeHost", test_api_.host_free);
    find("cuStreamWaitValue32", test_api_.stream_wait_value);
    find("cuStreamBeginCapture", test_api_.begin_capture);
    find("cuStreamEndCapture", test_api_.end_capture);
    find("cuGraphDestroy", test_api_.graph_destroy);
    EXPECT_EQ(api_.primary_context_retain(&context_, 0), driver::success);
    const CurrentContext current(api_, context_);
    EXPECT_EQ(api_.stream_create(&reading_, driver::stream_non_blocking), driver::success);
  }

  ~CudaSubject() override {
    {
      const CurrentContext current(api_, context_);
      for (const auto& [key, gate] : gates_) EXPECT_EQ(test_api_.host_free(gate), driver::success);
      EXPECT_EQ(api_.stream_destroy(reading_), driver::success);
    }
    EXPECT_EQ(api_.primary_context_release(0), driver::success);
  }

  Backend& backend() override { return *backend_; }

  // Seen on an H200 with driver 580: page tables and the like come and go in pieces of up to 2 MiB.
  std::size_t memory_tolerance_bytes() override { return 8U << 20; }

  // The stream waits on the device for a word in host memory; a host function would not do, since the driver may run
  // those of several streams one after the other.
  void hold(Device&, Stream stream) override {
    const CurrentContext current(api_, context_);
    std::uint32_t* const gate = gate_of(stream);
    std::atomic_ref<std::uint32_t>(*gate).store(0);
    EXPECT_EQ(test_api_.stream_wait_value(native(stream), reinterpret_cast<driver::DevicePtr>(gate), 1, wait_equal),
              driver::success);
  }
  void resume(Device&, Stream stream) override { std::atomic_ref<std::uint32_t>(*gate_of(stream)).store(1); }

  void begin_capture(Device&, Stream stream) override {
    const CurrentContext current(api_, context_);
    EXPECT_EQ(test_api_.begin_capture(native(stream), capture_mode_global), driver::success);
  }
  bool end_capture(Device&, Stream stream) override {
    const CurrentContext current(api_, context_);
    void* graph = nullptr;
    const bool intact = test_api_.end_capture(native(stream), &graph) == driver::success;
    if (graph != nullptr) {
      EXPECT_EQ(test_api_.graph_destroy(graph), driver::success);
    }
    return intact;
  }

  // On a stream of its own, which waits for none that the test holds.
  std::vector<std::uint8_t> read_back(Device&, Address at, std::size_t bytes) override {
    std::vector<std::uint8_t> out(bytes);
    const CurrentContext current(api_, context_);
    EXPECT_EQ(api_.memcpy_async(reinterpret_cast<driver::DevicePtr>(out.data()), at, bytes, reading_), driver::success);
    EXPECT_EQ(api_.stream_synchronize(reading_), driver::success);
    return out;
  }

  std::uintptr_t current_context() override {
    driver::Context current = nullptr;
    EXPECT_EQ(api_.context_get_current(&current), driver::success);
    return reinterpret_cast<std::uintptr_t>(current);
  }

 private:
  static constexpr unsigned wait_equal = 1;      // CU_STREAM_WAIT_VALUE_EQ
  static constexpr int capture_mode_global = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
  static constexpr std::size_t gate_bytes = 4096;

  // One word a stream; the per-thread stream is another one in every thread.
  std::uint32_t* gate_of(Stream stream) {
    static thread_local const char this_thread = 0;
    const std::scoped_lock lock(mutex_);
    void*& gate = gates_[{stream, stream == per_thread_stream ? &this_thread : nullptr}];
    if (gate == nullptr) {
      EXPECT_EQ(test_api_.host_alloc(&gate, gate_bytes, 0), driver::success);
    }
    return static_cast<std::uint32_t*>(gate);
  }

  std::unique_ptr<Backend> backend_;
  driver::Api api_{};
  TestApi test_api_{};
  driver::Context context_ = nullptr;
  driver::StreamHandle reading_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<Stream, const char*>, void*> gates_;
};

std::string unavailable() {
  // Streams that share a hardware queue wait for each other, and the tests hold some. Read when the driver starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  std::unique_ptr<Backend> backend;
  std::string reason;
  return open_cuda(backend, reason).ok() ? std::string() : "no GPU to test on: " + reason;
}

constexpr BackendUnderTest cuda{"cuda", unavailable,
                                []() -> std::unique_ptr<Subject> { return std::make_unique<CudaSubject>(); }};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cuda, Conformance, ::testing::Values(cuda));
INSTANTIATE_TEST_SUITE_P(Cuda, CaptureConformance, ::testing::Values(cuda));

}  // namespace reprieve::device
