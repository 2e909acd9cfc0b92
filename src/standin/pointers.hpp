// Which memory an address belongs to, as CUDA counts it: an allocation is as long as was asked for, not as what it takes.
#pragma once

#include "simgpu/machine.hpp"

namespace reprieve::standin {

// Whether the bytes begin in memory of the machine and do not run over the end of that allocation. Mapped memory may go
// on behind its mapping in the next, which the machine checks when the bytes are used.
inline bool find_memory(simgpu::Machine& gpus, std::uint64_t address, std::uint64_t bytes, simgpu::PointerInfo& info) {
  if (!gpus.find_pointer(address, info)) return false;
  if (info.kind == simgpu::PointerKind::mapped) return true;
  const std::uint64_t offset = address - info.base;
  return offset < info.bytes && bytes <= info.bytes - offset;
}

// Whether a copy's side is no known memory at all, or lies within it.
inline bool fits(simgpu::Machine& gpus, std::uint64_t address, std::uint64_t bytes) {
  simgpu::PointerInfo info;
  return !gpus.find_pointer(address, info) || find_memory(gpus, address, bytes, info);
}

}  // namespace reprieve::standin
