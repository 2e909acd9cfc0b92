// Many threads at once.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

constexpr int thread_count = 8;

void on_threads(const std::function<void(unsigned)>& body) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < thread_count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

void raise(std::atomic<std::int64_t>& peak, std::int64_t value) {
  std::int64_t seen = peak;
  while (value > seen && !peak.compare_exchange_weak(seen, value)) {
  }
}

class ConcurrentTest : public MemoryTest {
 protected:
  ConcurrentTest() {
    for (Stream& each : streams) each = stream();
  }

  std::array<Stream, thread_count> streams{};
};

// The counts under threads, each operation and its entry in the model under one lock of the test.
TEST_F(ConcurrentTest, PeaksAgainstAModel) {
  std::mutex both;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  on_threads([&](unsigned index) {
    std::mt19937 random(index);
    std::vector<std::pair<void*, std::int64_t>> mine;
    for (int step = 0; step < 2'000; ++step) {
      const std::scoped_lock lock(both);
      if (random() % 2 == 0 || mine.empty()) {
        const std::uint64_t bytes = 1 + random() % (256 * KiB);
        mine.emplace_back(alloc(streams[index], bytes), static_cast<std::int64_t>(bytes));
        live += mine.back().second;
        peak = std::max(peak, live);
      } else {
        free(mine.back().first);
        live -= mine.back().second;
        mine.pop_back();
      }
    }
    for (const auto& block : mine) {
      const std::scoped_lock lock(both);
      free(block.first);
      live -= block.second;
    }
  });
  EXPECT_EQ(metric(requested_bytes).current, 0);
  EXPECT_EQ(metric(requested_bytes).peak, peak);
}

// Without that lock the peak is known between two bounds: of what was surely live at once, and of what may have been.
TEST_F(ConcurrentTest, PeaksBetweenBounds) {
  std::atomic<std::int64_t> surely{0};
  std::atomic<std::int64_t> perhaps{0};
  std::atomic<std::int64_t> lower{0};
  std::atomic<std::int64_t> upper{0};
  std::atomic<std::int64_t> total{0};
  on_threads([&](unsigned index) {
    std::mt19937 random(100 + index);
    std::vector<std::pair<void*, std::int64_t>> mine;
    const auto give = [&] {
      surely -= mine.back().second;
      free(mine.back().first);
      perhaps -= mine.back().second;
      mine.pop_back();
    };
    for (int step = 0; step < 3'000; ++step) {
      if (random() % 2 == 0 || mine.empty()) {
        const std::uint64_t bytes = 1 + random() % (64 * KiB);
        const auto counted = static_cast<std::int64_t>(bytes);
        raise(upper, perhaps += counted);
        mine.emplace_back(alloc(streams[index], bytes), counted);
        raise(lower, surely += counted);
        total += counted;
      } else {
        give();
      }
      if (step % 500 == 250) static_cast<void>(allocator->stats());
    }
    while (!mine.empty()) give();
  });
  const Counter counter = metric(requested_bytes);
  EXPECT_EQ(counter.current, 0);
  EXPECT_EQ(counter.allocated, total);
  EXPECT_EQ(counter.freed, total);
  EXPECT_GE(counter.peak, lower);
  EXPECT_LE(counter.peak, upper);
}

struct Block {
  void* ptr;
  std::uint64_t bytes;
  std::uint8_t value;
  unsigned owner;
};

// Eight threads on eight streams, short of memory, blocks that wander to other threads, and every so often somebody who
// empties the cache, changes the limit or recounts. Each block is filled and read back by queued work.
TEST_F(ConcurrentTest, Stress) {
  allocator->set_limit(96 * MiB);
  std::mutex wandering_lock;
  std::vector<Block> wandering;
  std::atomic<int> filled{0};
  std::atomic<int> refused{0};

  const auto end = [&](const Block& block, unsigned by, std::mt19937& random) {
    const Stream own = streams[block.owner];
    const Stream other = streams[by];
    if (by == block.owner || random() % 2 == 0) {
      check(own, block.ptr, block.bytes, block.value);
      free(block.ptr);
      return;
    }
    device::Event event{};
    EXPECT_TRUE(opened->event_create(event).ok());
    EXPECT_TRUE(opened->event_record(event, own).ok());
    EXPECT_TRUE(opened->stream_wait(other, event).ok());
    EXPECT_TRUE(opened->event_destroy(event).ok());
    check(other, block.ptr, block.bytes, block.value);
    if (random() % 2 == 0) {
      free_on(block.ptr, other);
    } else {
      record(block.ptr, other);
      free(block.ptr);
    }
  };

  on_threads([&](unsigned index) {
    std::mt19937 random(1'000 + index);
    std::vector<Block> mine;
    for (int step = 0; step < 1'200; ++step) {
      const std::uint64_t what = random() % 100;
      if (what < 50) {
        const std::uint64_t bytes = 1 + random() % (what < 10 ? 3 * MiB : 32 * KiB);
        Block block{nullptr, bytes, static_cast<std::uint8_t>(random()), index};
        const Status status = allocator->allocate(streams[index], 0, bytes, &block.ptr);
        if (status.ok()) {
          write(streams[index], block.ptr, bytes, block.value);
          mine.push_back(block);
          ++filled;
        } else {
          EXPECT_EQ(status.code, Errc::out_of_memory) << status.what;
          ++refused;
        }
      } else if (what < 70 && !mine.empty()) {
        end(mine.back(), index, random);
        mine.pop_back();
      } else if (what < 85 && !mine.empty()) {
        const std::scoped_lock lock(wandering_lock);
        wandering.push_back(mine.front());
        mine.erase(mine.begin());
      } else if (what < 97) {
        Block taken{};
        {
          const std::scoped_lock lock(wandering_lock);
          if (wandering.empty()) continue;
          taken = wandering.back();
          wandering.pop_back();
        }
        end(taken, index, random);
      } else if (random() % 4 == 0) {
        switch (random() % 6) {
          case 0: EXPECT_TRUE(allocator->trim(0).ok()); break;
          case 1: EXPECT_TRUE(allocator->trim(32 * MiB).ok()); break;
          case 2: allocator->set_limit((64 + random() % 64) * MiB); break;
          case 3: EXPECT_GE(allocator->stats().reserved_bytes.current, 0); break;
          case 4: allocator->reset_peaks(); break;
          default: EXPECT_EQ(allocator->validate(), ""); break;
        }
      }
    }
    for (const Block& block : mine) end(block, index, random);
  });
  std::mt19937 random(1);
  for (const Block& block : wandering) end(block, block.owner, random);
  synchronize();
  EXPECT_EQ(checks_passed, filled);
  EXPECT_EQ(checks_failed, 0);
  EXPECT_GT(filled, refused);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

// Private pools come and go while their neighbours work.
TEST_F(ConcurrentTest, PoolsComeAndGo) {
  on_threads([&](unsigned index) {
    std::mt19937 random(2'000 + index);
    void* kept = nullptr;
    for (int round = 0; round < 100; ++round) {
      const PoolId mine = pool(random() % 2 == 0);
      std::vector<void*> blocks;
      for (int i = 0; i < 5; ++i) blocks.push_back(alloc(streams[index], 1 + random() % (2 * MiB), mine));
      write(streams[index], blocks[0], 1, 1);
      if (kept != nullptr) free(kept);
      kept = blocks.back();
      blocks.pop_back();
      free_all(blocks);
      EXPECT_TRUE(allocator->destroy_pool(mine).ok());
    }
    free(kept);
  });
  synchronize();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

// A pointer freed by two threads at once is freed by one of them.
TEST_F(ConcurrentTest, DoubleFreesAtOnce) {
  std::atomic<int> freed{0};
  constexpr int rounds = 200;
  std::vector<void*> blocks;
  for (int i = 0; i < rounds; ++i) blocks.push_back(alloc(streams[static_cast<std::size_t>(i) % 2], 3 * KiB));
  on_threads([&](unsigned) {
    for (void* block : blocks) freed += Allocator::free(addresses, block).ok() ? 1 : 0;
  });
  EXPECT_EQ(freed, rounds);
  EXPECT_EQ(allocator->stats().invalid_frees, (thread_count - 1) * rounds);
}

}  // namespace
}  // namespace reprieve::memory
