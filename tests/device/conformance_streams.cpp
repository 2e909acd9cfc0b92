// The contract's streams and events.
#include <set>
#include <thread>

#include "conformance.hpp"

namespace reprieve::device {
namespace {

using std::chrono::milliseconds;

}  // namespace

TEST_P(Conformance, StreamsAreNewAndNoneOfTheDefaults) {
  std::set<Stream> seen = {Stream{0}, Stream{1}, Stream{2}};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(seen.insert(stream()).second);
}

TEST_P(Conformance, AnEventIsDoneWhenTheWorkBeforeItIs) {
  const Stream stream = this->stream();
  const Region region = this->region(granule());
  const Event event = this->event();
  subject_->hold(device(), stream);
  fill(region.at, 5, region.bytes, stream);
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  EXPECT_FALSE(done(event));
  subject_->resume(device(), stream);
  wait(event);
  EXPECT_TRUE(done(event));
  EXPECT_TRUE(holds(region.at, region.bytes, 5));
  destroy(region);
}

TEST_P(Conformance, AnEventRecordedAgainIsThatOfTheLatestRecord) {
  const Stream stream = this->stream();
  const Event event = this->event();
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  wait(event);
  subject_->hold(device(), stream);
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  EXPECT_FALSE(done(event));
  subject_->resume(device(), stream);
  wait(event);
}

TEST_P(Conformance, AnEventOnlyConcernsItsOwnStream) {
  const Stream held = stream();
  const Stream free = stream();
  const Event on_held = event();
  const Event on_free = event();
  subject_->hold(device(), held);
  ASSERT_TRUE(succeeded(device().event_record(on_held, held)));
  ASSERT_TRUE(succeeded(device().event_record(on_free, free)));
  wait(on_free);
  EXPECT_FALSE(done(on_held));
  subject_->resume(device(), held);
  wait(on_held);
}

TEST_P(Conformance, EventWaitGivesUpAfterItsTimeout) {
  const Stream stream = this->stream();
  const Event event = this->event();
  subject_->hold(device(), stream);
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  for (const milliseconds timeout : {milliseconds{0}, milliseconds{2}}) {
    const std::uint64_t before = device().call_stats().driver_ns;
    bool out = true;
    EXPECT_TRUE(succeeded(device().event_wait(event, timeout, out)));
    EXPECT_FALSE(out);
    const auto took = std::chrono::nanoseconds(device().call_stats().driver_ns - before);
    EXPECT_GE(took, timeout);
  }
  subject_->resume(device(), stream);
  bool out = false;
  EXPECT_TRUE(succeeded(device().event_wait(event, long_time, out)));
  EXPECT_TRUE(out);
}

TEST_P(Conformance, WorkOfOneStreamRunsInOrder) {
  const Stream stream = this->stream();
  const Region region = this->region(2 * granule());
  subject_->hold(device(), stream);
  fill(region.at, 1, region.bytes, stream);
  EXPECT_TRUE(succeeded(device().copy(region.at + granule(), region.at, granule() / 2, stream)));
  fill(region.at, 3, granule(), stream);
  subject_->resume(device(), stream);
  finish(stream);
  EXPECT_TRUE(holds(region.at, granule(), 3));
  EXPECT_TRUE(holds(region.at + granule(), granule(), 1));
  destroy(region);
}

TEST_P(Conformance, StreamWaitPutsOneStreamsWorkBehindAnothers) {
  const Stream first = stream();
  const Stream second = stream();
  const Region region = this->region(2 * granule());
  const Event filled = event();
  const Event copied = event();
  subject_->hold(device(), first);
  fill(region.at, 9, granule(), first);
  ASSERT_TRUE(succeeded(device().event_record(filled, first)));
  ASSERT_TRUE(succeeded(device().stream_wait(second, filled)));
  EXPECT_TRUE(succeeded(device().copy(region.at + granule(), region.at, granule(), second)));
  ASSERT_TRUE(succeeded(device().event_record(copied, second)));
  EXPECT_FALSE(done(copied));
  subject_->resume(device(), first);
  wait(copied);
  EXPECT_TRUE(done(filled));
  EXPECT_TRUE(holds(region.at + granule(), granule(), 9));
  destroy(region);
}

TEST_P(Conformance, RecordAllWaitsForEveryStreamAndNothingLater) {
  const Event event = this->event();
  if (!device().properties().context_events) {
    EXPECT_TRUE(failed_as(device().event_record_all(event), Errc::not_supported));
    return;
  }
  const Stream first = stream();
  const Stream second = stream();
  const Event before_first = this->event();
  const Event before_second = this->event();
  subject_->hold(device(), first);
  subject_->hold(device(), second);
  ASSERT_TRUE(succeeded(device().event_record(before_first, first)));
  ASSERT_TRUE(succeeded(device().event_record(before_second, second)));
  ASSERT_TRUE(succeeded(device().event_record_all(event)));
  EXPECT_FALSE(done(event));
  subject_->resume(device(), first);
  wait(before_first);
  EXPECT_FALSE(done(event));
  subject_->resume(device(), second);
  wait(event);
  EXPECT_TRUE(done(before_second));

  ASSERT_TRUE(succeeded(device().event_record_all(event)));
  subject_->hold(device(), first);
  const Event after = this->event();
  ASSERT_TRUE(succeeded(device().event_record(after, first)));
  wait(event);
  EXPECT_FALSE(done(after));
  subject_->resume(device(), first);
  wait(after);
}

TEST_P(Conformance, RecordAllWaitsForTheLegacyStream) {
  if (!device().properties().context_events) GTEST_SKIP() << "the driver has no context events";
  const Event on_legacy = event();
  const Event all = event();
  subject_->hold(device(), legacy_stream);
  ASSERT_TRUE(succeeded(device().event_record(on_legacy, legacy_stream)));
  ASSERT_TRUE(succeeded(device().event_record_all(all)));
  EXPECT_FALSE(done(all));
  subject_->resume(device(), legacy_stream);
  wait(all);
  EXPECT_TRUE(done(on_legacy));
}

TEST_P(Conformance, CreatedStreamsDoNotWaitForTheLegacyOne) {
  const Stream stream = this->stream();
  const Event on_legacy = event();
  const Event on_stream = event();
  subject_->hold(device(), legacy_stream);
  ASSERT_TRUE(succeeded(device().event_record(on_legacy, legacy_stream)));
  ASSERT_TRUE(succeeded(device().event_record(on_stream, stream)));
  wait(on_stream);
  EXPECT_FALSE(done(on_legacy));
  subject_->resume(device(), legacy_stream);
  wait(on_legacy);
}

TEST_P(Conformance, TheLegacyStreamHasTwoNames) {
  const Region region = this->region(granule());
  const Event event = this->event();
  subject_->hold(device(), legacy_stream);
  fill(region.at, 6, region.bytes, normalize(Stream{1}));
  ASSERT_TRUE(succeeded(device().event_record(event, Stream{1})));
  EXPECT_FALSE(done(event));
  subject_->resume(device(), legacy_stream);
  wait(event);
  EXPECT_TRUE(holds(region.at, region.bytes, 6));
  destroy(region);
}

TEST_P(Conformance, EveryThreadHasAPerThreadStreamOfItsOwn) {
  const Event here = event();
  const Event there = event();
  subject_->hold(device(), per_thread_stream);
  ASSERT_TRUE(succeeded(device().event_record(here, per_thread_stream)));
  std::thread([&] {
    EXPECT_TRUE(succeeded(device().event_record(there, per_thread_stream)));
    wait(there);
  }).join();
  EXPECT_FALSE(done(here));
  subject_->resume(device(), per_thread_stream);
  wait(here);
}

TEST_P(Conformance, ADestroyedStreamFinishesItsWork) {
  Stream stream{};
  ASSERT_TRUE(succeeded(device().stream_create(stream)));
  const Region region = this->region(granule());
  const Event event = this->event();
  fill(region.at, 8, region.bytes, stream);
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  EXPECT_TRUE(succeeded(device().stream_destroy(stream)));
  wait(event);
  EXPECT_TRUE(holds(region.at, region.bytes, 8));
  destroy(region);
}

TEST_P(Conformance, MappingAndUnmappingWaitForNoQueuedWork) {
  const Stream stream = this->stream();
  const Region busy = region(granule());
  const Event event = this->event();
  subject_->hold(device(), stream);
  fill(busy.at, 4, busy.bytes, stream);
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  for (int i = 0; i < 8; ++i) destroy(region(4 * granule()));  // would not return if any of it waited
  EXPECT_FALSE(done(event));
  subject_->resume(device(), stream);
  wait(event);
  EXPECT_TRUE(holds(busy.at, busy.bytes, 4));
  destroy(busy);
}

// Idea 1 of the design: chunks that queued work still uses get new addresses, in stream order, with no wait.
TEST_P(Conformance, ABusyChunkIsRegroupedInStreamOrder) {
  const Stream stream = this->stream();
  const std::size_t bytes = 2 * granule();
  const Address old_at = reserve(bytes);
  const Address new_at = reserve(bytes);
  const Handle first = create(granule());
  const Handle second = create(granule());
  map(old_at, granule(), first);
  map(old_at + granule(), granule(), second);
  subject_->hold(device(), stream);
  fill(old_at, 1, bytes, stream);
  map(new_at, granule(), second);  // the other way around
  map(new_at + granule(), granule(), first);
  fill(new_at, 2, granule() / 2, stream);
  const Event event = this->event();
  ASSERT_TRUE(succeeded(device().event_record(event, stream)));
  EXPECT_FALSE(done(event));
  subject_->resume(device(), stream);
  wait(event);
  EXPECT_TRUE(succeeded(device().unmap(old_at, granule())));
  EXPECT_TRUE(succeeded(device().unmap(old_at + granule(), granule())));
  EXPECT_TRUE(holds(new_at, granule() / 2, 2));
  EXPECT_TRUE(holds(new_at + granule() / 2, granule() / 2 + granule(), 1));
  EXPECT_TRUE(succeeded(device().unmap(new_at, granule())));
  EXPECT_TRUE(succeeded(device().unmap(new_at + granule(), granule())));
  EXPECT_TRUE(succeeded(device().release(first)));
  EXPECT_TRUE(succeeded(device().release(second)));
  EXPECT_TRUE(succeeded(device().unreserve(old_at, bytes)));
  EXPECT_TRUE(succeeded(device().unreserve(new_at, bytes)));
}

}  // namespace reprieve::device
