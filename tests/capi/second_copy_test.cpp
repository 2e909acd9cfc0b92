// Two copies of the library in one process: whichever starts second is refused, with both files named.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "reprieve/reprieve.h"

namespace {

namespace fs = std::filesystem;

struct Copy {
  explicit Copy(const fs::path& path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle, nullptr) << dlerror();
  }

  template <typename F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle, name));
  }
  reprieve_status init() const { return get<decltype(reprieve_init)>("reprieve_init")(); }
  std::string last_error() const { return get<decltype(reprieve_last_error)>("reprieve_last_error")(); }
  int is_started() const { return get<decltype(reprieve_is_started)>("reprieve_is_started")(); }
  reprieve_status shutdown() const { return get<decltype(reprieve_shutdown)>("reprieve_shutdown")(); }

  void* handle;
};

TEST(SecondCopy, IsRefusedUntilTheFirstIsShutDown) {
  setenv("REPRIEVE_DEVICE", "sim", 1);
  const fs::path first_path = fs::canonical(REPRIEVE_LIBRARY);
  std::string folder = ::testing::TempDir() + "reprieve_copy_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const fs::path second_path = fs::path(folder) / first_path.filename();
  fs::copy_file(first_path, second_path);

  const Copy first(first_path);
  const Copy second(second_path);
  ASSERT_NE(first.handle, second.handle);
  EXPECT_EQ(first.init(), REPRIEVE_OK) << first.last_error();
  EXPECT_EQ(second.init(), REPRIEVE_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(second.last_error(), "this copy of the library, " + second_path.string() +
                                     ", cannot start: another runs in this process, " + first_path.string());
  EXPECT_EQ(second.is_started(), 0);
  EXPECT_EQ(first.init(), REPRIEVE_OK);

  EXPECT_EQ(first.shutdown(), REPRIEVE_OK);
  EXPECT_EQ(second.init(), REPRIEVE_OK) << second.last_error();
  EXPECT_EQ(first.init(), REPRIEVE_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(second.shutdown(), REPRIEVE_OK);
  fs::remove_all(folder);
}

}  // namespace
