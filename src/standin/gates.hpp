// Streams that wait for a word in memory (cuStreamWaitValue32): work behind the wait runs once a call finds that the
// word has the value. The program may write the word with no call of CUDA's, so every call looks. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "simgpu/machine.hpp"
#include "standin/cuda_api.hpp"

namespace reprieve::standin {

// `bytes`: 4 or 8. `flags`: one of CUstreamWaitValue_flags' comparisons.
REPRIEVE_STANDIN_CORE simgpu::Code add_gate(int device, simgpu::StreamId stream, std::uint64_t address,
                                            std::uint64_t value, int bytes, unsigned flags);

// How many are shut.
REPRIEVE_STANDIN_CORE extern std::atomic<int> shut_gates;
REPRIEVE_STANDIN_CORE void open_gates_now();

inline void open_gates() {
  if (shut_gates.load(std::memory_order_relaxed) != 0) open_gates_now();
}

// While a gate is shut these wait for real, as another thread may open it; else they are the machine's own calls.
REPRIEVE_STANDIN_CORE simgpu::Code synchronize_stream(int device, simgpu::StreamId stream);
REPRIEVE_STANDIN_CORE simgpu::Code synchronize_event(simgpu::EventId event);
REPRIEVE_STANDIN_CORE simgpu::Code synchronize_device(int device);

}  // namespace reprieve::standin
