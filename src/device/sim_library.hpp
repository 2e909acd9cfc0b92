// The device contract over the simulated GPUs, which live in a library of their own, libreprieve_simgpu.so, that is loaded
// only where the option `device` asks for it: a process on a real GPU has no simulator in it.
#pragma once

#include <memory>
#include <string>

#include "base/options.hpp"
#include "device/device.hpp"

namespace reprieve::device {

// Takes the library that the process has already (the stand-in CUDA libraries bring it), else the one beside this one.
// not_supported, and one line in `reason`, where it is missing or no such library; invalid_argument where it refuses this
// one's version or the options.
Status open_sim(const Options& options, std::unique_ptr<Backend>& out, std::string& reason);

}  // namespace reprieve::device
