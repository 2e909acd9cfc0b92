// What the tests of the simulated machine share: a machine, and shorthands that fail the test where a call does.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "simgpu/machine.hpp"

namespace reprieve::simgpu {

inline void PrintTo(Code code, std::ostream* out) { *out << code_name(static_cast<std::int32_t>(code)); }

inline constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t chunk_bytes = 2 * MiB;

template <typename T>
std::uint64_t address_of(const T& object) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&object));
}
inline unsigned char* bytes_at(std::uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

class MachineTest : public ::testing::Test {
 protected:
  explicit MachineTest(const Config& config = {2, 256 * MiB, 128 * MiB, true, false}) : machine(config) {}

  std::uint64_t reserve(std::uint64_t bytes) {
    std::uint64_t at = 0;
    EXPECT_EQ(machine.reserve(bytes, 0, at), Code::success);
    return at;
  }
  HandleId create(std::uint64_t bytes, Location where = Location::device, int device = 0) {
    HandleId out = 0;
    EXPECT_EQ(machine.create(device, where, bytes, out), Code::success);
    return out;
  }
  void map(std::uint64_t at, std::uint64_t bytes, HandleId handle, int device = 0) {
    EXPECT_EQ(machine.map(at, bytes, handle), Code::success);
    EXPECT_EQ(machine.set_access(device, at, bytes), Code::success);
  }
  std::uint64_t mapped(std::uint64_t bytes, Location where = Location::device) {
    const std::uint64_t at = reserve(bytes);
    map(at, bytes, create(bytes, where));
    return at;
  }
  std::uint64_t malloc(std::uint64_t bytes, int device = 0) {
    std::uint64_t out = 0;
    EXPECT_EQ(machine.malloc(device, bytes, out), Code::success);
    return out;
  }
  std::uint64_t host_alloc(std::uint64_t bytes) {
    std::uint64_t out = 0;
    EXPECT_EQ(machine.host_alloc(0, bytes, out), Code::success);
    return out;
  }
  std::uint64_t malloc_async(std::uint64_t bytes, StreamId stream) {
    std::uint64_t out = 0;
    EXPECT_EQ(machine.malloc_async(machine.default_pool(0), bytes, stream, out), Code::success);
    return out;
  }
  StreamId stream(int device = 0) {
    StreamId out = 0;
    EXPECT_EQ(machine.stream_create(device, out), Code::success);
    return out;
  }
  EventId event(int device = 0) {
    EventId out = 0;
    EXPECT_EQ(machine.event_create(device, out), Code::success);
    return out;
  }
  EventId recorded(StreamId stream, int device = 0) {
    const EventId out = event(device);
    EXPECT_EQ(machine.event_record(device, out, stream), Code::success);
    return out;
  }
  void writes(StreamId stream, std::uint64_t at, std::uint64_t bytes, std::uint64_t duration_ns = 1'000) {
    EXPECT_EQ(machine.launch(0, stream, {"writer", {}, {{at, bytes}}, duration_ns, {}}), Code::success);
  }
  void reads(StreamId stream, std::uint64_t at, std::uint64_t bytes, std::uint64_t duration_ns = 1'000) {
    EXPECT_EQ(machine.launch(0, stream, {"reader", {{at, bytes}}, {}, duration_ns, {}}), Code::success);
  }
  void works(StreamId stream, std::uint64_t duration_ns, int device = 0) {
    EXPECT_EQ(machine.launch(device, stream, {"kernel", {}, {}, duration_ns, {}}), Code::success);
  }
  // The faults since the last call.
  std::vector<FaultKind> faults() {
    std::vector<FaultKind> out;
    for (const Fault& fault : machine.faults()) out.push_back(fault.kind);
    machine.clear_faults();
    return out;
  }

  Machine machine;
};

using Kinds = std::vector<FaultKind>;

}  // namespace reprieve::simgpu
