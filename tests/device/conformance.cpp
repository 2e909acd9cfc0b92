#include "conformance.hpp"

#include <algorithm>

namespace reprieve::device {

void Conformance::SetUp() {
  const std::string reason = GetParam().unavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  subject_ = GetParam().make();
  ASSERT_NE(subject_, nullptr);
  ASSERT_GE(subject_->backend().device_count(), 1);
  ASSERT_TRUE(succeeded(subject_->backend().open(0, device_)));
}

void Conformance::TearDown() {
  if (device_ != nullptr) {
    for (const Event each : events_) EXPECT_TRUE(succeeded(device_->event_destroy(each)));
    for (const Stream each : streams_) EXPECT_TRUE(succeeded(device_->stream_destroy(each)));
  }
  device_.reset();
  if (subject_ != nullptr) {
    EXPECT_EQ(subject_->complaints(), "");
  }
}

Address Conformance::reserve(std::size_t bytes) {
  Address at = 0;
  EXPECT_TRUE(succeeded(device().reserve(bytes, 0, at)));
  return at;
}

Handle Conformance::create(std::size_t bytes, Location where) {
  Handle handle{};
  EXPECT_TRUE(succeeded(device().create(bytes, where, handle)));
  return handle;
}

void Conformance::map(Address at, std::size_t bytes, Handle handle) {
  EXPECT_TRUE(succeeded(device().map(at, bytes, handle)));
  EXPECT_TRUE(succeeded(device().set_access(at, bytes)));
}

Conformance::Region Conformance::region(std::size_t bytes, Location where) {
  const Region out{reserve(bytes), bytes, create(bytes, where)};
  map(out.at, bytes, out.handle);
  return out;
}

void Conformance::destroy(const Region& region) {
  EXPECT_TRUE(succeeded(device().unmap(region.at, region.bytes)));
  EXPECT_TRUE(succeeded(device().release(region.handle)));
  EXPECT_TRUE(succeeded(device().unreserve(region.at, region.bytes)));
}

Stream Conformance::stream() {
  Stream out{};
  EXPECT_TRUE(succeeded(device().stream_create(out)));
  streams_.push_back(out);
  return out;
}

Event Conformance::event() {
  Event out{};
  EXPECT_TRUE(succeeded(device().event_create(out)));
  events_.push_back(out);
  return out;
}

std::size_t Conformance::free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_TRUE(succeeded(device().memory_info(free, total)));
  EXPECT_LE(free, total);
  return free;
}

::testing::AssertionResult Conformance::taken_since(std::size_t before, std::size_t bytes) {
  const std::size_t now = free_bytes();
  const std::size_t expected = before - bytes;
  const std::size_t off = now > expected ? now - expected : expected - now;
  if (off <= subject_->memory_tolerance_bytes()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << now << " bytes are free where " << before << " were, and " << bytes
                                       << " are in use since";
}

void Conformance::fill(Address at, std::uint8_t value, std::size_t bytes, Stream stream) {
  EXPECT_TRUE(succeeded(device().fill(at, value, bytes, stream)));
}

bool Conformance::done(Event event) {
  bool out = false;
  EXPECT_TRUE(succeeded(device().event_query(event, out)));
  return out;
}

void Conformance::wait(Event event) {
  bool out = false;
  EXPECT_TRUE(succeeded(device().event_wait(event, long_time, out)));
  EXPECT_TRUE(out);
}

void Conformance::finish(Stream stream) { EXPECT_TRUE(succeeded(device().stream_synchronize(stream))); }

::testing::AssertionResult Conformance::holds(Address at, std::size_t bytes, std::uint8_t value) {
  const std::vector<std::uint8_t> data = subject_->read_back(device(), at, bytes);
  if (data.size() != bytes) return ::testing::AssertionFailure() << "read back " << data.size() << " of " << bytes;
  const auto other = std::find_if(data.begin(), data.end(), [&](std::uint8_t byte) { return byte != value; });
  if (other == data.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "byte " << other - data.begin() << " is " << int{*other} << ", not "
                                       << int{value};
}

}  // namespace reprieve::device
