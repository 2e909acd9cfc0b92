#include <thread>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class StreamsTest : public MachineTest {
 protected:
  bool done(EventId event) {
    const Code code = machine.event_query(event);
    EXPECT_TRUE(code == Code::success || code == Code::not_ready) << static_cast<int>(code);
    return code == Code::success;
  }
};

TEST_F(StreamsTest, WorkTakesItsTimeOnTheVirtualClock) {
  const StreamId stream = this->stream();
  works(stream, 5 * ms);
  const EventId event = recorded(stream);
  EXPECT_FALSE(done(event));
  machine.advance(4 * ms);
  EXPECT_FALSE(done(event));
  machine.advance(ms);
  EXPECT_TRUE(done(event));
}

TEST_F(StreamsTest, OneStreamRunsInTurnAndTwoAtTheSameTime) {
  const StreamId first = stream();
  const StreamId second = stream();
  works(first, 5 * ms);
  works(first, 5 * ms);
  works(second, 6 * ms);
  const EventId both = recorded(first);
  const EventId one = recorded(second);
  machine.advance(6 * ms);
  EXPECT_TRUE(done(one));
  EXPECT_FALSE(done(both));
  machine.advance(4 * ms);
  EXPECT_TRUE(done(both));
}

TEST_F(StreamsTest, EffectsHappenWhenTheWorkEnds) {
  const std::uint64_t at = mapped(chunk_bytes);
  const StreamId stream = this->stream();
  EXPECT_EQ(machine.launch(0, stream, {"store", {}, {{at, 1}}, 3 * ms, [at] { bytes_at(at)[0] = 9; }}), Code::success);
  EXPECT_EQ(bytes_at(at)[0], 0);
  EXPECT_EQ(machine.fill(0, at + 1, 4, 10, stream), Code::success);
  machine.advance(4 * ms);
  EXPECT_EQ(bytes_at(at)[0], 9);
  EXPECT_EQ(bytes_at(at)[10], 4);
}

TEST_F(StreamsTest, EffectsOfSeveralStreamsHappenInTheOrderOfTheirEnds) {
  const StreamId first = stream();
  const StreamId second = stream();
  std::string order;
  const auto add = [&](StreamId stream, std::uint64_t duration_ns, char name) {
    EXPECT_EQ(machine.launch(0, stream, {"kernel", {}, {}, duration_ns, [&order, name] { order += name; }}),
              Code::success);
  };
  add(first, 3 * ms, 'c');
  add(first, 3 * ms, 'd');
  add(second, 1 * ms, 'a');
  add(second, 1 * ms, 'b');
  add(second, 9 * ms, 'e');
  machine.advance(20 * ms);
  EXPECT_EQ(order, "abcde");
}

TEST_F(StreamsTest, WaitingMovesTheClockToTheEndAndNoFurther) {
  const StreamId stream = this->stream();
  works(stream, 5 * ms);
  const EventId event = recorded(stream);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.event_wait(event, 100 * ms), Code::success);
  EXPECT_GE(machine.now_ns() - before, 4 * ms);
  EXPECT_LT(machine.now_ns() - before, 6 * ms);
}

TEST_F(StreamsTest, AWaitThatTimesOutTakesExactlyItsTime) {
  const StreamId stream = this->stream();
  works(stream, 50 * ms);
  const EventId event = recorded(stream);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.event_wait(event, 7 * ms), Code::not_ready);
  EXPECT_EQ(machine.now_ns() - before, 7 * ms + costs::event_query_ns);
}

TEST_F(StreamsTest, StreamWaitHoldsBackOnlyWhatComesAfterIt) {
  const StreamId first = stream();
  const StreamId second = stream();
  works(first, 10 * ms);
  const EventId event = recorded(first);
  const EventId before = recorded(second);
  EXPECT_EQ(machine.stream_wait(0, second, event), Code::success);
  const EventId after = recorded(second);
  EXPECT_TRUE(done(before));
  EXPECT_FALSE(done(after));
  machine.advance(10 * ms);
  EXPECT_TRUE(done(after));
}

TEST_F(StreamsTest, StreamWaitTakesTheRecordOfItsOwnTime) {
  const StreamId first = stream();
  const StreamId second = stream();
  const EventId event = recorded(first);
  EXPECT_EQ(machine.stream_wait(0, second, event), Code::success);
  works(first, 10 * ms);
  EXPECT_EQ(machine.event_record(0, event, first), Code::success);
  EXPECT_TRUE(done(recorded(second)));
  EXPECT_FALSE(done(event));
}

TEST_F(StreamsTest, TheLegacyStreamIsInStepWithBlockingOnesOnly) {
  const StreamId created = stream();
  works(per_thread_stream, 10 * ms);
  works(created, 100 * ms);
  const EventId on_legacy = recorded(legacy_stream);
  EXPECT_FALSE(done(on_legacy));
  machine.advance(10 * ms);
  EXPECT_TRUE(done(on_legacy));

  works(legacy_stream, 10 * ms);
  const EventId on_thread = recorded(per_thread_stream);
  EXPECT_FALSE(done(on_thread));
  machine.advance(10 * ms);
  EXPECT_TRUE(done(on_thread));
  EXPECT_FALSE(done(recorded(created)));
}

TEST_F(StreamsTest, DevicesHaveStreamsOfTheirOwn) {
  works(legacy_stream, 10 * ms, 1);
  EXPECT_TRUE(done(recorded(legacy_stream, 0)));
  EXPECT_FALSE(done(recorded(legacy_stream, 1)));
  const StreamId stream = this->stream(1);
  EXPECT_EQ(machine.launch(0, stream, {}), Code::invalid_handle);
  EXPECT_EQ(machine.event_record(1, event(0), stream), Code::invalid_handle);
  // An event of one device may hold back a stream of another.
  const EventId event = recorded(legacy_stream, 1);
  EXPECT_EQ(machine.stream_wait(0, legacy_stream, event), Code::success);
  EXPECT_FALSE(done(recorded(legacy_stream, 0)));
}

TEST_F(StreamsTest, PerThreadStreamsAreOnePerThreadAndHaveAHandle) {
  const StreamId mine = machine.resolve(0, per_thread_stream);
  EXPECT_EQ(machine.resolve(0, per_thread_stream), mine);
  EXPECT_NE(machine.resolve(1, per_thread_stream), mine);
  StreamId other = 0;
  std::thread([&] { other = machine.resolve(0, per_thread_stream); }).join();
  EXPECT_NE(other, mine);
  works(mine, 10 * ms);
  EXPECT_FALSE(done(recorded(per_thread_stream)));
  EXPECT_TRUE(done(recorded(other)));
}

TEST_F(StreamsTest, RecordAllIsDoneWhenAllEarlierWorkIs) {
  const StreamId first = stream();
  works(first, 10 * ms);
  works(legacy_stream, 20 * ms);
  works(legacy_stream, 100 * ms, 1);  // not this device's
  const EventId all = event();
  EXPECT_EQ(machine.event_record_all(0, all), Code::success);
  works(first, 1'000 * ms);
  machine.advance(10 * ms);
  EXPECT_FALSE(done(all));
  machine.advance(10 * ms);
  EXPECT_TRUE(done(all));
}

TEST_F(StreamsTest, HeldWorkDoesNotProgress) {
  const StreamId stream = this->stream();
  works(stream, 10 * ms);
  const EventId event = recorded(stream);
  machine.advance(5 * ms);
  EXPECT_TRUE(machine.hold(0, stream));
  machine.advance(100 * ms);
  EXPECT_FALSE(done(event));
  EXPECT_TRUE(machine.resume(0, stream));
  machine.advance(9 * ms);  // begun anew
  EXPECT_FALSE(done(event));
  machine.advance(1 * ms);
  EXPECT_TRUE(done(event));
  EXPECT_FALSE(machine.hold(0, 0xdead));
  EXPECT_FALSE(machine.resume(0, 0xdead));
}

TEST_F(StreamsTest, WaitingForHeldWorkTimesOutOrIsAFault) {
  const StreamId stream = this->stream();
  works(stream, ms);
  EXPECT_TRUE(machine.hold(0, stream));
  const EventId event = recorded(stream);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.event_wait(event, 30 * ms), Code::not_ready);
  EXPECT_GE(machine.now_ns() - before, 30 * ms);
  EXPECT_EQ(faults(), Kinds{});
  EXPECT_EQ(machine.stream_synchronize(0, stream), Code::launch_timeout);
  EXPECT_EQ(machine.synchronize(0), Code::launch_timeout);
  EXPECT_EQ(faults(), (Kinds{FaultKind::endless_wait, FaultKind::endless_wait}));
  EXPECT_TRUE(machine.resume(0, stream));
  EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(StreamsTest, SynchronizeWaitsForItsStreamsOnly) {
  const StreamId first = stream();
  const StreamId second = stream();
  works(first, 10 * ms);
  works(second, 90 * ms);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.stream_synchronize(0, first), Code::success);
  EXPECT_LT(machine.now_ns() - before, 11 * ms);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_GT(machine.now_ns() - before, 89 * ms);
}

TEST_F(StreamsTest, DestroyedStreamsAndEventsAreUnknown) {
  const StreamId stream = this->stream();
  works(stream, ms);
  const EventId event = recorded(stream);
  EXPECT_EQ(machine.stream_destroy(0, stream), Code::success);
  EXPECT_EQ(machine.stream_destroy(0, stream), Code::invalid_handle);
  EXPECT_EQ(machine.stream_destroy(0, legacy_stream), Code::invalid_handle);
  EXPECT_EQ(machine.launch(0, stream, {}), Code::invalid_handle);
  EXPECT_EQ(machine.event_wait(event, 10 * ms), Code::success);
  EXPECT_EQ(machine.event_destroy(event), Code::success);
  EXPECT_EQ(machine.event_destroy(event), Code::invalid_handle);
  EXPECT_EQ(machine.event_query(event), Code::invalid_handle);
}

TEST(OldDriverTest, HasNoEventsOfTheWholeContext) {
  Machine machine({1, 16 * MiB, 16 * MiB, false, false});
  EventId event = 0;
  ASSERT_EQ(machine.event_create(0, event), Code::success);
  EXPECT_EQ(machine.event_record_all(0, event), Code::not_supported);
}

}  // namespace
}  // namespace reprieve::simgpu
