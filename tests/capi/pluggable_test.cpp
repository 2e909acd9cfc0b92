// The two functions for torch's CUDAPluggableAllocator.
#include <stdexcept>

#include "capi_test.hpp"

namespace {

class PluggableTest : public CapiTest {
 protected:
  static std::string thrown_by(ssize_t bytes, int device) {
    try {
      reprieve_malloc(bytes, device, nullptr);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "nothing";
  }
};

TEST_F(PluggableTest, AllocatesAndFrees) {
  void* const block = reprieve_malloc(5'000, 0, nullptr);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(stats().requested_bytes.current, 5'000);
  reprieve_free(block, 5'000, 0, nullptr);
  EXPECT_EQ(stats().requested_bytes.current, 0);
  EXPECT_EQ(reprieve_malloc(0, 0, nullptr), nullptr);
  reprieve_free(nullptr, 0, 0, nullptr);
}

TEST_F(PluggableTest, OutOfMemoryBeginsAsTorchs) {
  EXPECT_EQ(thrown_by(static_cast<ssize_t>(2 * GiB), 0)
                .rfind("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1.00 GiB", 0),
            0U);
}

TEST_F(PluggableTest, OtherFailuresSayWhatTheyAre) {
  EXPECT_EQ(thrown_by(-1, 0), "reprieve_malloc: a negative size");
  EXPECT_EQ(thrown_by(1, 9), "device 9: there are 2 (0 to 1)");
}

TEST_F(PluggableTest, FreeNeverThrowsAndIsCounted) {
  int local = 0;
  EXPECT_EQ(reprieve_init(), REPRIEVE_OK);
  EXPECT_NO_THROW(reprieve_free(&local, 4, 0, nullptr));
  EXPECT_EQ(stats().invalid_frees, 1);
}

TEST_F(PluggableTest, AnErrorOfAFreeIsLogged) {
  EXPECT_EQ(reprieve_set_option("log", "error"), REPRIEVE_OK);
  EXPECT_EQ(reprieve_init(), REPRIEVE_OK);
  ::testing::internal::CaptureStderr();
  reprieve_free(pointer(0x10), 4, 0, nullptr);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("error: free of 0x10: not the beginning of a live block\n"), std::string::npos) << line;
}

}  // namespace
