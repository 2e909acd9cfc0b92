// The history by ranges against one that keeps every use of every byte.
#include "simgpu/use_history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace reprieve::simgpu {
namespace {

struct Plain {
  std::uint32_t queue;
  std::uint64_t index;
  bool write;
};

TEST(UseHistoryTest, AgreesWithOnePerByte) {
  constexpr std::uint64_t bytes = 40;
  constexpr std::uint32_t queues = 4;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    UseHistory history;
    // After a write only that write and the reads since matter: an unordered earlier use was reported already.
    std::vector<std::vector<Plain>> plain(bytes);
    VectorClock clocks[queues];
    VectorClock host;
    std::uint64_t counts[queues] = {};
    for (int step = 0; step < 300; ++step) {
      const auto queue = static_cast<std::uint32_t>(below(queues));
      if (below(4) == 0) clocks[queue].join(clocks[below(queues)]);  // waits for another stream
      if (below(20) == 0) host.join(clocks[below(queues)]);          // the host waits for a stream
      clocks[queue].join(host);
      clocks[queue].set(queue, ++counts[queue]);
      const std::uint64_t begin = below(bytes);
      const std::uint64_t end = begin + 1 + below(bytes - begin);
      const bool write = below(2) == 0;
      bool expected = false;
      for (std::uint64_t i = begin; i < end; ++i) {
        for (const Plain& use : plain[i]) {
          expected |= (write || use.write) && !clocks[queue].covers(use.queue, use.index);
        }
        if (write) plain[i].clear();
        plain[i].push_back({queue, counts[queue], write});
      }
      const auto work = std::make_shared<const WorkId>(WorkId{queue, counts[queue], ""});
      const Use conflict = history.add(begin, end, write, {work, begin}, clocks[queue], host);
      ASSERT_EQ(static_cast<bool>(conflict), expected) << "step " << step;
    }
  }
}

TEST(UseHistoryTest, ForgetsWhatTheHostKnows) {
  UseHistory history;
  VectorClock clock;
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    const VectorClock host = clock;
    clock.set(0, i);
    const auto work = std::make_shared<const WorkId>(WorkId{0, i, ""});
    EXPECT_FALSE(history.add(2 * i, 2 * i + 1, i % 2 == 0, {work, 0}, clock, host));
  }
  EXPECT_LE(history.size(), 200U);
}

}  // namespace
}  // namespace reprieve::simgpu
