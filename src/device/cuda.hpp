// The `cuda` implementation of the device contract: the GPUs that the CUDA driver of this machine has.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace reprieve::device {

// Loads and starts the driver; no context is made before a device is opened. not_supported with one line in `reason`:
// no driver, one that is too old, no device, or none with virtual memory management. Thread-safe, may be repeated.
//
// Backend::open refuses (not_supported) a device without virtual memory management, and one where the driver names it
// but then refuses its calls, as some do under WSL: reserving, creating, mapping and unmapping are each tried once.
Status open_cuda(std::unique_ptr<Backend>& out, std::string& reason);

}  // namespace reprieve::device
