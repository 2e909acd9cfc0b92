// What the tests of the memory layer share: an allocator on a simulated device, shorthands that fail the test where a
// call does, and the check at a test's end that records agree, nothing was used wrongly, and all memory went back.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "device/sim.hpp"
#include "memory/allocator.hpp"
#include "simgpu/machine.hpp"

namespace reprieve {

inline void PrintTo(Errc code, std::ostream* out) {
  const char* const names[] = {"ok",           "out_of_memory", "invalid_argument", "not_supported",
                               "device_error", "host_memory"};
  *out << names[static_cast<std::size_t>(code)];
}

}  // namespace reprieve

namespace reprieve::memory {

inline constexpr std::uint64_t KiB = 1ULL << 10;
inline constexpr std::uint64_t MiB = 1ULL << 20;
inline constexpr std::uint64_t GiB = 1ULL << 30;
inline constexpr std::uint64_t ms = 1'000'000;  // of the virtual clock

struct Rig {
  Settings settings{};
  simgpu::Config machine{1, 4 * GiB, 4 * GiB, true, false};
};

class MemoryTest : public ::testing::Test {
 protected:
  explicit MemoryTest(const Rig& rig = {}) : machine(rig.machine) {
    device::SimBackend backend(machine);
    EXPECT_TRUE(backend.open(0, opened).ok());
    allocator = std::make_unique<Allocator>(*opened, addresses, rig.settings);
  }

  void TearDown() override {
    machine.clear_failures();
    expect_consistent();
    allocator.reset();
    EXPECT_EQ(machine.used_bytes(0), 0U);
    EXPECT_EQ(machine.mapping_count(), 0U);
    expect_no_faults();
  }

  void expect_no_faults() {
    for (const simgpu::Fault& fault : machine.faults()) ADD_FAILURE() << fault.text;
  }
  void expect_consistent() {
    EXPECT_EQ(allocator->validate(), "");
    expect_no_faults();
  }

  Stream stream() {
    Stream out{};
    EXPECT_TRUE(opened->stream_create(out).ok());
    return out;
  }
  void* alloc(Stream on, std::uint64_t bytes, PoolId pool = 0) {
    void* out = nullptr;
    EXPECT_EQ(allocator->allocate(on, pool, bytes, &out).code, Errc::ok);
    return out;
  }
  Errc alloc_code(Stream on, std::uint64_t bytes, PoolId pool = 0) {
    void* out = nullptr;
    const Errc code = allocator->allocate(on, pool, bytes, &out).code;
    if (code == Errc::ok) free(out);
    return code;
  }
  std::vector<void*> alloc_many(Stream on, std::size_t count, std::uint64_t bytes) {
    std::vector<void*> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(alloc(on, bytes));
    return out;
  }
  void free(void* ptr) { EXPECT_EQ(Allocator::free(addresses, ptr).code, Errc::ok); }
  void free_all(std::vector<void*>& blocks) {
    for (void* block : std::exchange(blocks, {})) free(block);
  }
  void free_on(void* ptr, Stream on) { EXPECT_EQ(Allocator::free_on(addresses, ptr, on).code, Errc::ok); }
  void record(void* ptr, Stream on) { EXPECT_EQ(Allocator::record_stream(addresses, ptr, on).code, Errc::ok); }
  PoolId pool(bool graph) {
    PoolId out = 0;
    EXPECT_TRUE(allocator->create_pool(graph, out).ok());
    return out;
  }

  // Queues work that fills the block.
  void write(Stream on, void* ptr, std::uint64_t bytes, std::uint8_t value, std::uint64_t duration_ns = 1'000) {
    simgpu::Work work{"writer", {}, {{address(ptr), bytes}}, duration_ns, {}};
    work.effect = [ptr, bytes, value] { std::memset(ptr, value, bytes); };
    EXPECT_EQ(machine.launch(0, id(on), std::move(work)), simgpu::Code::success);
  }
  // Queues work that reads the block and notes whether every byte is `value`.
  void check(Stream on, void* ptr, std::uint64_t bytes, std::uint8_t value, std::uint64_t duration_ns = 1'000) {
    simgpu::Work work{"reader", {{address(ptr), bytes}}, {}, duration_ns, {}};
    work.effect = [this, ptr, bytes, value] {
      const auto* const data = static_cast<const std::uint8_t*>(ptr);
      const bool same = data[0] == value && std::memcmp(data, data + 1, bytes - 1) == 0;
      (same ? checks_passed : checks_failed) += 1;
    };
    EXPECT_EQ(machine.launch(0, id(on), std::move(work)), simgpu::Code::success);
  }
  void hold(Stream on) { EXPECT_TRUE(machine.hold(0, id(on))); }
  void resume(Stream on) { EXPECT_TRUE(machine.resume(0, id(on))); }
  void capture(Stream on) {
    EXPECT_EQ(machine.begin_capture(0, id(on), simgpu::CaptureMode::global), simgpu::Code::success);
  }
  // Fails the test where the capture was spoilt.
  void end_capture(Stream on) { EXPECT_EQ(machine.end_capture(0, id(on)), simgpu::Code::success); }
  void synchronize() { EXPECT_EQ(machine.synchronize(0), simgpu::Code::success); }

  std::uint64_t reserved() { return static_cast<std::uint64_t>(allocator->stats().reserved_bytes.current); }
  Counter metric(Metric m) { return allocator->stats().metrics[m]; }
  std::uint64_t calls(device::Call call) const { return opened->call_stats().count[static_cast<std::size_t>(call)]; }

  static std::uint64_t address(void* ptr) { return reinterpret_cast<std::uint64_t>(ptr); }
  static simgpu::StreamId id(Stream on) { return static_cast<simgpu::StreamId>(on); }

  simgpu::Machine machine;
  std::unique_ptr<device::Device> opened;
  AddressMap addresses;
  std::unique_ptr<Allocator> allocator;
  int checks_passed = 0;
  int checks_failed = 0;
};

}  // namespace reprieve::memory
