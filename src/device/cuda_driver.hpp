// Finds the CUDA driver when the program runs, and every entry of it by name: nothing here is linked against libcuda.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "device/driver_api.hpp"

namespace reprieve::device::driver {

// The oldest driver that is accepted, as cuDriverGetVersion numbers it (1000 * major + 10 * minor).
inline constexpr int minimum_version = 12000;
inline constexpr const char* library_name = "libcuda.so.1";

// Loads the library and fills the table; the library stays loaded until the process ends, since the driver cannot be
// unloaded. not_supported: no library, too old a one, one that lacks an entry, or one that finds no device; then
// `reason` says which in one line. Thread-safe.
Status load(Api& out, std::string& reason);

// Errc and Status for a driver's code; `call` is the driver's name of the call that returned it.
Status status_of(Result result, const char* call);

// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"; for a code that the driver does not know
// either: "CUDA error 12345".
std::string describe(const Api& api, Result result);

}  // namespace reprieve::device::driver
