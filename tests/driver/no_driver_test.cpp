// A machine without a usable driver: run where the first libcuda.so.1 that is found is no library.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/cuda.hpp"

namespace reprieve::device {
namespace {

TEST(NoDriver, IsOneLineThatNamesTheLibrary) {
  std::unique_ptr<Backend> backend;
  std::string reason;
  const Status status = open_cuda(backend, reason);
  EXPECT_TRUE(status.is(Errc::not_supported));
  EXPECT_EQ(backend, nullptr);
  EXPECT_EQ(reason.find("no CUDA driver: libcuda.so.1 cannot be loaded ("), 0U) << reason;
  EXPECT_EQ(reason.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace reprieve::device
