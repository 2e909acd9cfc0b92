// The C++ interface: exceptions by kind, blocks and pools as objects.
#include "reprieve/allocator.hpp"

#include <type_traits>

#include "capi_test.hpp"

namespace {

static_assert(!std::is_copy_constructible_v<reprieve::block> && std::is_nothrow_move_constructible_v<reprieve::block>);
static_assert(!std::is_copy_constructible_v<reprieve::pool> && std::is_nothrow_move_assignable_v<reprieve::pool>);
static_assert(std::is_nothrow_copy_constructible_v<reprieve::out_of_memory>);
static_assert(std::is_nothrow_copy_constructible_v<reprieve::device_error>);

class AllocatorHppTest : public CapiTest {
 protected:
  static std::int64_t live() { return stats().allocations.current; }
};

// The text under which E catches what `body` throws.
template <typename E, typename F>
std::string caught_as(F&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (...) {
    return "something else";
  }
  return "nothing";
}

TEST_F(AllocatorHppTest, OutOfMemory) {
  const auto fails = [] { reprieve::allocate(2 * GiB, 0); };
  const std::string text = caught_as<reprieve::out_of_memory>(fails);
  EXPECT_EQ(text.rfind("CUDA out of memory. Tried to allocate 2.00 GiB", 0), 0U) << text;
  EXPECT_EQ(caught_as<std::bad_alloc>(fails), text);
  EXPECT_EQ(caught_as<std::exception>(fails), text);
  EXPECT_EQ(caught_as<reprieve::error>(fails), text);
  try {
    fails();
  } catch (const reprieve::error& error) {
    EXPECT_EQ(error.status(), REPRIEVE_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(error.driver_error(), 0);
  }
}

TEST_F(AllocatorHppTest, EachKindIsItsOwnAndTheStandards) {
  const auto invalid = [] { reprieve::allocate(1, 5); };
  EXPECT_EQ(caught_as<reprieve::invalid_argument>(invalid), "device 5: there are 2 (0 to 1)");
  EXPECT_EQ(caught_as<std::invalid_argument>(invalid), "device 5: there are 2 (0 to 1)");
  EXPECT_EQ(caught_as<std::bad_alloc>(invalid), "something else");
  const auto throws = [](reprieve_status status) { return [status] { reprieve::check(status); }; };
  EXPECT_NE(caught_as<std::bad_alloc>(throws(REPRIEVE_ERROR_HOST_MEMORY)), "something else");
  EXPECT_EQ(caught_as<reprieve::out_of_memory>(throws(REPRIEVE_ERROR_HOST_MEMORY)), "something else");
  EXPECT_NE(caught_as<reprieve::host_out_of_memory>(throws(REPRIEVE_ERROR_HOST_MEMORY)), "something else");
  EXPECT_NE(caught_as<reprieve::not_supported>(throws(REPRIEVE_ERROR_NOT_SUPPORTED)), "something else");
  EXPECT_NE(caught_as<reprieve::device_error>(throws(REPRIEVE_ERROR_DEVICE)), "something else");
  EXPECT_NE(caught_as<std::runtime_error>(throws(REPRIEVE_ERROR_DEVICE)), "something else");
  EXPECT_EQ(caught_as<reprieve::error>(throws(REPRIEVE_OK)), "nothing");
}

TEST_F(AllocatorHppTest, ABlockIsOwnedOnce) {
  {
    reprieve::block first(5'000, 0);
    EXPECT_TRUE(first);
    EXPECT_EQ(first.size(), 5'000U);
    void* const at = first.get();
    reprieve::block second(std::move(first));
    EXPECT_EQ(second.get(), at);
    reprieve::block third(KiB, 0);
    third = std::move(second);
    EXPECT_EQ(third.get(), at);
    EXPECT_EQ(third.size(), 5'000U);
    EXPECT_EQ(live(), 1);
    third = reprieve::block();
    EXPECT_FALSE(third);
    EXPECT_EQ(live(), 0);
    third = reprieve::block(KiB, 0);
    void* const released = third.release();
    EXPECT_FALSE(third);
    EXPECT_EQ(third.size(), 0U);
    EXPECT_EQ(live(), 1);
    reprieve::deallocate(released);
    third = reprieve::block(KiB, 0);
    third.reset();
    EXPECT_EQ(live(), 0);
    third = reprieve::block(KiB, 0);
  }
  EXPECT_EQ(live(), 0);
  EXPECT_EQ(caught_as<reprieve::invalid_argument>([] { reprieve::deallocate(pointer(0x40)); }),
            "0x40: not the beginning of a live block");
}

TEST_F(AllocatorHppTest, BlocksAndStreams) {
  const reprieve_stream a = stream();
  const reprieve_stream b = stream();
  reprieve::block block(8 * MiB, 0, a);
  block.record_stream(b);
  block.reset_on(b);
  EXPECT_EQ(live(), 0);
  void* const raw = reprieve::allocate(8 * MiB, 0, a);
  reprieve::deallocate_on(raw, b);
  EXPECT_THROW(block.record_stream(b), reprieve::invalid_argument);  // owns none now
  reprieve::forget_stream(a, 0);
  EXPECT_THROW(reprieve::forget_stream(reinterpret_cast<reprieve_stream>(pointer(0x99)), 0),
               reprieve::invalid_argument);
}

TEST_F(AllocatorHppTest, Pools) {
  reprieve::pool first(0);
  const reprieve_pool id = first.id();
  EXPECT_NE(id, 0U);
  reprieve::pool second(0, reprieve::pool::kind::graph);
  EXPECT_NE(second.id(), id);
  reprieve::block block(KiB, first);
  second = std::move(first);
  EXPECT_EQ(second.id(), id);
  EXPECT_EQ(first.id(), 0U);  // NOLINT(bugprone-use-after-move): what is left is stated
  { const reprieve::pool gone(std::move(second)); }
  EXPECT_THROW(reprieve::block(KiB, 0, nullptr, id), reprieve::invalid_argument);
  EXPECT_EQ(live(), 1);  // outlives its pool
}

TEST_F(AllocatorHppTest, MemoryHeld) {
  reprieve::deallocate(reprieve::allocate(16 * MiB, 0));
  EXPECT_EQ(reprieve::stats(0).reserved_bytes.current, 16 << 20);
  reprieve::trim(16 * MiB, 0);
  EXPECT_EQ(reprieve::stats(0).reserved_bytes.current, 16 << 20);
  reprieve::empty_cache();
  EXPECT_EQ(reprieve::stats(0).reserved_bytes.current, 0);
  reprieve::set_limit(64 * MiB, 0);
  EXPECT_EQ(reprieve::limit(0), 64 * MiB);
  reprieve::reset_peak_stats();
  reprieve::reset_accumulated_stats(0);
  EXPECT_EQ(reprieve::stats(0).reserved_bytes.peak, 0);
  EXPECT_EQ(reprieve::stats(0).allocations.allocated, 0);
  EXPECT_THROW(static_cast<void>(reprieve::stats(3)), reprieve::invalid_argument);
}

}  // namespace
