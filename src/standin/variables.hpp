// __device__ variables of loaded programs: a program registers each, and gets memory for it on every device that asks.
// Their first value is 0, whatever the source says: the stand-in does not read device code. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "standin/cuda_api.hpp"

namespace reprieve::standin {

REPRIEVE_STANDIN_CORE void register_variable(const void* symbol, const char* name, std::size_t bytes);
REPRIEVE_STANDIN_CORE void forget_variable(const void* symbol);

// cudaErrorInvalidSymbol where there is no such variable. The address is on this device and stays; all variables of a
// device share pages, as on a GPU.
REPRIEVE_STANDIN_CORE CUresult variable_address(const void* symbol, int device, std::uint64_t& address,
                                                std::size_t& bytes);

}  // namespace reprieve::standin
