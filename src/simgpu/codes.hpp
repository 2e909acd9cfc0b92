// The driver's result codes that the simulated GPU returns, under the numbers of CUresult.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

enum class [[nodiscard]] Code : std::int32_t{
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    invalid_device = 101,
    invalid_context = 201,
    operating_system = 304,
    invalid_handle = 400,
    illegal_state = 401,
    not_ready = 600,
    illegal_address = 700,
    launch_timeout = 702,
    already_registered = 712,
    not_registered = 713,
    not_permitted = 800,
    not_supported = 801,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_merge = 902,
    capture_unmatched = 903,
    capture_unjoined = 904,
    capture_isolation = 905,
    capture_implicit = 906,
    captured_event = 907,
    capture_wrong_thread = 908,
    unknown = 999,
};

// CUDA's name for a code ("CUDA_ERROR_OUT_OF_MEMORY") and one line about it. For a number that is not in the list:
// "CUDA_ERROR" and "no text for this code". Static storage.
const char* code_name(std::int32_t code);
const char* code_text(std::int32_t code);

}  // namespace reprieve::simgpu
