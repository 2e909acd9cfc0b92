// A forked child of a process that uses the library: every call is refused and touches nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>

#include "capi_test.hpp"

namespace {

class ForkTest : public CapiTest {
 protected:
  // Runs `body` in a forked child, which passes it the number of its failed expectations.
  static int failures_in_child(const std::function<void(int&)>& body) {
    const pid_t child = fork();
    if (child == 0) {
      int failures = 0;
      body(failures);
      _exit(failures);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1'000;
  }

  static void expect_refused(int& failures, const char* name, reprieve_status status) {
    if (status == REPRIEVE_ERROR_NOT_SUPPORTED &&
        std::strcmp(reprieve_last_error(),
                    "this process was forked from one that uses the GPU; CUDA does not survive that: start it with "
                    "spawn") == 0) {
      return;
    }
    std::fprintf(stderr, "%s: %d %s\n", name, static_cast<int>(status), reprieve_last_error());
    ++failures;
  }
};

#define REFUSED(call) expect_refused(failures, #call, call)

TEST_F(ForkTest, EveryCallIsRefused) {
  void* const block = alloc(4 * KiB);
  const reprieve_stream other = stream();
  const int failed = failures_in_child([&](int& failures) {
    void* out = nullptr;
    int count = 0;
    size_t limit = 0;
    reprieve_pool pool = 0;
    reprieve_stream made = nullptr;
    reprieve_stats stats{};
    stats.size = sizeof stats;
    REFUSED(reprieve_init());
    REFUSED(reprieve_shutdown());
    REFUSED(reprieve_set_option("log", "off"));
    REFUSED(reprieve_device_count(&count));
    REFUSED(reprieve_alloc(&out, KiB, 0, nullptr));
    REFUSED(reprieve_alloc_in_pool(&out, KiB, 0, nullptr, 0));
    REFUSED(reprieve_dealloc(block));
    REFUSED(reprieve_dealloc_on(block, other));
    REFUSED(reprieve_alloc_at(block, 512, 0, nullptr, 0));
    REFUSED(reprieve_get_block_info(block, nullptr, nullptr));
    REFUSED(reprieve_set_hooks(nullptr));
    REFUSED(reprieve_enable_peer_access(0, 1));
    REFUSED(reprieve_record_stream(block, other));
    REFUSED(reprieve_pin_backing(block));
    REFUSED(reprieve_pool_create(0, 0, &pool));
    REFUSED(reprieve_pool_destroy(0, 1));
    REFUSED(reprieve_capture_begin(0));
    REFUSED(reprieve_capture_end(0));
    REFUSED(reprieve_empty_cache(0));
    REFUSED(reprieve_empty_cache(-1));
    REFUSED(reprieve_trim(0, 0));
    REFUSED(reprieve_set_limit(0, 0));
    REFUSED(reprieve_get_limit(0, &limit));
    REFUSED(reprieve_get_stats(0, &stats));
    REFUSED(reprieve_reset_peak_stats(0));
    REFUSED(reprieve_reset_accumulated_stats(0));
    REFUSED(reprieve_validate(0));
    REFUSED(reprieve_forget_stream(0, other));
    REFUSED(reprieve_stream_create(0, &made));
    REFUSED(reprieve_stream_destroy(0, other));
    REFUSED(reprieve_stream_synchronize(0, other));
    if (reprieve_is_started() != 0) ++failures;
    if (out != nullptr || std::strcmp(reprieve_version(), "") == 0) ++failures;
  });
  EXPECT_EQ(failed, 0);
  // The parent's is unharmed.
  EXPECT_EQ(reprieve_is_started(), 1);
  EXPECT_EQ(stats().allocations.current, 1);
  EXPECT_EQ(reprieve_validate(-1), REPRIEVE_OK);
  free(block);
}

TEST_F(ForkTest, FreesAreSilent) {
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
  CapiTest::SetUp();
  set("log", "debug");
  void* const block = alloc(4 * KiB);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(failures_in_child([&](int&) { reprieve_free(block, 4 * KiB, 0, nullptr); }), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  free(block);
}

TEST_F(ForkTest, AForkBeforeTheStartIsNoHindrance) {
  EXPECT_EQ(reprieve_is_started(), 0);
  const int failed = failures_in_child([](int& failures) {
    void* out = nullptr;
    if (reprieve_alloc(&out, KiB, 0, nullptr) != REPRIEVE_OK || reprieve_dealloc(out) != REPRIEVE_OK) ++failures;
  });
  EXPECT_EQ(failed, 0);
}

}  // namespace
