// How the package puts the adapter in place of torch's allocator.
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdio>
#include <memory>
#include <string>

#include "torch/adapter.hpp"

#ifndef REPRIEVE_TORCH_VERSION
#error "the build says which torch this adapter is for"
#endif

using reprieve::torch_adapter::Adapter;

extern "C" {

// torch.__version__ of the torch that this file was built against, and fits alone.
REPRIEVE_API const char* reprieve_torch_built_for(void) { return REPRIEVE_TORCH_VERSION; }

// 1: this adapter serves torch's CUDA allocations.
REPRIEVE_API int reprieve_torch_is_installed(void) {
  const auto* const current = c10::cuda::CUDACachingAllocator::allocator.load();
  return current != nullptr && current == static_cast<const void*>(&Adapter::instance()) ? 1 : 0;
}

// 0, or 1 with one line in `reason`. Must come before torch's first CUDA allocation.
REPRIEVE_API int reprieve_torch_install(char* reason, size_t reason_bytes) {
  const auto refuse = [&](const std::string& text) {
    std::snprintf(reason, reason_bytes, "%s", text.substr(0, text.find('\n')).c_str());
    return 1;
  };
  try {
    // Read while torch's own allocator is in place, which alone may be named by a `backend:` key.
    c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::instance();
    Adapter& adapter = Adapter::instance();
    if (reprieve_torch_is_installed() != 0) return 0;
    const auto* const current = c10::cuda::CUDACachingAllocator::allocator.load();
    if (current != nullptr && current->isEnabled() && const_cast<Adapter::CUDAAllocator*>(current)->initialized()) {
      return refuse("torch has used the GPU already: call reprieve.install() before the first CUDA call");
    }
    // Not owned by torch: it must outlive every block.
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(std::shared_ptr<Adapter>(&adapter, [](Adapter*) {}));
    // torch.accelerator and GetAllocator look here, where the native one has priority 0.
    c10::SetAllocator(c10::kCUDA, &adapter, 100);
    return 0;
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

}  // extern "C"
