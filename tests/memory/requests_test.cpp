// Single requests: sizes at the edges, alignment, and frees of what is no block.
#include <map>
#include <random>

#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class RequestsTest : public MemoryTest {
 protected:
  Errc free_code(void* ptr) { return Allocator::free(addresses, ptr).code; }
  std::int64_t invalid_frees() { return allocator->stats().invalid_frees; }

  Stream s = stream();
};

TEST_F(RequestsTest, NothingAskedNothingGiven) {
  void* out = this;
  EXPECT_TRUE(allocator->allocate(s, 0, 0, &out).ok());
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(metric(allocations).allocated, 0);
}

TEST_F(RequestsTest, AbsurdSizesFailAtOnce) {
  const std::uint64_t calls_before = calls(device::Call::create) + calls(device::Call::reserve);
  const std::uint64_t one = 1;
  std::int64_t ooms = 0;
  for (const std::uint64_t bytes : {~std::uint64_t{0}, ~std::uint64_t{511}, one << 63, (one << 46) + 1, one << 46,
                                    (one << 45) + 1, one << 45, 4 * GiB + 1}) {
    EXPECT_EQ(alloc_code(s, bytes), Errc::out_of_memory) << bytes;
    EXPECT_EQ(allocator->stats().ooms, ++ooms);
  }
  EXPECT_EQ(calls(device::Call::create) + calls(device::Call::reserve), calls_before);
  EXPECT_EQ(metric(allocations).allocated, 0);
}

TEST_F(RequestsTest, TheWholeDevice) {
  EXPECT_EQ(alloc_code(s, 4 * GiB), Errc::ok);
  EXPECT_EQ(reserved(), 4 * GiB);
}

TEST_F(RequestsTest, AFailureLeavesTheOutputAlone) {
  void* out = this;
  EXPECT_EQ(allocator->allocate(s, 0, 5 * GiB, &out).code, Errc::out_of_memory);
  EXPECT_EQ(out, this);
}

TEST_F(RequestsTest, BlocksAreAlignedAndApart) {
  std::mt19937_64 random(7);
  std::map<std::uint64_t, std::uint64_t> blocks;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (random() % 22));
    const std::uint64_t at = address(alloc(s, bytes));
    EXPECT_EQ(at % 512, 0U);
    blocks[at] = bytes;
  }
  std::uint64_t end = 0;
  for (const auto& [at, bytes] : blocks) {
    EXPECT_GE(at, end);
    end = at + bytes;
    std::memset(reinterpret_cast<void*>(at), 1, bytes);  // all of it is there
  }
  for (const auto& block : blocks) free(reinterpret_cast<void*>(block.first));
}

TEST_F(RequestsTest, FreesOfWhatIsNoBlock) {
  int local = 0;
  void* const block = alloc(s, 4 * MiB);
  void* const small = alloc(s, 1 * KiB);
  const auto at = [](void* ptr, std::uint64_t offset) { return static_cast<char*>(ptr) + offset; };

  // In nobody's addresses: counted by the map.
  for (void* stray : {static_cast<void*>(&local), reinterpret_cast<void*>(8),
                      reinterpret_cast<void*>(~std::uint64_t{0}), reinterpret_cast<void*>(1ULL << 48)}) {
    EXPECT_EQ(free_code(stray), Errc::invalid_argument);
  }
  EXPECT_EQ(addresses.strays, 4);
  EXPECT_EQ(invalid_frees(), 0);

  // In the allocator's.
  std::int64_t count = 0;
  for (void* inner : {at(block, 1), at(block, 512), at(block, 2 * MiB), at(block, 4 * MiB), at(block, 100 * MiB),
                      at(small, 1), at(small, 512), at(small, 1024), at(small, 4 * MiB)}) {
    EXPECT_EQ(free_code(inner), Errc::invalid_argument);
    EXPECT_EQ(Allocator::free_on(addresses, inner, Stream{7}).code, Errc::invalid_argument);
    count += 2;
    EXPECT_EQ(invalid_frees(), count);
    EXPECT_EQ(Allocator::record_stream(addresses, inner, s).code, Errc::invalid_argument);
    EXPECT_EQ(Allocator::pin_backing(addresses, inner).code, Errc::invalid_argument);
  }
  EXPECT_EQ(metric(allocations).current, 2);

  free(block);
  free(small);
  EXPECT_EQ(free_code(block), Errc::invalid_argument);
  EXPECT_EQ(free_code(small), Errc::invalid_argument);
  EXPECT_EQ(invalid_frees(), count + 2);
  EXPECT_EQ(metric(allocations).freed, 2);
}

TEST_F(RequestsTest, ABlockFreedWhileStillInUseElsewhereIsNobodys) {
  const Stream other = stream();
  void* const block = alloc(s, 4 * MiB);
  record(block, other);
  hold(other);
  write(other, block, MiB, 1);
  free(block);
  EXPECT_EQ(free_code(block), Errc::invalid_argument);
  EXPECT_EQ(Allocator::record_stream(addresses, block, other).code, Errc::invalid_argument);
  EXPECT_EQ(invalid_frees(), 1);
  resume(other);
}

TEST_F(RequestsTest, AnUnknownPool) {
  EXPECT_EQ(alloc_code(s, 512, 42), Errc::invalid_argument);
  EXPECT_EQ(allocator->destroy_pool(42).code, Errc::invalid_argument);
  EXPECT_EQ(allocator->destroy_pool(0).code, Errc::invalid_argument);
}

// The records of ranges come in slabs of 256; whatever the number in use, the next growth finds as many as it needs.
TEST_F(RequestsTest, RecordsNeverRunOut) {
  constexpr std::uint64_t unit = 8 * KiB;
  // So many blocks of two units in a chunk of 256 that from one chunk to the next every remainder comes up.
  std::vector<void*> blocks;
  for (std::uint64_t doubles = 0; doubles < 20; ++doubles) {
    for (std::uint64_t i = 0; i < doubles; ++i) blocks.push_back(alloc(s, 2 * unit));
    for (std::uint64_t i = 2 * doubles; i < 256; ++i) blocks.push_back(alloc(s, unit));
  }
  EXPECT_EQ(reserved(), 40 * MiB);
  free_all(blocks);
}

}  // namespace
}  // namespace reprieve::memory
