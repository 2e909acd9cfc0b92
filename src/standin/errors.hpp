// Names and texts of CUDA's error codes. The runtime and the driver have the same numbers and texts, but each its names.
#pragma once

#include "standin/cuda_api.hpp"

namespace reprieve::standin {

struct ErrorText {
  int code;
  const char* runtime_name;  // null: not an error of the runtime's
  const char* driver_name;   // null: not an error of the driver's
  const char* text;
};

// Null where CUDA does not know the number either.
REPRIEVE_STANDIN_CORE const ErrorText* find_error(int code);

}  // namespace reprieve::standin
