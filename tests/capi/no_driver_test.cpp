// The library on a machine without a CUDA driver: one clear line, nothing half started, and a later start may succeed.
#include <cstdlib>

#include "capi_test.hpp"

namespace {

TEST(NoDriver, OneLineNamesTheLibrary) {
  unsetenv("REPRIEVE_DEVICE");
  void* out = nullptr;
  EXPECT_EQ(reprieve_alloc(&out, KiB, 0, nullptr), REPRIEVE_ERROR_NOT_SUPPORTED);
  EXPECT_NE(last_error().find("libcuda.so.1"), std::string::npos) << last_error();
  EXPECT_EQ(last_error().find('\n'), std::string::npos) << last_error();
  EXPECT_EQ(reprieve_is_started(), 0);
  EXPECT_EQ(reprieve_set_option("device", "sim"), REPRIEVE_OK);
  EXPECT_EQ(reprieve_alloc(&out, KiB, 0, nullptr), REPRIEVE_OK) << last_error();
  EXPECT_EQ(reprieve_dealloc(out), REPRIEVE_OK);
  EXPECT_EQ(reprieve_shutdown(), REPRIEVE_OK);
}

}  // namespace
