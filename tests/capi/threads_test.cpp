// The C interface from several threads: a start that many ask for at once, and errors that are each thread's own.
#include <fmt/format.h>

#include <thread>
#include <vector>

#include "capi_test.hpp"

namespace {

class CapiThreadsTest : public CapiTest {
 protected:
  template <typename F>
  static void on_threads(F&& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(CapiThreadsTest, OneStart) {
  on_threads([](int index) {
    void* const block = alloc(4 * KiB, index % 2);
    free(block);
  });
  EXPECT_EQ(stats(0).allocations.allocated, 4);
  EXPECT_EQ(stats(1).allocations.allocated, 4);
}

TEST_F(CapiThreadsTest, ErrorsAreEachThreadsOwn) {
  on_threads([](int index) {
    void* out = nullptr;
    for (int round = 0; round < 200; ++round) {
      EXPECT_EQ(reprieve_alloc(&out, 1, 10 + index, nullptr), REPRIEVE_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(last_error(), fmt::format("device {}: there are 2 (0 to 1)", 10 + index));
    }
  });
}

TEST_F(CapiThreadsTest, AllCallsAtOnce) {
  on_threads([](int index) {
    const int device = index % 2;
    const reprieve_stream mine = stream(device);
    for (int round = 0; round < 200; ++round) {
      void* const block = alloc(1 + static_cast<std::size_t>(round) * 997, device, mine);
      EXPECT_EQ(reprieve_record_stream(block, nullptr), REPRIEVE_OK);
      free(block);
      if (round % 50 == 10) {
        EXPECT_EQ(reprieve_empty_cache(-1), REPRIEVE_OK);
      }
      if (round % 50 == 20) {
        EXPECT_EQ(reprieve_validate(device), REPRIEVE_OK);
      }
      if (round % 50 == 30) {
        EXPECT_GE(stats(device).allocations.current, 0);
      }
    }
    EXPECT_EQ(reprieve_stream_destroy(device, mine), REPRIEVE_OK);
  });
}

}  // namespace
