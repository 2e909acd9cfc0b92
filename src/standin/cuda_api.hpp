// The real CUDA headers, so that a signature which changes there no longer compiles here. What they declare is what the
// stand-in libraries export: everything else is hidden.
#pragma once

#pragma GCC visibility push(default)
// Before the profiler's, which are a package of their own among the wheels: where those come from a toolkit, they bring
// its types with them.
#include <cuda.h>
#include <cuda_runtime_api.h>

#if __has_include(<cudaProfiler.h>)
#include <cudaProfiler.h>
#endif
#if __has_include(<cuda_profiler_api.h>)
#include <cuda_profiler_api.h>
#endif
#pragma GCC visibility pop

// On what the three stand-in libraries share: libreprieve_standin_core.so exports it to libcuda and libcudart.
#define REPRIEVE_STANDIN_CORE __attribute__((visibility("default")))
