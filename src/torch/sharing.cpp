// Between processes and between devices.
#include <c10/util/Exception.h>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {

compat::cca::ShareableHandle Adapter::shareIpcHandle(void*) {
  TORCH_CHECK(false, "reprieve does not share CUDA memory between processes in this version");
}

std::shared_ptr<void> Adapter::getIpcDevPtr(std::string) {
  TORCH_CHECK(false, "reprieve does not open CUDA memory of other processes in this version");
}

void Adapter::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  TORCH_CHECK(false, "reprieve does not give device ", static_cast<int>(peer), " access to the memory of device ",
              static_cast<int>(device), " in this version");
}

}  // namespace reprieve::torch_adapter
