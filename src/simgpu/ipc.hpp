// Memory and events between processes that each have a simulated machine of their own.
//
// Plain memory goes by a handle of bytes that may travel by any way, mapped memory (create, map) by a file descriptor
// that travels as file descriptors do. The bytes are shared: the importer maps the exporter's backing, and the exporter
// does not give out a range anew while anything holds it imported. An importer is charged nothing. A process cannot
// see the other's queued work: an interprocess event is complete when its record returns.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

// The same size as cudaIpcMemHandle_t and cudaIpcEventHandle_t.
struct IpcMemory {
  unsigned char bytes[64] = {};
};
struct IpcEvent {
  unsigned char bytes[64] = {};
};

}  // namespace reprieve::simgpu
