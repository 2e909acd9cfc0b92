// One suite for every implementation of the device contract (src/device/device.hpp). A backend joins with a Subject and
// INSTANTIATE_TEST_SUITE_P for the two fixtures; conformance_sim_test.cpp is the example.
//
// The tests touch memory only by queued work and Subject::read_back, as the host cannot see a real GPU's memory; and
// they hold streams back instead of racing with them, so nothing depends on timing.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace reprieve::device {

// What the suite needs of a backend beside the contract.
class Subject {
 public:
  virtual ~Subject() = default;

  virtual Backend& backend() = 0;

  // Nothing queued on the stream after hold() runs before resume() is called for the same stream. One hold a stream at
  // a time; per_thread_stream is that of the calling thread.
  virtual void hold(Device& device, Stream stream) = 0;
  virtual void resume(Device& device, Stream stream) = 0;

  // In global mode, the strictest. end_capture: false where an illegal call spoiled the capture.
  virtual void begin_capture(Device& device, Stream stream) = 0;
  virtual bool end_capture(Device& device, Stream stream) = 0;

  // The bytes at an address that no queued work writes.
  virtual std::vector<std::uint8_t> read_back(Device& device, Address at, std::size_t bytes) = 0;

  // The calling thread's current context; 0 where there is none, or no such thing.
  virtual std::uintptr_t current_context() { return 0; }

  // By how many bytes memory_info may differ from what the calls took: page tables, what the driver loads lazily.
  virtual std::size_t memory_tolerance_bytes() { return 0; }

  // Whatever the backend itself saw go wrong; empty where nothing did. Asked at the end of each test.
  virtual std::string complaints() { return {}; }
};

struct BackendUnderTest {
  const char* name;
  std::string (*unavailable)();  // why the backend cannot be tested on this machine; empty where it can
  std::unique_ptr<Subject> (*make)();
};

inline void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }

inline ::testing::AssertionResult succeeded(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.what << " failed, code " << static_cast<int>(status.code)
                                       << ", driver code " << status.driver;
}

inline ::testing::AssertionResult failed_as(const Status& status, Errc code) {
  if (status.is(code)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.what << " gave code " << static_cast<int>(status.code)
                                       << ", driver code " << status.driver << ", not code " << static_cast<int>(code);
}

class Conformance : public ::testing::TestWithParam<BackendUnderTest> {
 protected:
  static constexpr std::chrono::seconds long_time{60};

  // A chunk mapped, accessible, at addresses of its own.
  struct Region {
    Address at = 0;
    std::size_t bytes = 0;
    Handle handle{};
  };

  void SetUp() override;
  void TearDown() override;

  Device& device() { return *device_; }
  std::size_t granule() const { return device_->properties().granularity; }

  Address reserve(std::size_t bytes);
  Handle create(std::size_t bytes, Location where = Location::device);
  Region region(std::size_t bytes, Location where = Location::device);
  void destroy(const Region& region);
  void map(Address at, std::size_t bytes, Handle handle);  // accessible at once
  Stream stream();                                         // destroyed at the end of the test
  Event event();                                           // likewise
  std::size_t free_bytes();
  // Whether so many bytes fewer are free than `before`.
  ::testing::AssertionResult taken_since(std::size_t before, std::size_t bytes);

  void fill(Address at, std::uint8_t value, std::size_t bytes, Stream stream);
  bool done(Event event);
  void wait(Event event);      // until it is done; a failure of the test where that takes a minute
  void finish(Stream stream);  // all that is queued on it now
  // Whether every byte has this value.
  ::testing::AssertionResult holds(Address at, std::size_t bytes, std::uint8_t value);

  std::unique_ptr<Subject> subject_;
  std::unique_ptr<Device> device_;

 private:
  std::vector<Stream> streams_;
  std::vector<Event> events_;
};

// In every test one stream captures from the start; the test itself ends the capture.
class CaptureConformance : public Conformance {
 protected:
  void SetUp() override;
  void TearDown() override;

  void all_legal_calls();

  Stream capturing_{};
  Stream other_{};
  Event event_{};  // recorded on other_ before the capture
  Region region_;
};

}  // namespace reprieve::device
