// The conformance suite on the simulated GPU.
#include "device/sim.hpp"

#include <cstring>

#include "conformance.hpp"

namespace reprieve::device {
namespace {

class SimSubject final : public Subject {
 public:
  Backend& backend() override { return backend_; }

  void hold(Device& device, Stream stream) override { EXPECT_TRUE(machine_.hold(ordinal(device), id(stream))); }
  void resume(Device& device, Stream stream) override { EXPECT_TRUE(machine_.resume(ordinal(device), id(stream))); }

  void begin_capture(Device& device, Stream stream) override {
    EXPECT_EQ(machine_.begin_capture(ordinal(device), id(stream), simgpu::CaptureMode::global), simgpu::Code::success);
  }
  bool end_capture(Device& device, Stream stream) override {
    return machine_.end_capture(ordinal(device), id(stream)) == simgpu::Code::success;
  }

  std::vector<std::uint8_t> read_back(Device&, Address at, std::size_t bytes) override {
    std::vector<std::uint8_t> out(bytes);
    std::memcpy(out.data(), reinterpret_cast<const void*>(at), bytes);
    return out;
  }

  std::string complaints() override {
    std::string out;
    for (const simgpu::Fault& fault : machine_.faults()) out += fault.text + "\n";
    return out;
  }

 private:
  static int ordinal(const Device& device) { return device.properties().ordinal; }
  static simgpu::StreamId id(Stream stream) { return static_cast<simgpu::StreamId>(stream); }

  simgpu::Machine machine_{{2, std::uint64_t{1} << 30, std::uint64_t{1} << 30, true, true}};
  SimBackend backend_{machine_};
};

constexpr BackendUnderTest sim{"sim", [] { return std::string(); },
                               []() -> std::unique_ptr<Subject> { return std::make_unique<SimSubject>(); }};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sim, Conformance, ::testing::Values(sim));
INSTANTIATE_TEST_SUITE_P(Sim, CaptureConformance, ::testing::Values(sim));

}  // namespace reprieve::device
