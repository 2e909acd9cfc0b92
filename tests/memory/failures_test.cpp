// Every driver call failed once at every place: an operation succeeds or returns that error itself, records agree, and
// nothing is leaked.
#include <algorithm>
#include <array>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

using simgpu::Code;

// One run of a fixed course of operations that comes by every call of the driver that the allocator makes.
class Course {
 public:
  // `code`: what an injected failure returns; success: none is injected.
  explicit Course(Code code) : code_(code) {
    device::SimBackend backend(machine_);
    EXPECT_TRUE(backend.open(0, device_).ok());
    Settings settings;
    settings.chunk_max = 16 * MiB;
    allocator_ = std::make_unique<Allocator>(*device_, addresses_, settings);
    for (Stream& stream : streams_) EXPECT_TRUE(device_->stream_create(stream).ok());
  }

  ~Course() {
    machine_.clear_failures();
    for (void* block : live_) EXPECT_TRUE(Allocator::free(addresses_, block).ok());
    EXPECT_EQ(allocator_->live_blocks(), 0);
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(machine_.synchronize(0), Code::success);
    EXPECT_TRUE(allocator_->trim(0).ok());
    EXPECT_EQ(allocator_->stats().reserved_bytes.current, 0);
    EXPECT_EQ(machine_.used_bytes(0), 0U);
    EXPECT_EQ(machine_.mapping_count(), 0U);
    allocator_.reset();
    EXPECT_EQ(machine_.used_bytes(0), 0U);
    for (const simgpu::Fault& fault : machine_.faults()) ADD_FAILURE() << fault.text;
  }

  void fail(device::Call call, std::uint64_t after, std::uint64_t times) {
    machine_.fail(device::sim_call(call), after, times, code_);
  }
  bool failed_something() { return machine_.pending_failures() == 0; }
  std::uint64_t count(device::Call call) const { return device_->call_stats().count[static_cast<std::size_t>(call)]; }

  void run() {
    const auto [a, b] = streams_;
    allocate(a, 40 * MiB, 0);
    allocate(a, 16 * MiB, 1);
    allocate(a, 24 * MiB, 2);
    allocate(a, 4 * KiB, 3);
    allocate(b, 8 * MiB, 4);
    use(a, 0), use(a, 2), use(b, 4);
    free(0);
    free(2);
    allocate(a, 60 * MiB, 0);  // harvests
    use(a, 0);
    record(1, b);
    use(b, 1);
    free(1);  // deferred
    free_on(4, a);
    allocate(b, 16 * MiB, 1);
    check(allocator_->trim(48 * MiB));
    if (allocator_->create_pool(true, pool_).ok()) allocate(a, 6 * MiB, 2, pool_);
    use(a, 2);
    free(2);
    check(allocator_->destroy_pool(pool_));
    allocator_->set_limit(80 * MiB);
    free(0);
    allocate(b, 50 * MiB, 0);  // takes another stream's, and waits for it
    use(b, 0);
    allocate(a, 200 * MiB, 5);  // does not fit
    EXPECT_EQ(blocks_[5], nullptr);
    allocator_->set_limit(0);
    allocate(a, 100 * MiB, 5);
    free(3);
    free(5);
    check(allocator_->trim(0));
  }

 private:
  // After each operation: it has succeeded, or failed as was injected (or, where that may be, for want of memory), and
  // the records agree.
  bool check(Status status, bool may_be_too_much = false) {
    if (!status.ok() && !(may_be_too_much && status.is(Errc::out_of_memory))) {
      const Errc injected = code_ == Code::out_of_memory ? Errc::out_of_memory : Errc::device_error;
      EXPECT_EQ(status.code, injected) << status.what;
      EXPECT_NE(code_, Code::success) << status.what;
      EXPECT_TRUE(status.driver == static_cast<int>(code_) || status.is(Errc::out_of_memory)) << status.driver;
    }
    EXPECT_EQ(allocator_->validate(), "");
    return status.ok();
  }
  void allocate(Stream on, std::uint64_t bytes, std::size_t slot, PoolId pool = 0) {
    void* out = nullptr;
    if (check(allocator_->allocate(on, pool, bytes, &out), bytes == 200 * MiB)) live_.push_back(out);
    blocks_[slot] = out;
    bytes_[slot] = bytes;
  }
  void forget(std::size_t slot) {
    std::erase(live_, blocks_[slot]);
    blocks_[slot] = nullptr;
  }
  void free(std::size_t slot) {
    if (blocks_[slot] != nullptr && check(Allocator::free(addresses_, blocks_[slot]))) forget(slot);
  }
  void free_on(std::size_t slot, Stream on) {
    if (blocks_[slot] != nullptr && check(Allocator::free_on(addresses_, blocks_[slot], on))) forget(slot);
  }
  void record(std::size_t slot, Stream on) {
    if (blocks_[slot] != nullptr) check(Allocator::record_stream(addresses_, blocks_[slot], on));
  }
  void use(Stream on, std::size_t slot) {
    if (blocks_[slot] == nullptr) return;
    const auto at = reinterpret_cast<std::uint64_t>(blocks_[slot]);
    EXPECT_EQ(machine_.launch(0, static_cast<simgpu::StreamId>(on), {"work", {}, {{at, bytes_[slot]}}, 20 * ms, {}}),
              Code::success);
  }

  const Code code_;
  simgpu::Machine machine_{{1, 256 * MiB, 256 * MiB, true, false}};
  std::unique_ptr<device::Device> device_;
  AddressMap addresses_;
  std::unique_ptr<Allocator> allocator_;
  std::array<Stream, 2> streams_{};
  PoolId pool_ = 0;
  std::array<void*, 6> blocks_{};
  std::array<std::uint64_t, 6> bytes_{};
  std::vector<void*> live_;
};

constexpr device::Call fallible[] = {
    device::Call::reserve,      device::Call::create,      device::Call::release,     device::Call::map,
    device::Call::set_access,   device::Call::unmap,       device::Call::memory_info, device::Call::event_create,
    device::Call::event_record, device::Call::event_query, device::Call::event_wait,  device::Call::is_capturing,
};

class FailuresTest : public ::testing::TestWithParam<device::Call> {};

TEST_P(FailuresTest, OnceAtEveryPlace) {
  const device::Call call = GetParam();
  std::uint64_t calls = 0;
  {
    Course course(Code::success);
    course.run();
    calls = course.count(call);
    ASSERT_GT(calls, 0U) << "the course does not come by this call";
  }
  for (const Code code : {Code::unknown, Code::out_of_memory}) {
    for (const std::uint64_t times : {1U, 3U}) {
      for (std::uint64_t after = 0; after < calls; ++after) {
        SCOPED_TRACE(std::string(device::call_name(call)) + " number " + std::to_string(after) + ", " +
                     std::to_string(times) + " times, " + simgpu::code_name(static_cast<int>(code)));
        Course course(code);
        course.fail(call, after, times);
        course.run();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(FailuresTest, FromSomeTimeOn) {
  std::uint64_t calls = 0;
  {
    Course course(Code::success);
    course.run();
    calls = course.count(GetParam());
  }
  for (std::uint64_t after = 0; after < calls; ++after) {
    SCOPED_TRACE(std::string(device::call_name(GetParam())) + " from number " + std::to_string(after) + " on");
    Course course(Code::unknown);
    course.fail(GetParam(), after, ~std::uint64_t{0});
    course.run();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, FailuresTest, ::testing::ValuesIn(fallible),
                         [](const auto& parameter) { return std::string(device::call_name(parameter.param)); });

class DriverErrorsTest : public MemoryTest {};

TEST_F(DriverErrorsTest, AnErrorThatIsNoOutOfMemoryIsPassedOnAtOnce) {
  const Stream s = stream();
  machine.fail(simgpu::Call::create, 0, 1, simgpu::Code::illegal_address);
  void* out = nullptr;
  const Status status = allocator->allocate(s, 0, 16 * MiB, &out);
  EXPECT_EQ(status.code, Errc::device_error);
  EXPECT_EQ(status.driver, 700);
  EXPECT_STREQ(status.what, "create");
  EXPECT_EQ(allocator->stats().ooms, 0);
  EXPECT_EQ(allocator->stats().alloc_retries, 0);
}

TEST_F(DriverErrorsTest, ADriverThatCannotTellItsMemoryIsNotTakenForAFullOne) {
  const Stream s = stream();
  machine.fail(simgpu::Call::memory_info, 0, 1'000, simgpu::Code::unknown);
  EXPECT_EQ(alloc_code(s, 16 * MiB), Errc::ok);
}

TEST_F(DriverErrorsTest, WhatTheDriverRefusedToUnmapIsTriedAgain) {
  const Stream s = stream();
  free(alloc(s, 16 * MiB));
  machine.fail(simgpu::Call::unmap, 0, 1, simgpu::Code::unknown);
  machine.fail(simgpu::Call::release, 0, 1, simgpu::Code::unknown);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), machine.used_bytes(0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(machine.used_bytes(0), 0U);
}

}  // namespace
}  // namespace reprieve::memory
