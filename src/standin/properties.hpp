// The properties of the simulated devices: those of an H200, but for capacity and compute capability.
#pragma once

#include <cstddef>
#include <optional>

#include "standin/cuda_api.hpp"

namespace reprieve::standin {

inline constexpr const char* device_name = "Simulated H200";

// The version of the driver and of the CUDA that it is for.
inline constexpr int driver_version = CUDA_VERSION;

// The runtime's cudaDeviceAttr has the same numbers. Nothing where CUDA knows no such attribute either.
REPRIEVE_STANDIN_CORE std::optional<int> device_attribute(int device, int attribute);

REPRIEVE_STANDIN_CORE std::size_t total_bytes(int device);
REPRIEVE_STANDIN_CORE CUuuid device_uuid(int device);

struct PciAddress {
  int domain = 0;
  int bus = 0;
  int device = 0;
};
REPRIEVE_STANDIN_CORE PciAddress pci_address(int device);

}  // namespace reprieve::standin
