// Graph captures: which calls they make illegal, and the graph that they record.
#pragma once

#include <cstdint>
#include <memory>

#include "simgpu/graph.hpp"

namespace reprieve::simgpu {

// Of a capture: who is kept from unsafe calls while it goes on. Of a thread: which captures it minds.
enum class CaptureMode : std::uint8_t { global, thread_local_only, relaxed };

struct Capture {
  CaptureMode mode{};
  std::uint64_t thread = 0;
  int device = 0;
  std::uintptr_t stream = 0;  // where it was begun, and must be ended
  std::uint64_t id = 0;
  GraphId graph_id = 0;
  std::shared_ptr<Graph> graph;
  bool invalidated = false;
  bool ended = false;
};

// A number of its own for every thread that ever asked (the system's thread ids are used again).
std::uint64_t this_thread_number();

// Sets the calling thread's mode and returns the one before (cuThreadExchangeStreamCaptureMode). Legal at any time.
CaptureMode exchange_capture_mode(CaptureMode mode);
CaptureMode capture_mode();

}  // namespace reprieve::simgpu
