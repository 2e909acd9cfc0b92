// The cuda implementation against a driver that answers as it is set to (fake_driver.hpp): what it refuses and how it
// says so, what it asks for, and that it leaves the calling thread as it was. What a GPU does is the conformance
// suite's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "device/cuda.hpp"
#include "device/cuda_driver.hpp"
#include "fake_driver.hpp"

namespace reprieve::device {
namespace {

using std::chrono::milliseconds;

class OpenCuda : public testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(driver::library_name, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto reset = reinterpret_cast<void (*)()>(dlsym(library, "fake_driver_reset"));
    ASSERT_NE(reset, nullptr) << "another libcuda.so.1 was found first";
    reset();
    fake_ = reinterpret_cast<fake_driver::State* (*)()>(dlsym(library, "fake_driver_state"))();
    Status status = driver::load(api_, reason_);
    ASSERT_TRUE(status.ok()) << reason_;
  }

  // The one line with which open_cuda refuses.
  std::string refusal() {
    std::string reason;
    const Status status = open_cuda(backend_, reason);
    EXPECT_TRUE(status.is(Errc::not_supported));
    EXPECT_EQ(backend_, nullptr);
    EXPECT_EQ(reason.find('\n'), std::string::npos);
    return reason;
  }

  // Device 1 of 2; its calls need context 1.
  Status open() {
    std::string reason;
    Status status = open_cuda(backend_, reason);
    if (status.ok()) status = backend_->open(1, device_);
    return status;
  }

  std::size_t granule() const { return device_->properties().granularity; }

  fake_driver::State* fake_ = nullptr;
  driver::Api api_{};
  std::string reason_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Device> device_;
};

TEST_F(OpenCuda, AnOldDriverIsRefusedWithBothVersions) {
  fake_->version = 11080;
  EXPECT_EQ(refusal(), "the CUDA driver is for CUDA 11.8; reprieve needs one for CUDA 12.0 or newer");
}

TEST_F(OpenCuda, AMissingEntryIsNamed) {
  fake_->missing = "cuMemSetAccess";
  EXPECT_EQ(refusal(), "libcuda.so.1 has no cuMemSetAccess");
}

TEST_F(OpenCuda, NoDeviceIsSaidWhetherInitOrTheCountFindsNone) {
  fake_->init = driver::no_device;
  EXPECT_EQ(refusal(), "the CUDA driver finds no device");
  fake_->init = driver::success;
  fake_->devices = 0;
  EXPECT_NE(refusal().find("the CUDA driver finds no device"), std::string::npos);
}

TEST_F(OpenCuda, TheToolkitsStubIsNoDriver) {
  fake_->init = driver::stub_library;
  EXPECT_EQ(refusal(), "libcuda.so.1 is the toolkit's stub for linking, not a driver");
}

TEST_F(OpenCuda, AnyOtherFailureOfInitIsTheDriversOwn) {
  fake_->init = 803;
  EXPECT_EQ(refusal(), "the CUDA driver does not start: CUDA_ERROR_OTHER: what the driver says");
}

TEST_F(OpenCuda, ADeviceWithoutVirtualMemoryManagementIsRefused) {
  fake_->virtual_memory = 0;
  EXPECT_NE(refusal().find("virtual memory management"), std::string::npos);
}

TEST_F(OpenCuda, ADriverThatRefusesItsOwnCallsIsRefusedAndNothingStays) {
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap"}) {
    fake_->failing = call;
    fake_->failure = driver::not_permitted;
    const Status status = open();
    EXPECT_TRUE(status.is(Errc::not_supported));
    EXPECT_STREQ(status.what, call);
    EXPECT_EQ(device_, nullptr);
    EXPECT_EQ(fake_->handles, 0);
    EXPECT_EQ(fake_->reservations, 0);
    EXPECT_EQ(fake_->mappings, 0);
    EXPECT_EQ(fake_->retained, 0);
  }
}

TEST_F(OpenCuda, ABrokenDeviceIsReportedAsItself) {
  fake_->failing = "cuMemMap";
  fake_->failure = 700;
  const Status status = open();
  EXPECT_TRUE(status.is(Errc::device_error));
  EXPECT_EQ(status.driver, 700);
}

TEST_F(OpenCuda, AFullDeviceCanBeOpened) {
  fake_->failing = "cuMemCreate";
  fake_->failure = driver::out_of_memory;
  EXPECT_TRUE(open().ok());
}

TEST_F(OpenCuda, AnOrdinalThatIsNoneIsTheCallersMistake) {
  ASSERT_TRUE(open().ok());
  std::unique_ptr<Device> none;
  EXPECT_TRUE(backend_->open(-1, none).is(Errc::invalid_argument));
  EXPECT_TRUE(backend_->open(2, none).is(Errc::invalid_argument));
}

TEST_F(OpenCuda, TheContextIsHeldAsLongAsTheDevice) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(fake_->retained, 1);
  backend_.reset();
  Handle handle{};
  EXPECT_TRUE(device_->create(granule(), Location::device, handle).ok());
  device_.reset();
  EXPECT_EQ(fake_->retained, 0);
}

TEST_F(OpenCuda, OpeningCountsAsNoCall) {
  ASSERT_TRUE(open().ok());
  for (const std::uint64_t count : device_->call_stats().count) EXPECT_EQ(count, 0U);
}

TEST_F(OpenCuda, ChunksCanBeExportedAndReachedByRdma) {
  ASSERT_TRUE(open().ok());
  Handle handle{};
  ASSERT_TRUE(device_->create(granule(), Location::device, handle).ok());
  EXPECT_EQ(fake_->created.handle_types, driver::handle_posix_fd);
  EXPECT_EQ(fake_->created.flags.gpu_direct_rdma, 1);
  EXPECT_EQ(fake_->created.location.type, driver::location_device);
  EXPECT_EQ(fake_->created.location.id, 1);
}

TEST_F(OpenCuda, WhatWasRefusedIsNotAskedForAgain) {
  fake_->refuse_rdma = true;
  fake_->refuse_fd = true;
  ASSERT_TRUE(open().ok());
  const int tries_at_open = fake_->creates;
  EXPECT_EQ(tries_at_open, 3);
  Handle handle{};
  ASSERT_TRUE(device_->create(granule(), Location::device, handle).ok());
  EXPECT_EQ(fake_->creates, tries_at_open + 1);
  EXPECT_EQ(fake_->created.handle_types, 0);
  EXPECT_EQ(fake_->created.flags.gpu_direct_rdma, 0);
}

TEST_F(OpenCuda, WithoutRdmaChunksCanStillBeExported) {
  fake_->refuse_rdma = true;
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(fake_->created.handle_types, driver::handle_posix_fd);
}

TEST_F(OpenCuda, AFullDeviceIsNotAskedTwiceAndLosesNoWish) {
  ASSERT_TRUE(open().ok());
  const int before = fake_->creates;
  fake_->failing = "cuMemCreate";
  fake_->failure = driver::out_of_memory;
  Handle handle{};
  EXPECT_TRUE(device_->create(granule(), Location::device, handle).is(Errc::out_of_memory));
  EXPECT_EQ(fake_->creates, before + 1);
  fake_->failing.clear();
  ASSERT_TRUE(device_->create(granule(), Location::device, handle).ok());
  EXPECT_EQ(fake_->created.flags.gpu_direct_rdma, 1);
}

TEST_F(OpenCuda, ARequestThatIsWrongItselfLosesNoWish) {
  ASSERT_TRUE(open().ok());
  fake_->failing = "cuMemCreate";
  fake_->failure = driver::invalid_value;
  Handle handle{};
  EXPECT_TRUE(device_->create(1, Location::device, handle).is(Errc::invalid_argument));
  fake_->failing.clear();
  ASSERT_TRUE(device_->create(granule(), Location::device, handle).ok());
  EXPECT_EQ(fake_->created.flags.gpu_direct_rdma, 1);
}

TEST_F(OpenCuda, HostChunksLieOnTheDevicesNode) {
  fake_->numa_node = 3;
  ASSERT_TRUE(open().ok());
  Handle handle{};
  ASSERT_TRUE(device_->create(granule(), Location::host, handle).ok());
  EXPECT_EQ(fake_->created.location.type, driver::location_host_numa);
  EXPECT_EQ(fake_->created.location.id, 3);
}

TEST_F(OpenCuda, HostChunksWithoutNodesLieAnywhere) {
  fake_->refuse_numa = true;
  ASSERT_TRUE(open().ok());
  Handle handle{};
  ASSERT_TRUE(device_->create(granule(), Location::host, handle).ok());
  EXPECT_EQ(fake_->created.location.type, driver::location_host);
  const int before = fake_->creates;
  ASSERT_TRUE(device_->create(granule(), Location::host, handle).ok());
  EXPECT_EQ(fake_->creates, before + 1);
}

// Calls everything once.
void call_all(Device& device) {
  const std::size_t bytes = device.properties().granularity;
  Address at = 0;
  Handle handle{};
  Event event{};
  Stream stream{};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  bool flag = false;
  ASSERT_TRUE(device.reserve(bytes, 0, at).ok());
  ASSERT_TRUE(device.create(bytes, Location::device, handle).ok());
  ASSERT_TRUE(device.map(at, bytes, handle).ok());
  ASSERT_TRUE(device.set_access(at, bytes).ok());
  ASSERT_TRUE(device.memory_info(free_bytes, total_bytes).ok());
  ASSERT_TRUE(device.stream_create(stream).ok());
  ASSERT_TRUE(device.is_capturing(stream, flag).ok());
  ASSERT_TRUE(device.fill(at, 0, bytes, stream).ok());
  ASSERT_TRUE(device.copy(at, at, bytes, stream).ok());
  ASSERT_TRUE(device.event_create(event).ok());
  ASSERT_TRUE(device.event_record(event, stream).ok());
  ASSERT_TRUE(device.event_record_all(event).ok());
  ASSERT_TRUE(device.event_query(event, flag).ok());
  ASSERT_TRUE(device.event_wait(event, milliseconds(1), flag).ok());
  ASSERT_TRUE(device.stream_wait(stream, event).ok());
  ASSERT_TRUE(device.stream_synchronize(stream).ok());
  ASSERT_TRUE(device.stream_destroy(stream).ok());
  ASSERT_TRUE(device.event_destroy(event).ok());
  ASSERT_TRUE(device.unmap(at, bytes).ok());
  ASSERT_TRUE(device.release(handle).ok());
  ASSERT_TRUE(device.unreserve(at, bytes).ok());
}

TEST_F(OpenCuda, EveryCallHasItsContextAndLeavesTheCallersCurrent) {
  ASSERT_TRUE(open().ok());
  driver::Context other = nullptr;
  ASSERT_EQ(api_.primary_context_retain(&other, 0), driver::success);
  ASSERT_EQ(api_.context_push_current(other), driver::success);
  call_all(*device_);
  EXPECT_EQ(fake_->without_context, 0);
  driver::Context current = nullptr;
  ASSERT_EQ(api_.context_get_current(&current), driver::success);
  EXPECT_EQ(current, other);
}

TEST_F(OpenCuda, AThreadWithoutAContextIsLeftWithoutOne) {
  ASSERT_TRUE(open().ok());
  call_all(*device_);
  EXPECT_EQ(fake_->without_context, 0);
  driver::Context current = nullptr;
  ASSERT_EQ(api_.context_get_current(&current), driver::success);
  EXPECT_EQ(current, nullptr);
}

TEST_F(OpenCuda, AContextThatIsCurrentIsNotPushed) {
  ASSERT_TRUE(open().ok());
  driver::Context own = nullptr;
  ASSERT_EQ(api_.primary_context_retain(&own, 1), driver::success);
  ASSERT_EQ(api_.context_push_current(own), driver::success);
  const int before = fake_->pushes;
  call_all(*device_);
  EXPECT_EQ(fake_->pushes, before);
}

TEST_F(OpenCuda, QueriesAreMadeInRelaxedModeAndTheThreadsModeReturns) {
  ASSERT_TRUE(open().ok());
  Event event{};
  ASSERT_TRUE(device_->event_create(event).ok());
  bool done = false;
  ASSERT_TRUE(device_->event_query(event, done).ok());
  ASSERT_TRUE(device_->event_wait(event, milliseconds(1), done).ok());
  EXPECT_EQ(fake_->queries, 2);
  EXPECT_EQ(fake_->unrelaxed_queries, 0);
  int mode = driver::capture_mode_relaxed;
  ASSERT_EQ(api_.exchange_capture_mode(&mode), driver::success);
  EXPECT_EQ(mode, 0);
}

TEST_F(OpenCuda, AWaitPollsUntilItsTimeoutAndSaysNotDone) {
  ASSERT_TRUE(open().ok());
  Event event{};
  ASSERT_TRUE(device_->event_create(event).ok());
  fake_->event_done = false;
  bool done = true;
  ASSERT_TRUE(device_->event_wait(event, milliseconds(0), done).ok());
  EXPECT_FALSE(done);
  EXPECT_EQ(fake_->queries, 1);
  done = true;
  ASSERT_TRUE(device_->event_wait(event, milliseconds(2), done).ok());
  EXPECT_FALSE(done);
  EXPECT_GT(fake_->queries, 2);
}

TEST_F(OpenCuda, AStreamThatAnotherCaptureForbidsCountsAsCapturing) {
  ASSERT_TRUE(open().ok());
  fake_->failing = "cuStreamIsCapturing";
  fake_->failure = driver::stream_capture_implicit;
  bool capturing = false;
  ASSERT_TRUE(device_->is_capturing(legacy_stream, capturing).ok());
  EXPECT_TRUE(capturing);
}

TEST_F(OpenCuda, ContextEventsNeedANewerDriver) {
  fake_->version = 12040;
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(device_->properties().context_events);
  Event event{};
  ASSERT_TRUE(device_->event_create(event).ok());
  EXPECT_TRUE(device_->event_record_all(event).is(Errc::not_supported));
  fake_->version = 12050;
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(device_->properties().context_events);
}

TEST_F(OpenCuda, EachCodeOfTheDriverKeepsItsKind) {
  EXPECT_TRUE(driver::status_of(0, "x").ok());
  EXPECT_TRUE(driver::status_of(1, "x").is(Errc::invalid_argument));
  EXPECT_TRUE(driver::status_of(2, "x").is(Errc::out_of_memory));
  EXPECT_TRUE(driver::status_of(400, "x").is(Errc::invalid_argument));
  EXPECT_TRUE(driver::status_of(700, "x").is(Errc::device_error));
  EXPECT_TRUE(driver::status_of(801, "x").is(Errc::not_supported));
  EXPECT_EQ(driver::status_of(700, "x").driver, 700);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(device_->describe(700), "CUDA_ERROR_ILLEGAL_ADDRESS: what the driver says");
  EXPECT_EQ(device_->describe(12345), "CUDA error 12345");
}

}  // namespace
}  // namespace reprieve::device
