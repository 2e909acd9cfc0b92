// Between processes and between devices.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {

compat::cca::ShareableHandle Adapter::shareIpcHandle(void*) {
  TORCH_CHECK(false, "reprieve does not share CUDA memory between processes in this version");
}

std::shared_ptr<void> Adapter::getIpcDevPtr(std::string) {
  TORCH_CHECK(false, "reprieve does not open CUDA memory of other processes in this version");
}

// As torch has it: `device` gets access to the memory of `peer`.
void Adapter::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    C10_CUDA_CHECK(error);
  }
  check(reprieve_enable_peer_access(peer, device), "giving a device access to another's memory");
}

}  // namespace reprieve::torch_adapter
