// Each counter and each peak against a model that is told of every operation.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

// What a counter should say.
struct Expected {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void add(std::int64_t by) {
    current += by;
    (by > 0 ? allocated : freed) += std::abs(by);
    peak = std::max(peak, current);
  }
};

void expect_counter(const Counter& counter, const Expected& expected, const char* what) {
  EXPECT_EQ(counter.current, expected.current) << what;
  EXPECT_EQ(counter.peak, expected.peak) << what;
  EXPECT_EQ(counter.allocated, expected.allocated) << what;
  EXPECT_EQ(counter.freed, expected.freed) << what;
}

struct KindModel {
  Expected requested, allocated, active, blocks, active_count;

  void compare(const Totals& stats) const {
    expect_counter(stats.metrics[requested_bytes], requested, "requested_bytes");
    expect_counter(stats.metrics[allocated_bytes], allocated, "allocated_bytes");
    expect_counter(stats.metrics[active_bytes], active, "active_bytes");
    expect_counter(stats.metrics[allocations], blocks, "allocations");
    expect_counter(stats.metrics[active_blocks], active_count, "active_blocks");
  }
  void reset_peaks() {
    for (Expected* each : all()) each->peak = each->current;
  }
  void reset_accumulated() {
    for (Expected* each : all()) each->allocated = each->freed = 0;
  }
  void change(std::uint64_t bytes, int sign) {
    const auto size = static_cast<std::int64_t>(round_up(bytes, block_unit));
    requested.add(sign * static_cast<std::int64_t>(bytes));
    allocated.add(sign * size);
    active.add(sign * size);
    blocks.add(sign);
    active_count.add(sign);
  }

 private:
  std::array<Expected*, 5> all() { return {&requested, &allocated, &active, &blocks, &active_count}; }
};

// All blocks, and those of each kind.
struct Model {
  ByKind<KindModel> models;

  void allocate(std::uint64_t bytes) { change(bytes, 1); }
  void free(std::uint64_t bytes) { change(bytes, -1); }
  void compare(const Stats& stats) const {
    models.all.compare(stats);
    for (std::size_t kind = 0; kind < block_kinds; ++kind) {
      SCOPED_TRACE("kind " + std::to_string(kind));
      models.kinds[kind].compare(stats.kinds[kind]);
    }
  }
  void reset_peaks() {
    models.each([](KindModel& model) { model.reset_peaks(); });
  }
  void reset_accumulated() {
    models.each([](KindModel& model) { model.reset_accumulated(); });
  }

 private:
  void change(std::uint64_t bytes, int sign) {
    models.all.change(bytes, sign);
    models.of(kind_of(round_up(bytes, block_unit))).change(bytes, sign);
  }
};

class StatsTest : public MemoryTest {
 protected:
  const Totals& of(const Stats& stats, BlockKind kind) { return stats.kinds[static_cast<std::size_t>(kind)]; }

  Stream s = stream();
};

// One stream is a device's sole pool, whose peaks are kept without a look at any other: its two kinds take turns at the
// peak, and each rises to its own where the sum does not.
TEST_F(StatsTest, ASolePoolAgainstAModel) {
  for (const unsigned seed : {11U, 12U, 13U, 14U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    allocator = nullptr;
    allocator = std::make_unique<Allocator>(*opened, addresses, Settings{});
    Model model;
    std::vector<std::pair<void*, std::uint64_t>> live;
    const auto free_one = [&] {
      std::swap(live[random() % live.size()], live.back());
      free(live.back().first);
      model.free(live.back().second);
      live.pop_back();
    };
    for (int step = 0; step < 4'000; ++step) {
      // Now mostly the one kind, now the other, at about as many blocks.
      const bool small = random() % 100 < (step / 300 % 2 == 0 ? 90U : 10U);
      if (live.size() >= 40 + random() % 3) free_one();
      const std::uint64_t bytes = small ? 1 + random() % (1 * MiB) : 1 * MiB + 1 + random() % (1 * MiB);
      live.emplace_back(alloc(s, bytes), bytes);
      model.allocate(bytes);
      if (random() % 4 == 0) free_one();
      if (random() % 500 == 0) {
        allocator->reset_peaks();
        model.reset_peaks();
      }
      if (random() % 200 == 0) {
        model.compare(allocator->stats());
        expect_consistent();
      }
      if (HasFailure()) return;
    }
    model.compare(allocator->stats());
    for (const auto& block : live) free(block.first);
  }
}

// The peaks of several pools together, which no pool knows alone. The statistics are looked at now and then only, since
// a look is what makes the counts exact at that moment.
TEST_F(StatsTest, SeveralPoolsAgainstAModel) {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    allocator = nullptr;
    allocator = std::make_unique<Allocator>(*opened, addresses, Settings{});
    Model model;
    std::vector<Stream> streams;
    for (unsigned i = 0; i < 1 + seed; ++i) streams.push_back(stream());
    const PoolId mine = pool(false);
    std::vector<std::pair<void*, std::uint64_t>> live;
    for (int step = 0; step < 6'000; ++step) {
      const std::uint64_t what = random() % 1'000;
      if (what < 500 || live.empty()) {
        const std::uint64_t bytes = 1 + random() % (what < 150 ? 4 * MiB : 64 * KiB);
        live.emplace_back(alloc(streams[random() % streams.size()], bytes, what % 10 == 0 ? mine : 0), bytes);
        model.allocate(bytes);
      } else if (what < 990) {
        std::swap(live[random() % live.size()], live.back());
        free(live.back().first);
        model.free(live.back().second);
        live.pop_back();
      } else if (what < 993) {
        allocator->reset_peaks();
        model.reset_peaks();
      } else if (what < 996) {
        allocator->reset_accumulated();
        model.reset_accumulated();
      } else {
        model.compare(allocator->stats());
        if (HasFailure()) return;
      }
    }
    model.compare(allocator->stats());
    for (const auto& block : live) free(block.first);
  }
}

// Split memory, which a model could only know by being the allocator: the peak must be the largest value that a look
// after every operation sees, and be found as well by an allocator that is looked at only once.
TEST_F(StatsTest, PeaksOfSplitMemoryDoNotDependOnBeingLookedAt) {
  ByKind<std::array<std::int64_t, metric_count>> seen;
  const auto look_at = [](auto& into, const Totals& totals, auto&& compare) {
    for (std::size_t m = 0; m < metric_count; ++m) compare(into[m], totals.metrics[m], m);
  };
  for (const bool look : {true, false}) {
    allocator = nullptr;
    allocator = std::make_unique<Allocator>(*opened, addresses, Settings{});
    std::mt19937 random(5);
    std::vector<void*> live;
    const Stream streams[] = {s, stream(), stream()};
    const auto operated = [&] {
      if (!look) return;
      const Stats stats = allocator->stats();
      const auto take = [](std::int64_t& most, const Counter& counter, std::size_t) {
        most = std::max(most, counter.current);
      };
      look_at(seen.all, stats, take);
      for (const BlockKind kind : both_kinds) look_at(seen.of(kind), of(stats, kind), take);
    };
    const auto free_one = [&] {
      std::swap(live[random() % live.size()], live.back());
      free(live.back());
      live.pop_back();
      operated();
    };
    for (int step = 0; step < 3'000; ++step) {
      if (random() % 5 < 3 || live.empty()) {
        live.push_back(alloc(streams[random() % 3], 1 + random() % (2 * MiB)));
        operated();
      } else {
        free_one();
      }
      while (step % 400 == 399 && !live.empty()) free_one();
    }
    const Stats stats = allocator->stats();
    const auto compare = [&](std::int64_t most, const Counter& counter, std::size_t m) {
      EXPECT_EQ(counter.peak, most) << m << " " << look;
    };
    look_at(seen.all, stats, compare);
    for (const BlockKind kind : both_kinds) look_at(seen.of(kind), of(stats, kind), compare);
    free_all(live);
  }
}

TEST_F(StatsTest, SplitMemoryStepByStep) {
  const auto expect_split = [&](std::int64_t bytes, std::int64_t blocks) {
    EXPECT_EQ(metric(inactive_split_bytes).current, bytes);
    EXPECT_EQ(metric(inactive_split_blocks).current, blocks);
  };
  void* const a = alloc(s, 512 * KiB);
  expect_split(1536 << 10, 1);
  void* const b = alloc(s, 512 * KiB);
  void* const c = alloc(s, 512 * KiB);
  expect_split(512 << 10, 1);
  free(b);
  expect_split(1 << 20, 2);
  free(c);
  expect_split(1536 << 10, 1);
  free(a);
  expect_split(0, 0);  // the segment is free as a whole
  EXPECT_EQ(metric(inactive_split_bytes).peak, 1536 << 10);
  EXPECT_EQ(metric(inactive_split_blocks).peak, 2);
  const Counter bytes = metric(inactive_split_bytes);
  EXPECT_EQ(bytes.allocated, bytes.freed);
}

TEST_F(StatsTest, ReservedBytesAndSegments) {
  void* const a = alloc(s, 16 * MiB);
  void* const b = alloc(s, 4 * KiB);
  Stats stats = allocator->stats();
  expect_counter(stats.reserved_bytes, {18 << 20, 18 << 20, 18 << 20, 0}, "reserved");
  expect_counter(stats.segments, {2, 2, 2, 0}, "segments");
  free(a);
  EXPECT_TRUE(allocator->trim(0).ok());
  stats = allocator->stats();
  expect_counter(stats.reserved_bytes, {2 << 20, 18 << 20, 18 << 20, 16 << 20}, "reserved");
  expect_counter(stats.segments, {1, 2, 2, 1}, "segments");
  allocator->reset_peaks();
  allocator->reset_accumulated();
  free(b);
  EXPECT_TRUE(allocator->trim(0).ok());
  stats = allocator->stats();
  expect_counter(stats.reserved_bytes, {0, 2 << 20, 0, 2 << 20}, "reserved");
  expect_counter(stats.segments, {0, 1, 0, 1}, "segments");
}

// A chunk counts for the kind that it serves, and for its last one until the driver has it back.
TEST_F(StatsTest, ReservedBytesOfChunksThatChangeTheirKind) {
  allocator->set_limit(32 * MiB);
  std::vector<void*> blocks = alloc_many(s, 32, 1 * MiB);
  Stats stats = allocator->stats();
  expect_counter(of(stats, BlockKind::small).reserved_bytes, {32 << 20, 32 << 20, 32 << 20, 0}, "small");
  expect_counter(of(stats, BlockKind::large).reserved_bytes, {0, 0, 0, 0}, "large");
  free_all(blocks);
  void* const block = alloc(s, 24 * MiB);
  stats = allocator->stats();
  expect_counter(stats.reserved_bytes, {32 << 20, 32 << 20, 32 << 20, 0}, "all");
  expect_counter(of(stats, BlockKind::small).reserved_bytes, {8 << 20, 32 << 20, 32 << 20, 24 << 20}, "small");
  expect_counter(of(stats, BlockKind::large).reserved_bytes, {24 << 20, 24 << 20, 24 << 20, 0}, "large");
  EXPECT_EQ(of(stats, BlockKind::large).segments.current, 1);
  expect_consistent();

  hold(s);
  write(s, block, 1, 1);
  free(block);
  allocator->set_limit(2 * MiB);  // all of it is on its way back, and the stream still at work
  EXPECT_EQ(of(allocator->stats(), BlockKind::large).reserved_bytes.current, 24 << 20);
  expect_consistent();
  resume(s);
  EXPECT_TRUE(allocator->trim(0).ok());
  stats = allocator->stats();
  expect_counter(of(stats, BlockKind::small).reserved_bytes, {0, 32 << 20, 32 << 20, 32 << 20}, "small");
  expect_counter(of(stats, BlockKind::large).reserved_bytes, {0, 24 << 20, 24 << 20, 24 << 20}, "large");
  allocator->reset_peaks();
  allocator->reset_accumulated();
  stats = allocator->stats();
  for (const BlockKind kind : both_kinds) {
    expect_counter(of(stats, kind).reserved_bytes, {}, "reserved");
    expect_counter(of(stats, kind).segments, {}, "segments");
  }
}

TEST_F(StatsTest, FreedButInUseElsewhere) {
  const Stream other = stream();
  void* const block = alloc(s, 5'000);
  record(block, other);
  hold(other);
  free(block);
  Stats stats = allocator->stats();
  expect_counter(stats.metrics[requested_bytes], {0, 5'000, 5'000, 5'000}, "requested");
  expect_counter(stats.metrics[allocated_bytes], {0, 5'120, 5'120, 5'120}, "allocated");
  expect_counter(stats.metrics[active_bytes], {5'120, 5'120, 5'120, 0}, "active");
  expect_counter(stats.metrics[allocations], {0, 1, 1, 1}, "allocations");
  expect_counter(stats.metrics[active_blocks], {1, 1, 1, 0}, "active blocks");
  resume(other);
  EXPECT_TRUE(allocator->trim(~std::uint64_t{0}).ok());
  stats = allocator->stats();
  expect_counter(stats.metrics[active_bytes], {0, 5'120, 5'120, 5'120}, "active");
  expect_counter(stats.metrics[active_blocks], {0, 1, 1, 1}, "active blocks");
}

TEST_F(StatsTest, PoolsThatAreGoneStillCount) {
  for (int i = 0; i < 3; ++i) {
    const PoolId mine = pool(false);
    free(alloc(s, 8 * MiB, mine));
    EXPECT_TRUE(allocator->destroy_pool(mine).ok());
    EXPECT_TRUE(allocator->trim(0).ok());
    static_cast<void>(alloc_code(s, 512));
  }
  const Stats stats = allocator->stats();
  EXPECT_EQ(stats.metrics[requested_bytes].allocated, 3 * ((8 << 20) + 512));
  EXPECT_EQ(stats.metrics[requested_bytes].peak, 8 << 20);
  EXPECT_EQ(stats.metrics[allocations].freed, 6);
}

TEST_F(StatsTest, HarvestsAndDriverCalls) {
  allocator->set_limit(32 * MiB);
  std::vector<void*> blocks = alloc_many(s, 2, 16 * MiB);
  free_all(blocks);
  const std::uint64_t maps = calls(device::Call::map);
  void* const large = alloc(s, 32 * MiB);
  const Stats stats = allocator->stats();
  EXPECT_EQ(stats.harvested_bytes, 16 << 20);
  EXPECT_EQ(static_cast<std::uint64_t>(stats.harvested_chunks), calls(device::Call::map) - maps);
  free(large);
}

// Growth goes by the peak: a loop that resets it at every step, as training scripts do, must not make it grow otherwise.
TEST_F(StatsTest, ResettingPeaksChangesNoGrowth) {
  const auto run = [this](bool resets) {
    free(alloc(s, 512 * MiB));
    EXPECT_TRUE(allocator->trim(0).ok());
    if (resets) allocator->reset_peaks();
    std::vector<void*> blocks = alloc_many(s, 4, 16 * MiB);
    free(blocks[0]);
    free(blocks[2]);
    void* const large = alloc(s, 32 * MiB);
    for (void* block : {blocks[1], blocks[3], large}) free(block);
    return std::pair(reserved(), allocator->stats().harvested_bytes);
  };
  const auto with = run(true);
  allocator.reset();
  allocator = std::make_unique<Allocator>(*opened, addresses, Settings{});
  EXPECT_EQ(with, run(false));
}

}  // namespace
}  // namespace reprieve::memory
