// measured.md's table of what is legal while a stream captures.
#include <thread>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

class CaptureTest : public MachineTest {
 protected:
  // Runs the call while a stream captures in this mode, on the capturing thread or another. Its code, and what the
  // capture comes to.
  template <typename F>
  std::pair<Code, Code> during(CaptureMode mode, bool same_thread, F&& call) {
    EXPECT_EQ(machine.begin_capture(0, capturing, mode), Code::success);
    Code code = Code::unknown;
    if (same_thread) {
      code = call();
    } else {
      std::thread([&] { code = call(); }).join();
    }
    const Code ended = machine.end_capture(0, capturing);
    return {code, ended};
  }

  static constexpr CaptureMode modes[] = {CaptureMode::global, CaptureMode::thread_local_only, CaptureMode::relaxed};
  static constexpr std::pair<Code, Code> fine{Code::success, Code::success};
  static constexpr std::pair<Code, Code> spoiled{Code::capture_unsupported, Code::capture_invalidated};

  StreamId capturing = stream();
  StreamId other = stream();
  EventId before = recorded(other);
};

TEST_F(CaptureTest, MemoryCallsAreLegal) {
  for (const CaptureMode mode : modes) {
    EXPECT_EQ(during(mode, true,
                     [&] {
                       const std::uint64_t at = reserve(chunk_bytes);
                       const HandleId handle = create(chunk_bytes);
                       map(at, chunk_bytes, handle);
                       EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
                       EXPECT_EQ(machine.release(handle), Code::success);
                       return machine.unreserve(at, chunk_bytes);
                     }),
              fine);
  }
}

TEST_F(CaptureTest, RecordsAndFillsOnOtherStreamsAreLegal) {
  const std::uint64_t at = mapped(chunk_bytes);
  for (const CaptureMode mode : modes) {
    EXPECT_EQ(during(mode, true,
                     [&] {
                       EXPECT_EQ(machine.fill(0, at, 1, 16, other), Code::success);
                       return machine.event_record(0, event(), other);
                     }),
              fine);
  }
}

TEST_F(CaptureTest, QueriesAndSynchronizationsAreIllegalUnlessRelaxed) {
  const auto query = [&] { return machine.event_query(before); };
  const auto wait = [&] { return machine.event_wait(before, 1'000); };
  const auto synchronize = [&] { return machine.stream_synchronize(0, other); };
  EXPECT_EQ(during(CaptureMode::global, true, query), spoiled);
  EXPECT_EQ(during(CaptureMode::global, true, wait), spoiled);
  EXPECT_EQ(during(CaptureMode::global, true, synchronize), spoiled);
  EXPECT_EQ(during(CaptureMode::thread_local_only, true, query), spoiled);
  EXPECT_EQ(during(CaptureMode::thread_local_only, true, wait), spoiled);
  EXPECT_EQ(during(CaptureMode::thread_local_only, true, synchronize), spoiled);
  EXPECT_EQ(during(CaptureMode::relaxed, true, query), fine);
  EXPECT_EQ(during(CaptureMode::relaxed, true, wait), fine);
  EXPECT_EQ(during(CaptureMode::relaxed, true, synchronize), fine);
}

TEST_F(CaptureTest, OtherThreadsMindGlobalCapturesOnly) {
  const auto query = [&] { return machine.event_query(before); };
  EXPECT_EQ(during(CaptureMode::global, false, query), spoiled);
  EXPECT_EQ(during(CaptureMode::thread_local_only, false, query), fine);
  EXPECT_EQ(during(CaptureMode::relaxed, false, query), fine);
}

TEST_F(CaptureTest, QueriesAreLegalInARelaxedThread) {
  const auto query = [&] {
    const CaptureMode old = exchange_capture_mode(CaptureMode::relaxed);
    const Code code = machine.event_query(before);
    EXPECT_EQ(exchange_capture_mode(old), CaptureMode::relaxed);
    return code;
  };
  for (const CaptureMode mode : modes) {
    EXPECT_EQ(during(mode, true, query), fine);
    EXPECT_EQ(during(mode, false, query), fine);
  }
}

TEST_F(CaptureTest, DeviceWideCallsAreAlwaysIllegal) {
  const EventId all = event();
  for (const CaptureMode mode : modes) {
    EXPECT_EQ(during(mode, true, [&] { return machine.event_record_all(0, all); }), spoiled);
    EXPECT_EQ(during(mode, true, [&] { return machine.synchronize(0); }), spoiled);
    EXPECT_EQ(during(mode, false, [&] { return machine.event_record_all(0, all); }), spoiled);
    EXPECT_EQ(during(mode, true, [&] { return machine.synchronize(1); }), fine);
  }
}

TEST_F(CaptureTest, SynchronizingTheCapturingStreamIsAlwaysIllegal) {
  EXPECT_EQ(during(CaptureMode::relaxed, true, [&] { return machine.stream_synchronize(0, capturing); }), spoiled);
}

TEST_F(CaptureTest, CapturedWorkDoesNotRun) {
  const std::uint64_t at = mapped(chunk_bytes);
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  EXPECT_EQ(machine.fill(0, at, 1, 16, capturing), Code::success);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::success);
  machine.advance(1'000'000);
  EXPECT_EQ(bytes_at(at)[0], 0);
  EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(CaptureTest, ACapturedEventCannotBeQueriedUntilItIsRecordedAgain) {
  const EventId event = this->event();
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::relaxed), Code::success);
  EXPECT_EQ(machine.event_record(0, event, capturing), Code::success);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::success);
  EXPECT_EQ(machine.event_query(event), Code::invalid_value);
  EXPECT_EQ(machine.event_wait(event, 1), Code::invalid_value);
  EXPECT_EQ(machine.stream_wait(0, other, event), Code::invalid_value);
  EXPECT_EQ(machine.event_record(0, event, other), Code::success);
  EXPECT_EQ(machine.event_query(event), Code::success);
}

TEST_F(CaptureTest, AStreamJoinsThroughACapturedEvent) {
  bool is = false;
  const EventId event = this->event();
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  EXPECT_EQ(machine.event_record(0, event, capturing), Code::success);
  EXPECT_EQ(machine.stream_wait(0, other, event), Code::success);
  EXPECT_EQ(machine.is_capturing(0, other, is), Code::success);
  EXPECT_TRUE(is);
  EXPECT_EQ(machine.end_capture(0, other), Code::capture_unmatched);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::success);
  EXPECT_EQ(machine.is_capturing(0, other, is), Code::success);
  EXPECT_FALSE(is);
}

TEST_F(CaptureTest, ACaptureCannotWaitForWorkOutsideIt) {
  EXPECT_EQ(during(CaptureMode::relaxed, true, [&] { return machine.stream_wait(0, capturing, before); }),
            std::pair(Code::capture_isolation, Code::capture_invalidated));
}

TEST_F(CaptureTest, ASpoiledCaptureTakesNothingMore) {
  ASSERT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  EXPECT_EQ(machine.event_query(before), Code::capture_unsupported);
  EXPECT_EQ(machine.launch(0, capturing, {}), Code::capture_invalidated);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::capture_invalidated);
  EXPECT_EQ(machine.launch(0, capturing, {}), Code::success);
}

TEST_F(CaptureTest, TheLegacyStreamDisturbsCapturesOfBlockingStreams) {
  capturing = machine.resolve(0, per_thread_stream);
  EXPECT_EQ(during(CaptureMode::relaxed, true, [&] { return machine.launch(0, legacy_stream, {}); }),
            std::pair(Code::capture_implicit, Code::capture_invalidated));
  bool is = false;
  EXPECT_EQ(during(CaptureMode::relaxed, true, [&] { return machine.is_capturing(0, legacy_stream, is); }),
            std::pair(Code::capture_implicit, Code::success));
  capturing = stream();
  EXPECT_EQ(during(CaptureMode::global, true, [&] { return machine.launch(0, legacy_stream, {}); }), fine);
}

TEST_F(CaptureTest, BeginsAndEndsAreMatched) {
  EXPECT_EQ(machine.begin_capture(0, legacy_stream, CaptureMode::global), Code::capture_unsupported);
  EXPECT_EQ(machine.end_capture(0, capturing), Code::illegal_state);
  EXPECT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::success);
  EXPECT_EQ(machine.begin_capture(0, capturing, CaptureMode::global), Code::illegal_state);
  EXPECT_EQ(machine.stream_destroy(0, capturing), Code::capture_unsupported);
  std::thread([&] { EXPECT_EQ(machine.end_capture(0, capturing), Code::capture_wrong_thread); }).join();
  EXPECT_EQ(machine.end_capture(0, capturing), Code::illegal_state);  // it is over all the same
}

}  // namespace
}  // namespace reprieve::simgpu
