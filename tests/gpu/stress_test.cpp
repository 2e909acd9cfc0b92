// Threads with a stream each allocate, write, hand blocks to each other, check and free under a tight limit, on a real
// GPU: every block must hold what its owner wrote, whatever was regrouped below it meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "device/cuda.hpp"
#include "memory/allocator.hpp"

namespace reprieve::memory {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;
constexpr int thread_count = 8;
constexpr int rounds = 1500;
constexpr std::size_t most_held = 24;
constexpr std::uint64_t sample = 256;  // bytes read back at each end of a block

struct Block {
  void* at;
  std::uint64_t bytes;
  std::uint8_t value;
};

device::Address address(void* block) { return reinterpret_cast<device::Address>(block); }

class GpuStress : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (!device::open_cuda(backend_, reason).ok()) GTEST_SKIP() << reason;
    ASSERT_TRUE(backend_->open(0, device_).ok());
    Settings settings;
    settings.limit = 3072 * MiB;
    allocator_ = std::make_unique<Allocator>(*device_, addresses_, settings);
    for (device::Stream& stream : streams_) ASSERT_TRUE(device_->stream_create(stream).ok());
  }

  void TearDown() override {
    if (device_ == nullptr) return;
    for (const device::Stream stream : streams_) EXPECT_TRUE(allocator_->forget_stream(stream).ok());
    EXPECT_EQ(allocator_->validate(), "");
    allocator_.reset();
    for (const device::Stream stream : streams_) EXPECT_TRUE(device_->stream_destroy(stream).ok());
  }

  void expect_value(const Block& block, device::Stream stream) {
    std::array<std::uint8_t, 2 * sample> seen{};
    const std::uint64_t half = std::min(block.bytes / 2, sample);
    ASSERT_TRUE(device_->copy(address(seen.data()), address(block.at), half, stream).ok());
    ASSERT_TRUE(device_->copy(address(seen.data()) + half, address(block.at) + block.bytes - half, half, stream).ok());
    ASSERT_TRUE(device_->stream_synchronize(stream).ok());
    for (std::uint64_t i = 0; i < 2 * half; ++i) ASSERT_EQ(seen[i], block.value) << "byte " << i;
  }

  // Replaces random blocks; every so often one is read by the next thread's stream, and freed at once after.
  void run(int thread, std::uint64_t seed) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(thread));
    const device::Stream own = streams_[static_cast<std::size_t>(thread)];
    const device::Stream other = streams_[static_cast<std::size_t>((thread + 1) % thread_count)];
    std::vector<Block> held;
    device::Event written{};
    ASSERT_TRUE(device_->event_create(written).ok());
    for (int round = 0; round < rounds; ++round) {
      rounds_done_.fetch_add(1);
      const bool large = random() % 4 == 0;
      Block block{nullptr, 512 + random() % (large ? 48 * MiB : MiB), static_cast<std::uint8_t>(random())};
      const Status status = allocator_->allocate(own, 0, block.bytes, &block.at);
      if (status.ok()) {
        ASSERT_TRUE(device_->fill(address(block.at), block.value, block.bytes, own).ok());
        held.push_back(block);
      } else {
        ASSERT_EQ(status.code, Errc::out_of_memory) << status.what << " " << status.driver;
        refused_.fetch_add(1);
        ASSERT_FALSE(held.empty());
      }
      if (held.size() < most_held && status.ok()) continue;
      std::swap(held[random() % held.size()], held.back());
      const Block leaving = held.back();
      held.pop_back();
      if (random() % 4 == 0) {
        ASSERT_TRUE(device_->event_record(written, own).ok());
        ASSERT_TRUE(device_->stream_wait(other, written).ok());
        ASSERT_TRUE(Allocator::record_stream(addresses_, leaving.at, other).ok());
        expect_value(leaving, other);
      } else {
        expect_value(leaving, own);
      }
      ASSERT_TRUE(Allocator::free(addresses_, leaving.at).ok());
    }
    for (const Block& block : held) {
      expect_value(block, own);
      ASSERT_TRUE(Allocator::free(addresses_, block.at).ok());
    }
    ASSERT_TRUE(device_->event_destroy(written).ok());
  }

  std::unique_ptr<device::Backend> backend_;
  std::unique_ptr<device::Device> device_;
  AddressMap addresses_;
  std::unique_ptr<Allocator> allocator_;
  std::array<device::Stream, thread_count> streams_{};
  std::atomic<int> refused_{0};
  std::atomic<int> rounds_done_{0};
};

TEST_F(GpuStress, BlocksKeepTheirDataUnderALimit) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) threads.emplace_back([this, i, seed] { run(i, seed); });
  std::atomic<bool> done{false};
  std::thread meddler([&] {
    // Once in so many rounds: validate() holds every lock.
    for (int next = 0; !done.load(); std::this_thread::yield()) {
      if (rounds_done_.load() < next) continue;
      next += 100;
      EXPECT_TRUE(allocator_->trim(2048 * MiB).ok());
      EXPECT_LE(allocator_->stats().reserved_bytes.peak, static_cast<std::int64_t>(3072 * MiB));
      EXPECT_EQ(allocator_->validate(), "");
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  meddler.join();
  const Stats stats = allocator_->stats();
  std::printf("seed %llu: %lld chunks regrouped, %d of %d allocations refused at the limit\n",
              static_cast<unsigned long long>(seed), static_cast<long long>(stats.harvested_chunks), refused_.load(),
              thread_count * rounds);
  EXPECT_GT(stats.harvested_chunks, 0);
  EXPECT_EQ(stats.metrics[allocations].current, 0);
}

}  // namespace
}  // namespace reprieve::memory
