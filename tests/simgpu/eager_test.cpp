// Eager mode: what can run has run when a call returns.
#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

class EagerTest : public MachineTest {
 protected:
  EagerTest() : MachineTest(config()) {}
  static Config config() {
    Config out;
    out.mode = Mode::eager;
    return out;
  }
};

TEST_F(EagerTest, WorkRunsAtOnceAndTimeMovesToItsEnd) {
  const std::uint64_t at = malloc(64);
  const StreamId stream = this->stream();
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.launch(0, stream, {"store", {}, {{at, 1}}, 9'000'000, [at] { bytes_at(at)[0] = 9; }}),
            Code::success);
  EXPECT_EQ(bytes_at(at)[0], 9);
  EXPECT_EQ(machine.now_ns() - before, 9'000'000 + costs::launch_ns);
  EXPECT_EQ(machine.stream_query(0, stream), Code::success);
}

TEST_F(EagerTest, EventsMeasureTheWork) {
  const StreamId stream = this->stream();
  const EventId begin = recorded(stream);
  works(stream, 5'000'000);
  const EventId end = recorded(stream);
  std::int64_t ns = 0;
  EXPECT_EQ(machine.event_elapsed(begin, end, ns), Code::success);
  EXPECT_GE(ns, 5'000'000);
  EXPECT_LT(ns, 5'100'000);
}

TEST_F(EagerTest, HeldStreamsAndWhatWaitsForThemStayBehind) {
  const std::uint64_t at = malloc(64);
  const StreamId first = stream();
  const StreamId second = stream();
  machine.hold(0, first);
  EXPECT_EQ(machine.fill(0, at, 1, 8, first), Code::success);
  const EventId event = recorded(first);
  EXPECT_EQ(machine.stream_wait(0, second, event), Code::success);
  EXPECT_EQ(machine.fill(0, at + 32, 2, 8, second), Code::success);
  EXPECT_EQ(machine.fill(0, at + 48, 3, 8, stream()), Code::success);
  EXPECT_EQ(bytes_at(at)[48], 3);
  EXPECT_EQ(bytes_at(at)[32], 0);
  EXPECT_EQ(machine.event_query(event), Code::not_ready);
  machine.resume(0, first);
  EXPECT_EQ(bytes_at(at)[0], 1);
  EXPECT_EQ(bytes_at(at)[32], 2);
  EXPECT_EQ(machine.event_query(event), Code::success);
}

TEST_F(EagerTest, AMissingWaitIsAFaultAllTheSame) {
  const std::uint64_t at = malloc(64);
  const StreamId first = stream();
  const StreamId second = stream();
  writes(first, at, 8);
  reads(second, at, 8);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
  EXPECT_EQ(machine.stream_wait(0, second, recorded(first)), Code::success);
  writes(first, at + 32, 8);
  EXPECT_EQ(machine.stream_wait(0, second, recorded(first)), Code::success);
  reads(second, at + 32, 8);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(EagerTest, TheLegacyStreamIsInStep) {
  const std::uint64_t at = malloc(64);
  StreamId blocking = 0;
  EXPECT_EQ(machine.stream_create(0, blocking, {true, -3}), Code::success);
  writes(blocking, at, 8);
  reads(legacy_stream, at, 8);
  writes(blocking, at, 8);
  EXPECT_EQ(faults(), Kinds{});
  StreamInfo info;
  EXPECT_TRUE(machine.stream_info(0, blocking, info));
  EXPECT_TRUE(info.flags.blocking);
  EXPECT_EQ(info.flags.priority, -3);
  EXPECT_EQ(machine.stream_device(blocking), 0);
  EXPECT_EQ(machine.stream_device(legacy_stream), -1);
}

TEST_F(EagerTest, AChangeOfModeRunsWhatIsQueued) {
  machine.set_mode(Mode::lazy);
  const std::uint64_t at = malloc(64);
  EXPECT_EQ(machine.fill(0, at, 1, 8, legacy_stream), Code::success);
  works(legacy_stream, 1'000'000'000);
  EXPECT_EQ(machine.stream_query(0, legacy_stream), Code::not_ready);
  machine.set_mode(Mode::eager);
  EXPECT_EQ(machine.stream_query(0, legacy_stream), Code::success);
}

TEST_F(EagerTest, LaunchesAreCountedByName) {
  const KernelId kernel = kernel_id("void gemm<float, 128>");
  EXPECT_EQ(kernel_id("void gemm<float, 128>"), kernel);
  EXPECT_EQ(kernel_name(kernel), "void gemm<float, 128>");
  Work work;
  work.kernel = kernel;
  EXPECT_EQ(machine.launch(0, legacy_stream, work), Code::success);
  EXPECT_EQ(machine.launch(0, legacy_stream, work), Code::success);
  EXPECT_EQ(machine.launch(0, legacy_stream, {"softmax", {}, {}, 1, {}}), Code::success);
  EXPECT_EQ(machine.launches("gemm<"), 2U);
  EXPECT_EQ(machine.launches("softmax"), 1U);
  EXPECT_EQ(machine.launches(""), 3U);
  EXPECT_EQ(machine.calls(Call::launch), 3U);
  machine.reset_counters();
  EXPECT_EQ(machine.launches(""), 0U);
  EXPECT_EQ(machine.calls(Call::launch), 0U);
}

TEST_F(EagerTest, FaultsNameTheKernel) {
  Work work;
  work.kernel = kernel_id("void relu<float>");
  work.reads = {{0x1000, 8}};
  EXPECT_EQ(machine.launch(0, legacy_stream, work), Code::illegal_address);
  ASSERT_EQ(machine.faults().size(), 1U);
  EXPECT_NE(machine.faults()[0].text.find("void relu<float> on stream"), std::string::npos);
}

TEST_F(EagerTest, StreamsThatComeAndGoDoNotPileUp) {
  // A queue whose work the host knows to be complete serves the next stream, under another handle.
  const StreamId first = stream();
  works(first, 1);
  EXPECT_EQ(machine.stream_synchronize(0, first), Code::success);
  EXPECT_EQ(machine.stream_destroy(0, first), Code::success);
  const StreamId second = stream();
  EXPECT_NE(second, first);
  EXPECT_EQ(machine.launch(0, first, {}), Code::invalid_handle);
  // What the host does not know of is not forgotten.
  const std::uint64_t at = malloc(8);
  writes(second, at, 8);
  EXPECT_EQ(machine.stream_destroy(0, second), Code::success);
  reads(stream(), at, 8);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(EagerTest, AStreamCanBeHeldFromItsCreationOn) {
  machine.hold_when_created(0, 2);
  const std::uint64_t at = malloc(64);
  EXPECT_EQ(machine.fill(0, at, 1, 8, stream()), Code::success);
  const StreamId held = stream();
  EXPECT_EQ(machine.fill(0, at + 32, 1, 8, held), Code::success);
  EXPECT_EQ(bytes_at(at)[0], 1);
  EXPECT_EQ(bytes_at(at)[32], 0);
  EXPECT_TRUE(machine.resume(0, held));
  EXPECT_EQ(bytes_at(at)[32], 1);
}

}  // namespace
}  // namespace reprieve::simgpu
