// cudaMalloc, pinned and registered memory, and what an address is.
#include <array>
#include <cstdio>
#include <fstream>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

class PlainMemoryTest : public MachineTest {
 protected:
  PointerInfo look(std::uint64_t address) {
    PointerInfo out;
    machine.find_pointer(address, out);
    return out;
  }
  PointerKind kind(std::uint64_t address) { return look(address).kind; }
};

TEST_F(PlainMemoryTest, TakesWholeGranulesOfTheDevice) {
  const std::uint64_t one = malloc(1);
  EXPECT_EQ(one % granularity, 0U);
  EXPECT_EQ(machine.used_bytes(0), 2 * MiB);
  const std::uint64_t two = malloc(2 * MiB + 1);
  EXPECT_EQ(machine.used_bytes(0), 6 * MiB);
  EXPECT_EQ(machine.used_bytes(1), 0U);
  bytes_at(two)[2 * MiB] = 7;
  EXPECT_EQ(machine.free(one), Code::success);
  EXPECT_EQ(machine.free(two), Code::success);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  EXPECT_EQ(machine.peak_used_bytes(0), 6 * MiB);
  EXPECT_EQ(bytes_at(malloc(4 * MiB))[2 * MiB], 0);
}

TEST_F(PlainMemoryTest, SharesOneCapacityWithHandlesAndPools) {
  create(100 * MiB);
  malloc(100 * MiB);
  std::uint64_t out = 0;
  EXPECT_EQ(machine.malloc(0, 100 * MiB, out), Code::out_of_memory);
  EXPECT_EQ(machine.malloc_async(machine.default_pool(0), 100 * MiB, legacy_stream, out), Code::out_of_memory);
  EXPECT_EQ(machine.malloc(0, ~std::uint64_t{0}, out), Code::out_of_memory);
  EXPECT_EQ(machine.malloc(0, 56 * MiB, out), Code::success);
  EXPECT_EQ(machine.malloc(2, 1, out), Code::invalid_device);
}

TEST_F(PlainMemoryTest, NothingIsAllocatedForNoBytes) {
  std::uint64_t out = 1;
  EXPECT_EQ(machine.malloc(0, 0, out), Code::success);
  EXPECT_EQ(out, 0U);
  EXPECT_EQ(machine.free(0), Code::success);
}

TEST_F(PlainMemoryTest, OnlyABaseIsFreedAndOnlyOnce) {
  const std::uint64_t at = malloc(8);
  EXPECT_EQ(machine.free(at + 4), Code::invalid_value);
  EXPECT_EQ(machine.free(mapped(chunk_bytes)), Code::invalid_value);
  EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::invalid_value);
  EXPECT_EQ(machine.free(at), Code::success);
  EXPECT_EQ(machine.free(at), Code::invalid_value);
}

TEST_F(PlainMemoryTest, FreeWaitsForTheDevice) {
  const std::uint64_t at = malloc(8);
  const StreamId stream = this->stream();
  writes(stream, at, 8, 5'000'000);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.free(at), Code::success);
  EXPECT_GE(machine.now_ns() - before, 5'000'000U);
  EXPECT_EQ(faults(), Kinds{});
  // As the early unmap that it would be, were it not waited for: another device's work is not.
  const std::uint64_t next = malloc(8);
  EXPECT_EQ(machine.launch(1, this->stream(1), {"reader", {{next, 8}}, {}, 5'000'000, {}}), Code::success);
  EXPECT_EQ(machine.free(next), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
}

TEST_F(PlainMemoryTest, FreeOfWhatAHeldStreamUsesIsAnEndlessWait) {
  const std::uint64_t at = malloc(8);
  const StreamId stream = this->stream();
  machine.hold(0, stream);
  writes(stream, at, 8);
  EXPECT_EQ(machine.free(at), Code::launch_timeout);
  EXPECT_EQ(faults(), Kinds{FaultKind::endless_wait});
  EXPECT_EQ(kind(at), PointerKind::plain);
}

TEST_F(PlainMemoryTest, ManyAllocationsAreFewMappingsOfTheProcess) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
  };
  const int before = mappings();
  std::array<std::uint64_t, 100> at{};
  for (std::uint64_t& one : at) one = malloc(chunk_bytes);
  EXPECT_LE(mappings() - before, 4);
  for (const std::uint64_t one : at) EXPECT_EQ(machine.free(one), Code::success);
  EXPECT_LE(mappings() - before, 4);
}

TEST_F(PlainMemoryTest, IsIllegalDuringCaptureUnlessRelaxed) {
  const std::uint64_t at = malloc(8);
  const StreamId capturing = stream();
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  std::uint64_t out = 0;
  EXPECT_EQ(machine.malloc(0, 8, out), Code::capture_unsupported);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::capture_invalidated);
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  const CaptureMode mode = exchange_capture_mode(CaptureMode::relaxed);
  EXPECT_EQ(machine.malloc(0, 8, out), Code::success);
  EXPECT_EQ(machine.free(at), Code::success);
  exchange_capture_mode(mode);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::success);
}

TEST_F(PlainMemoryTest, PinnedMemoryCountsAgainstTheHost) {
  const std::uint64_t at = host_alloc(5000);
  EXPECT_EQ(machine.host_used_bytes(), 8192U);
  EXPECT_EQ(machine.used_bytes(0), 0U);
  std::uint64_t out = 0;
  EXPECT_EQ(machine.host_alloc(0, 128 * MiB, out), Code::out_of_memory);
  bytes_at(at)[4999] = 1;
  EXPECT_EQ(machine.host_free(at + 1), Code::invalid_value);
  EXPECT_EQ(machine.host_free(at), Code::success);
  EXPECT_EQ(machine.host_free(at), Code::invalid_value);
  EXPECT_EQ(machine.host_used_bytes(), 0U);
}

TEST_F(PlainMemoryTest, RegisteredMemoryStaysTheCallers) {
  std::array<unsigned char, 1000> own{};
  const std::uint64_t at = address_of(own);
  EXPECT_EQ(machine.host_register(0, at, own.size()), Code::success);
  EXPECT_EQ(machine.host_used_bytes(), own.size());
  EXPECT_EQ(machine.host_register(0, at + 10, 10), Code::already_registered);
  EXPECT_EQ(machine.host_unregister(at + 10), Code::not_registered);
  EXPECT_EQ(machine.host_free(at), Code::invalid_value);
  EXPECT_EQ(machine.host_unregister(at), Code::success);
  EXPECT_EQ(machine.host_unregister(at), Code::not_registered);
  EXPECT_EQ(machine.host_register(0, malloc(8), 8), Code::invalid_value);
}

TEST_F(PlainMemoryTest, AnAddressTellsWhatItIs) {
  int own = 0;
  const std::uint64_t plain = malloc(100, 1);
  const std::uint64_t pinned = host_alloc(100);
  const std::uint64_t by_handle = mapped(chunk_bytes);
  std::uint64_t managed = 0;
  EXPECT_EQ(machine.malloc(0, 100, managed, true), Code::success);
  EXPECT_EQ(kind(address_of(own)), PointerKind::none);
  EXPECT_EQ(kind(plain + chunk_bytes), PointerKind::none);
  EXPECT_EQ(kind(managed), PointerKind::managed);
  EXPECT_EQ(kind(by_handle + 5), PointerKind::mapped);
  EXPECT_EQ(look(by_handle + 5).access, 1U);
  const PointerInfo info = look(plain + 99);
  EXPECT_EQ(info.kind, PointerKind::plain);
  EXPECT_EQ(info.where, Location::device);
  EXPECT_EQ(info.device, 1);
  EXPECT_EQ(info.base, plain);
  EXPECT_EQ(info.bytes, 100U);
  EXPECT_EQ(look(pinned).where, Location::host);
  EXPECT_NE(look(pinned).id, info.id);
  EXPECT_TRUE(machine.accessible(0, plain, 100));
  EXPECT_FALSE(machine.accessible(1, by_handle, 1));
  EXPECT_FALSE(machine.accessible(0, by_handle, chunk_bytes + 1));
}

TEST_F(PlainMemoryTest, AHandleIsFoundByItsAddressAndCountsItsHolders) {
  const std::uint64_t at = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(at, chunk_bytes, handle);
  HandleId second = 0;
  EXPECT_EQ(machine.retain(at + 100, second), Code::success);
  EXPECT_EQ(machine.retain(malloc(8), second), Code::invalid_value);
  HandleInfo info;
  EXPECT_EQ(machine.handle_info(second, info), Code::success);
  EXPECT_EQ(info.bytes, chunk_bytes);
  EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
  EXPECT_EQ(machine.release(handle), Code::success);
  const std::uint64_t used = machine.used_bytes(0);
  EXPECT_EQ(machine.release(second), Code::success);
  EXPECT_EQ(machine.used_bytes(0), used - chunk_bytes);
}

class PoisonOnUseTest : public MachineTest {
 protected:
  PoisonOnUseTest() : MachineTest(config()) {}
  static Config config() {
    Config out;
    out.device_bytes = std::uint64_t{1} << 40;
    out.poison = Poison::on_use;
    return out;
  }
};

TEST_F(PoisonOnUseTest, WhatWorkReadsFirstIsPoisoned) {
  const std::uint64_t at = malloc(4 * MiB);
  unsigned char read[4] = {};
  EXPECT_EQ(machine.copy(0, Transfer{address_of(read), at + MiB, 4}, legacy_stream, CopyCall::synchronous),
            Code::success);
  EXPECT_EQ(read[3], 0xa5);
  // So is what is beside what is written, but what is written stays.
  EXPECT_EQ(machine.fill(0, at + 3 * MiB, 1, 100'000, legacy_stream), Code::success);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_EQ(bytes_at(at)[3 * MiB + 99'999], 1);
  EXPECT_EQ(bytes_at(at)[3 * MiB + 100'000], 0xa5);
  EXPECT_EQ(machine.copy(0, Transfer{address_of(read), at + 3 * MiB, 4}, legacy_stream, CopyCall::synchronous),
            Code::success);
  EXPECT_EQ(read[0], 1);
}

TEST_F(PoisonOnUseTest, WhatIsNotUsedIsNotCommitted) {
  const std::uint64_t bytes = std::uint64_t{512} << 30;  // far more than the host has
  const std::uint64_t at = malloc(bytes);
  EXPECT_EQ(machine.launch(0, legacy_stream, {"kernel", {}, {{at, bytes}}, 1, {}}), Code::success);
  EXPECT_EQ(machine.fill(0, at + bytes / 2, 3, 10, legacy_stream), Code::success);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_EQ(bytes_at(at + bytes / 2)[9], 3);
  EXPECT_EQ(bytes_at(at + bytes / 2)[10], 0xa5);
  EXPECT_EQ(bytes_at(at + 5)[0], 0);
}

TEST_F(PoisonOnUseTest, MemoryOfHandlesKeepsItsBytesWhenItIsMappedAgain) {
  const std::uint64_t at = reserve(2 * chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(at, chunk_bytes, handle);
  map(at + chunk_bytes, chunk_bytes, handle);
  EXPECT_EQ(machine.fill(0, at, 9, 16, legacy_stream), Code::success);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_EQ(bytes_at(at + chunk_bytes)[15], 9);
  EXPECT_EQ(bytes_at(at + chunk_bytes)[16], 0xa5);
}

}  // namespace
}  // namespace reprieve::simgpu
