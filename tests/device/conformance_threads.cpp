// Any call from any thread, and nothing of the caller's changed.
#include <thread>

#include "conformance.hpp"

namespace reprieve::device {

TEST_P(Conformance, ThreadsMapFillAndUnmapAtTheSameTime) {
  constexpr int thread_count = 8;
  constexpr int rounds = 25;
  const std::size_t before = free_bytes();
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int i = 0; i < thread_count; ++i) {
    streams.push_back(stream());
    events.push_back(event());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      const Stream own = streams[static_cast<std::size_t>(i)];
      const Event end = events[static_cast<std::size_t>(i)];
      for (int round = 0; round < rounds; ++round) {
        const auto value = static_cast<std::uint8_t>(i * rounds + round);
        const Region region = this->region(granule());
        const Address alias = reserve(granule());
        map(alias, granule(), region.handle);
        fill(region.at, value, granule(), own);
        fill(alias, static_cast<std::uint8_t>(~value), 512, own);
        EXPECT_TRUE(succeeded(device().event_record(end, own)));
        wait(end);
        EXPECT_TRUE(holds(region.at, 512, static_cast<std::uint8_t>(~value)));
        EXPECT_TRUE(holds(alias + 512, 4096, value));
        EXPECT_TRUE(succeeded(device().unmap(alias, granule())));
        EXPECT_TRUE(succeeded(device().unreserve(alias, granule())));
        destroy(region);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(taken_since(before, 0));
}

TEST_P(Conformance, EventsAreSeenFromEveryThread) {
  const Stream stream = this->stream();
  const Event event = this->event();
  subject_->hold(device(), stream);
  std::thread([&] { EXPECT_TRUE(succeeded(device().event_record(event, stream))); }).join();
  EXPECT_FALSE(done(event));
  std::thread([&] { EXPECT_FALSE(done(event)); }).join();
  subject_->resume(device(), stream);
  std::thread([&] { wait(event); }).join();
  EXPECT_TRUE(done(event));
}

// Also on a thread that never had a context.
TEST_P(Conformance, TheCurrentContextIsLeftAsItWas) {
  const auto every_call = [&] {
    const std::uintptr_t before = subject_->current_context();
    Stream stream{};
    EXPECT_TRUE(succeeded(device().stream_create(stream)));
    Event event{};
    EXPECT_TRUE(succeeded(device().event_create(event)));
    const Region region = this->region(granule());
    fill(region.at, 1, granule() / 2, stream);
    EXPECT_TRUE(succeeded(device().copy(region.at + granule() / 2, region.at, granule() / 2, stream)));
    EXPECT_TRUE(succeeded(device().event_record(event, stream)));
    EXPECT_TRUE(succeeded(device().stream_wait(stream, event)));
    wait(event);
    EXPECT_TRUE(done(event));
    bool capturing = true;
    EXPECT_TRUE(succeeded(device().is_capturing(stream, capturing)));
    EXPECT_FALSE(capturing);
    if (device().properties().context_events) {
      EXPECT_TRUE(succeeded(device().event_record_all(event)));
      wait(event);
    }
    finish(stream);
    EXPECT_GT(free_bytes(), 0U);
    destroy(region);
    EXPECT_TRUE(succeeded(device().event_destroy(event)));
    EXPECT_TRUE(succeeded(device().stream_destroy(stream)));
    EXPECT_EQ(subject_->current_context(), before);
  };
  every_call();
  std::thread(every_call).join();
}

}  // namespace reprieve::device
