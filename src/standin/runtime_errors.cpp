// The runtime's last error, and what errors are called.
#include <utility>

#include "standin/errors.hpp"
#include "standin/runtime.hpp"

namespace reprieve::standin {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
constexpr const char* unknown = "unrecognized error code";

}  // namespace

cudaError_t done(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace reprieve::standin

using namespace reprieve::standin;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const found = find_error(static_cast<int>(error));
  return found != nullptr && found->runtime_name != nullptr ? found->runtime_name : unknown;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const found = find_error(static_cast<int>(error));
  return found != nullptr && found->runtime_name != nullptr ? found->text : unknown;
}

}  // extern "C"
