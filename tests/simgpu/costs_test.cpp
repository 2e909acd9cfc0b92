#include "simgpu/costs.hpp"

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

TEST(CostsTest, AreTheMeasuredOnesAtMeasuredSizes) {
  EXPECT_EQ(costs::create_ns(Location::device, 2 * MiB), 12'000U);
  EXPECT_EQ(costs::create_ns(Location::device, 512 * MiB), 22'000U);
  EXPECT_EQ(costs::create_ns(Location::device, 4096 * MiB), 42'000U);
  EXPECT_EQ(costs::set_access_ns(Location::device, 64 * MiB, false), 30'000U);
  EXPECT_EQ(costs::set_access_ns(Location::device, 512 * MiB, true), 57'000U);
  EXPECT_EQ(costs::unmap_ns(Location::device, 4096 * MiB), 50'000U);
  EXPECT_EQ(costs::release_ns(Location::device, 16 * MiB), 61'000U);
  EXPECT_EQ(costs::release_ns(Location::device, 64 * MiB), 43'000U);
  EXPECT_EQ(costs::create_ns(Location::host, 64 * MiB), 18'000'000U);
  EXPECT_EQ(costs::set_access_ns(Location::host, 64 * MiB, false), 1'300'000U);
  EXPECT_EQ(costs::set_access_ns(Location::host, 64 * MiB, true), 750'000U);
  EXPECT_EQ(costs::unmap_ns(Location::host, 64 * MiB), 200'000U);
  EXPECT_EQ(costs::release_ns(Location::host, 64 * MiB), 1'800'000U);
}

TEST(CostsTest, AreInterpolatedBetweenAndContinuedBeyond) {
  EXPECT_EQ(costs::create_ns(Location::device, 288 * MiB), 17'000U);  // half-way from 64 to 512 MiB
  EXPECT_EQ(costs::unmap_ns(Location::device, 33 * MiB), 20'000U);
  EXPECT_EQ(costs::create_ns(Location::device, 4096 * MiB + 3584 * MiB), 62'000U);
  EXPECT_EQ(costs::release_ns(Location::host, 128 * MiB), 3'600'000U);
}

TEST(CostsTest, WorkGoesByBytes) {
  EXPECT_NEAR(static_cast<double>(costs::fill_work_ns(std::uint64_t{8} << 30)), 113.8e6 / 50, 0.01e6);
  EXPECT_NEAR(static_cast<double>(costs::copy_work_ns(64 * MiB, false)), 100e3, 1e3);
  EXPECT_NEAR(static_cast<double>(costs::copy_work_ns(55'400'000'000, true)), 1e9, 1e6);
}

class ClockTest : public MachineTest {
 protected:
  template <typename F>
  std::uint64_t cost(F&& call) {
    const std::uint64_t before = machine.now_ns();
    call();
    return machine.now_ns() - before;
  }
};

TEST_F(ClockTest, EveryCallMovesTheHostsClock) {
  std::uint64_t at = 0;
  HandleId handle = 0;
  HandleId other = 0;
  EventId event = 0;
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.reserve(128 * MiB, 0, at), Code::success); }), costs::reserve_ns);
  EXPECT_EQ(cost([&] { handle = create(64 * MiB); }), 12'000U);
  other = create(64 * MiB);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.map(at, 64 * MiB, handle), Code::success); }), costs::map_ns);
  EXPECT_EQ(machine.map(at + 64 * MiB, 64 * MiB, other), Code::success);
  // One call over two handles costs what two calls cost.
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.set_access(0, at, 128 * MiB), Code::success); }), 60'000U);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.unmap(at, 128 * MiB), Code::success); }), 40'000U);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.release(handle), Code::success); }), 43'000U);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.event_create(0, event), Code::success); }), costs::event_create_ns);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.event_record(0, event, 0), Code::success); }), costs::event_record_ns);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.event_query(event), Code::success); }), costs::event_query_ns);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.event_record_all(0, event), Code::success); }), costs::record_all_idle_ns);
  works(legacy_stream, 1'000'000);
  EXPECT_EQ(cost([&] { EXPECT_EQ(machine.event_record_all(0, event), Code::success); }), costs::record_all_busy_ns);
  EXPECT_EQ(cost([&] { machine.advance(123); }), 123U);
}

TEST_F(ClockTest, HostChunksAreCheaperToMapAgain) {
  const std::uint64_t at = reserve(64 * MiB);
  const HandleId handle = create(64 * MiB, Location::host);
  EXPECT_EQ(cost([&] { map(at, 64 * MiB, handle); }), costs::map_ns + 1'300'000U);
  EXPECT_EQ(machine.unmap(at, 64 * MiB), Code::success);
  EXPECT_EQ(cost([&] { map(at, 64 * MiB, handle); }), costs::map_ns + 750'000U);
}

}  // namespace
}  // namespace reprieve::simgpu
