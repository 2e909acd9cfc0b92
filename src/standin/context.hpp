// Which device a call is for, and whether it may be made: the primary contexts, every thread's stack of current ones,
// and errors that stay. Shared by the driver and the runtime, which see the same contexts. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>

#include "simgpu/machine.hpp"
#include "standin/cuda_api.hpp"

namespace reprieve::standin {

// The process's simulated machine, made at the first call from the environment, and never given up again. Null where
// the environment's REPRIEVE_SIM_* are not acceptable: the reason was then written to the standard error, once.
REPRIEVE_STANDIN_CORE simgpu::Machine* machine();

// cuInit: 0, or CUDA_ERROR_INVALID_DEVICE (no_device) where there is no machine. Until it was called once, the driver's
// calls fail; the runtime's call it themselves.
REPRIEVE_STANDIN_CORE CUresult initialize();
REPRIEVE_STANDIN_CORE bool is_initialized();

// A device's primary context; the only kind there is. Null for a device that does not exist.
REPRIEVE_STANDIN_CORE CUcontext primary_context(int device);
// -1 where it is none of them.
REPRIEVE_STANDIN_CORE int device_of(CUcontext context);

// Active: retained by the driver's callers, or used by the runtime.
REPRIEVE_STANDIN_CORE CUresult retain(int device);
REPRIEVE_STANDIN_CORE CUresult release(int device);  // invalid_context where it is not retained
REPRIEVE_STANDIN_CORE void activate(int device);     // the runtime's own hold; any number of times
REPRIEVE_STANDIN_CORE void reset(int device);        // forgets all holds, and the error that stays
REPRIEVE_STANDIN_CORE bool is_active(int device);

// The calling thread's.
REPRIEVE_STANDIN_CORE CUcontext current();
REPRIEVE_STANDIN_CORE void set_current(CUcontext context);
REPRIEVE_STANDIN_CORE void push(CUcontext context);
REPRIEVE_STANDIN_CORE CUcontext pop();  // null where the stack is empty

// The device that the runtime would use: the current context's, else the one that cudaSetDevice() chose, else 0.
REPRIEVE_STANDIN_CORE int runtime_device();
REPRIEVE_STANDIN_CORE void choose_device(int device);
// The same, after its context was made current where the thread had none.
REPRIEVE_STANDIN_CORE int use_runtime_device();

// A kernel's illegal access spoils its context for good: most calls then fail with the same error. 0 where none is.
REPRIEVE_STANDIN_CORE CUresult lasting_error(int device);
REPRIEVE_STANDIN_CORE void spoil(int device, CUresult error);

// Whether `device` may use `peer`'s memory. Each returns false where it was so already.
REPRIEVE_STANDIN_CORE bool enable_peer(int device, int peer);
REPRIEVE_STANDIN_CORE bool disable_peer(int device, int peer);

// Limits are kept and bound nothing. Nothing, or false, for one that this device has not.
REPRIEVE_STANDIN_CORE std::optional<std::size_t> context_limit(CUlimit limit);
REPRIEVE_STANDIN_CORE bool set_context_limit(CUlimit limit, std::size_t value);

}  // namespace reprieve::standin
