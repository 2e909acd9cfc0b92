#include <array>
#include <cstdio>
#include <fstream>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

// How many mappings the kernel keeps for [at, at + bytes).
int kernel_mappings(std::uint64_t at, std::uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    if (begin < at + bytes && end > at) ++count;
  }
  return count;
}

using MemoryTest = MachineTest;

TEST_F(MemoryTest, CapacityIsEnforcedAtEveryCreate) {
  HandleId handle = 0;
  EXPECT_EQ(machine.create(0, Location::device, 258 * MiB, handle), Code::out_of_memory);
  const HandleId all = create(256 * MiB);
  EXPECT_EQ(machine.create(0, Location::device, 2 * MiB, handle), Code::out_of_memory);
  create(256 * MiB, Location::device, 1);  // the other device has its own
  EXPECT_EQ(machine.release(all), Code::success);
  create(2 * MiB);
  EXPECT_EQ(machine.used_bytes(0), 2 * MiB);
  EXPECT_EQ(machine.used_bytes(1), 256 * MiB);
}

TEST_F(MemoryTest, CapacityAndForeignUseChangeWhileRunning) {
  create(64 * MiB);
  HandleId handle = 0;
  machine.set_capacity(0, 32 * MiB);
  EXPECT_EQ(machine.create(0, Location::device, 2 * MiB, handle), Code::out_of_memory);
  std::uint64_t free = 1;
  std::uint64_t total = 0;
  EXPECT_EQ(machine.memory_info(0, free, total), Code::success);
  EXPECT_EQ(free, 0U);
  EXPECT_EQ(total, 32 * MiB);
  machine.set_capacity(0, 100 * MiB);
  machine.set_foreign_use(0, 30 * MiB);
  EXPECT_EQ(machine.memory_info(0, free, total), Code::success);
  EXPECT_EQ(free, 6 * MiB);
  EXPECT_EQ(machine.create(0, Location::device, 8 * MiB, handle), Code::out_of_memory);
  EXPECT_EQ(machine.create(0, Location::device, 6 * MiB, handle), Code::success);
}

TEST_F(MemoryTest, HostMemoryHasACapacityOfItsOwn) {
  const HandleId host = create(128 * MiB, Location::host);
  HandleId handle = 0;
  EXPECT_EQ(machine.create(1, Location::host, 2 * MiB, handle), Code::out_of_memory);
  EXPECT_EQ(machine.host_used_bytes(), 128 * MiB);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  machine.set_host_capacity(130 * MiB);
  create(2 * MiB, Location::host);
  EXPECT_EQ(machine.release(host), Code::success);
  EXPECT_EQ(machine.host_used_bytes(), 2 * MiB);
}

TEST_F(MemoryTest, AReleasedHandleCountsUntilItsLastMappingIsGone) {
  const std::uint64_t first = reserve(chunk_bytes);
  const std::uint64_t second = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(first, chunk_bytes, handle);
  map(second, chunk_bytes, handle);
  EXPECT_EQ(machine.release(handle), Code::success);
  EXPECT_EQ(machine.release(handle), Code::invalid_value);
  EXPECT_EQ(machine.unmap(first, chunk_bytes), Code::success);
  EXPECT_EQ(machine.used_bytes(0), chunk_bytes);
  EXPECT_EQ(machine.map(first, chunk_bytes, handle), Code::invalid_value);
  EXPECT_EQ(machine.unmap(second, chunk_bytes), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  EXPECT_EQ(machine.mapping_count(), 0U);
}

TEST_F(MemoryTest, TwoAddressesOfOneHandleShareBytes) {
  const std::uint64_t first = reserve(chunk_bytes);
  const std::uint64_t second = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(first, chunk_bytes, handle);
  map(second, chunk_bytes, handle);
  bytes_at(first)[12345] = 77;
  EXPECT_EQ(bytes_at(second)[12345], 77);
  EXPECT_EQ(machine.unmap(first, chunk_bytes), Code::success);
  EXPECT_EQ(bytes_at(second)[12345], 77);
}

TEST_F(MemoryTest, BytesGoBackToTheSystemAndFreshOnesAreZero) {
  const std::uint64_t at = reserve(chunk_bytes);
  for (int round = 0; round < 3; ++round) {
    const HandleId handle = create(chunk_bytes);
    map(at, chunk_bytes, handle);
    for (std::uint64_t i = 0; i < chunk_bytes; i += 4096) ASSERT_EQ(bytes_at(at)[i], 0) << round;
    bytes_at(at)[0] = 1;
    bytes_at(at)[chunk_bytes - 4096] = 1;
    EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
    EXPECT_EQ(machine.release(handle), Code::success);
  }
}

TEST_F(MemoryTest, OnlyAccessibleMappingsCanBeTouched) {
  const std::uint64_t at = reserve(2 * chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  EXPECT_DEATH(bytes_at(at)[0] = 1, "");
  ASSERT_EQ(machine.map(at, chunk_bytes, handle), Code::success);
  EXPECT_DEATH(bytes_at(at)[0] = 1, "");
  ASSERT_EQ(machine.set_access(0, at, chunk_bytes), Code::success);
  bytes_at(at)[0] = 1;
  EXPECT_DEATH(bytes_at(at)[chunk_bytes] = 1, "");
  ASSERT_EQ(machine.unmap(at, chunk_bytes), Code::success);
  EXPECT_DEATH(bytes_at(at)[0] = 1, "");
}

TEST_F(MemoryTest, NeighbouringChunksAreOneMappingToTheKernel) {
  constexpr std::uint64_t count = 100;
  const std::uint64_t at = reserve(count * chunk_bytes);
  const std::uint64_t other = reserve(count * chunk_bytes);
  // Two ranges grow in turn, each at its end: neither's chunks are created one after the other.
  for (std::uint64_t i = 0; i < count; ++i) {
    map(at + i * chunk_bytes, chunk_bytes, create(chunk_bytes, Location::device, 0));
    if (i % 4 == 0) map(other + i / 4 * chunk_bytes, chunk_bytes, create(chunk_bytes));
  }
  EXPECT_EQ(kernel_mappings(at, count * chunk_bytes), 1);
  EXPECT_LE(kernel_mappings(other, count * chunk_bytes), 2);  // and the rest of the reservation
  EXPECT_EQ(machine.unmap(at + 50 * chunk_bytes, chunk_bytes), Code::success);
  EXPECT_EQ(kernel_mappings(at, count * chunk_bytes), 3);
}

TEST_F(MemoryTest, AGrowingRangeIsOneMappingInEitherDirection) {
  const std::uint64_t at = reserve(8 * chunk_bytes);
  for (std::uint64_t i = 8; i-- > 0;) map(at + i * chunk_bytes, chunk_bytes, create(chunk_bytes));
  EXPECT_EQ(kernel_mappings(at, 8 * chunk_bytes), 1);
}

TEST_F(MemoryTest, UnmapTakesSeveralWholeMappings) {
  const std::uint64_t at = reserve(4 * chunk_bytes);
  for (std::uint64_t i = 0; i < 3; ++i) map(at + i * chunk_bytes, chunk_bytes, create(chunk_bytes));
  EXPECT_EQ(machine.unmap(at, 4 * chunk_bytes), Code::invalid_value);
  EXPECT_EQ(machine.mapping_count(), 3U);
  EXPECT_EQ(machine.unmap(at, 3 * chunk_bytes), Code::success);
  EXPECT_EQ(machine.mapping_count(), 0U);
}

TEST_F(MemoryTest, AbsurdSizesAndAddressesAreRefused) {
  constexpr std::uint64_t absurd = ~std::uint64_t{0} - 2 * MiB + 1;
  std::uint64_t at = 0;
  HandleId handle = 0;
  EXPECT_EQ(machine.reserve(absurd, 0, at), Code::out_of_memory);
  EXPECT_EQ(machine.reserve(std::uint64_t{1} << 50, 0, at), Code::out_of_memory);
  EXPECT_EQ(machine.create(0, Location::device, absurd, handle), Code::out_of_memory);
  EXPECT_EQ(machine.create(7, Location::device, chunk_bytes, handle), Code::invalid_device);
  const std::uint64_t range = reserve(2 * chunk_bytes);
  EXPECT_EQ(machine.map(absurd, chunk_bytes, create(chunk_bytes)), Code::invalid_value);
  EXPECT_EQ(machine.map(range + 4096, chunk_bytes, create(chunk_bytes)), Code::invalid_value);
  EXPECT_EQ(machine.unmap(range, absurd), Code::invalid_value);
  EXPECT_EQ(machine.unmap(range, 0), Code::invalid_value);
}

class PoisonTest : public MachineTest {
 protected:
  PoisonTest() : MachineTest({1, 16 * MiB, 16 * MiB, true, true}) {}
};

TEST_F(PoisonTest, FreshMemoryIsPoisonedOnce) {
  const std::uint64_t at = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(at, chunk_bytes, handle);
  EXPECT_EQ(bytes_at(at)[0], 0xa5);
  EXPECT_EQ(bytes_at(at)[chunk_bytes - 1], 0xa5);
  bytes_at(at)[0] = 1;
  EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
  map(at, chunk_bytes, handle);
  EXPECT_EQ(bytes_at(at)[0], 1);
}

}  // namespace
}  // namespace reprieve::simgpu
