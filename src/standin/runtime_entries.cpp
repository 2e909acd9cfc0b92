// The driver's entries, asked of the runtime.
#include "standin/runtime.hpp"

namespace reprieve::standin {
namespace {

static_assert(static_cast<int>(cudaDriverEntryPointSymbolNotFound) ==
                  static_cast<int>(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) &&
              static_cast<int>(cudaDriverEntryPointVersionNotSufficent) ==
                  static_cast<int>(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));

cudaError_t find(const char* name, void** out, int version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || out == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine&) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result = cuGetProcAddress(name, out, version, flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(static_cast<int>(found));
    return error_of(result);
  });
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;

extern "C" {

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return find(name, out, static_cast<int>(version), flags, status);
}
#endif

#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return find(name, out, CUDART_VERSION, flags, status);
}
#endif

}  // extern "C"
