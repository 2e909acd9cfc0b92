// The real CUDA headers, so that a signature which changes there no longer compiles here. What they declare is what the
// stand-in libraries export: everything else is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

// On what the three stand-in libraries share: libreprieve_standin_core.so exports it to libcuda and libcudart.
#define REPRIEVE_STANDIN_CORE __attribute__((visibility("default")))
