// Copies and fills between all kinds of memory.
#include <numeric>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class CopiesTest : public MachineTest {
 protected:
  Code copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes, CopyCall call = CopyCall::queued) {
    return machine.copy(0, Transfer{to, from, bytes}, on, call);
  }

  StreamId on = stream();
  std::vector<unsigned char> pageable = std::vector<unsigned char>(64, 5);
  std::uint64_t host = address_of(pageable.front());
  std::uint64_t device = malloc(64);
};

TEST_F(CopiesTest, BytesFromPageableMemoryAreTakenAtTheCall) {
  works(on, 10 * ms);
  EXPECT_EQ(copy(device, host, 64), Code::success);
  pageable.assign(64, 6);
  EXPECT_EQ(bytes_at(device)[0], 0);
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  EXPECT_EQ(bytes_at(device)[63], 5);
}

TEST_F(CopiesTest, BytesFromPinnedMemoryAreTakenWhenTheCopyRuns) {
  const std::uint64_t pinned = host_alloc(64);
  bytes_at(pinned)[0] = 5;
  works(on, 10 * ms);
  EXPECT_EQ(copy(device, pinned, 64), Code::success);
  bytes_at(pinned)[0] = 6;
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  EXPECT_EQ(bytes_at(device)[0], 6);
}

TEST_F(CopiesTest, ACopyToPageableMemoryReturnsWhenItIsDone) {
  EXPECT_EQ(machine.fill(0, device, 8, 64, on), Code::success);
  works(on, 10 * ms);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(copy(host, device, 64), Code::success);
  EXPECT_EQ(pageable[63], 8);
  EXPECT_GE(machine.now_ns() - before, 10 * ms);
  EXPECT_EQ(machine.free(device), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(CopiesTest, ACopyToPinnedMemoryDoesNotUnlessItIsSynchronous) {
  const std::uint64_t pinned = host_alloc(64);
  EXPECT_EQ(machine.fill(0, device, 8, 64, on), Code::success);
  works(on, 10 * ms);
  EXPECT_EQ(copy(pinned, device, 64), Code::success);
  EXPECT_EQ(bytes_at(pinned)[0], 0);
  EXPECT_EQ(copy(pinned, device, 64, CopyCall::synchronous), Code::success);
  EXPECT_EQ(bytes_at(pinned)[0], 8);
}

TEST_F(CopiesTest, ASynchronousCopyWithinTheDeviceDoesNotWait) {
  const std::uint64_t other = malloc(64);
  EXPECT_EQ(machine.fill(0, device, 8, 64, on), Code::success);
  works(on, 10 * ms);
  EXPECT_EQ(copy(other, device, 64, CopyCall::synchronous), Code::success);
  EXPECT_EQ(bytes_at(other)[0], 0);
}

TEST_F(CopiesTest, ACopyThatCannotEndFailsAndLeavesTheHostAlone) {
  machine.hold(0, on);
  EXPECT_EQ(copy(host, device, 64), Code::launch_timeout);
  EXPECT_EQ(faults(), Kinds{FaultKind::endless_wait});
  machine.resume(0, on);
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  EXPECT_EQ(pageable[0], 5);
}

TEST_F(CopiesTest, DevicesCopyToEachOther) {
  const std::uint64_t other = malloc(64, 1);
  EXPECT_EQ(machine.fill(1, other, 4, 64, legacy_stream), Code::success);
  EXPECT_EQ(machine.synchronize(1), Code::success);
  EXPECT_EQ(copy(device, other, 64), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  EXPECT_EQ(bytes_at(device)[63], 4);
}

TEST_F(CopiesTest, FreedDeviceMemoryIsNotTakenForPageable) {
  EXPECT_EQ(machine.free(device), Code::success);
  EXPECT_EQ(copy(host, device, 64), Code::invalid_value);
  EXPECT_EQ(copy(device, host, 64), Code::invalid_value);
  EXPECT_EQ(faults(), (Kinds{FaultKind::unmapped_use, FaultKind::unmapped_use}));
}

TEST_F(CopiesTest, RowsAreCopiedWithTheirPitches) {
  std::iota(pageable.begin(), pageable.end(), static_cast<unsigned char>(1));
  const Transfer rows{device, host, 3, 10, 20, 3};
  EXPECT_EQ(machine.copy(0, rows, on, CopyCall::queued), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  const std::vector<unsigned char> read(bytes_at(device), bytes_at(device) + 30);
  std::vector<unsigned char> expected(30, 0);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < 3; ++i) expected[row * 10 + i] = static_cast<unsigned char>(1 + row * 20 + i);
  }
  EXPECT_EQ(read, expected);
  EXPECT_EQ(machine.copy(0, Transfer{device, host, 3, 2, 20, 3}, on, CopyCall::queued), Code::invalid_value);
}

TEST_F(CopiesTest, FillsHavePatternsAndPitches) {
  EXPECT_EQ(machine.fill(0, Fill{device, 0x04030201, 4, 8, 0, 1}, on), Code::success);
  EXPECT_EQ(machine.fill(0, Fill{device + 16, 0x0605, 2, 4, 8, 2}, on), Code::success);
  EXPECT_EQ(machine.fill(0, Fill{device + 1, 0, 2, 4, 0, 1}, on), Code::invalid_value);
  EXPECT_EQ(machine.fill(0, Fill{device, 0, 3, 3, 0, 1}, on), Code::invalid_value);
  EXPECT_EQ(machine.stream_synchronize(0, on), Code::success);
  const std::vector<unsigned char> read(bytes_at(device), bytes_at(device) + 32);
  const std::vector<unsigned char> expected = {1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0,
                                               5, 6, 5, 6, 0, 0, 0, 0, 5, 6, 5, 6, 0, 0, 0, 0};
  EXPECT_EQ(read, expected);
}

TEST_F(CopiesTest, ASynchronousCopySpoilsNoCaptureOfAnotherStream) {
  const StreamId capturing = stream();
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  EXPECT_EQ(copy(device, host, 8, CopyCall::synchronous), Code::success);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::success);
}

}  // namespace
}  // namespace reprieve::simgpu
