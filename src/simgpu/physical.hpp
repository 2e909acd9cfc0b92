// Allocations, and where they can be seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simgpu/backing.hpp"
#include "simgpu/costs.hpp"
#include "simgpu/plain_area.hpp"
#include "simgpu/pointer.hpp"
#include "simgpu/use_history.hpp"

namespace reprieve::simgpu {

inline constexpr std::uint64_t granularity = std::uint64_t{2} << 20;

// One memory with a capacity: a device's, or the host's.
struct Memory {
  Memory(const std::string& name, int device_number) : backing(name), plain(backing), device(device_number) {}

  Backing backing;
  PlainArea plain;
  int device = 0;  // -1: the host's
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;  // by allocations that exist, or whose last mapping does
  std::uint64_t peak_used = 0;
  std::uint64_t foreign = 0;  // by what is not simulated: other processes, modules, libraries

  std::uint64_t available() const {
    const std::uint64_t taken = used + foreign;
    return taken < capacity ? capacity - taken : 0;
  }
  void charge(std::uint64_t bytes) {
    used += bytes;
    peak_used = std::max(peak_used, used);
  }
};

struct Physical {
  ~Physical();

  Memory* memory = nullptr;
  Location where = Location::device;
  std::uint64_t bytes = 0;
  std::uint64_t offset = Backing::nowhere;  // in the file; of a handle's: chosen when it is first made accessible
  std::uint32_t mappings = 0;
  std::uint32_t handles = 0;
  int imported = -1;  // the file, where it is another process's; holds the lock on its range

  // Fresh memory that is poisoned when it is first used: which pieces have been. Empty: all.
  std::vector<bool> settled;

  UseHistory history;

  int file() const { return imported >= 0 ? imported : memory->backing.file(); }
};

struct Mapping {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<Physical> physical;
  std::uint64_t access = 0;  // one bit a device
  bool alive = true;
  std::vector<Use> users;  // queued work that came through these addresses: the last of each queue

  PointerKind kind = PointerKind::mapped;
  int device = -1;
  std::uint64_t asked_bytes = 0;
  std::uint64_t id = 0;

  std::uint64_t end() const { return at + bytes; }
};

// Part of a mapping.
struct Piece {
  std::shared_ptr<Mapping> mapping;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;

  std::uint64_t physical_begin() const { return at - mapping->at; }
};

inline constexpr unsigned char poison_byte = 0xa5;

// Poisons what of the piece, and of the units of 64 KiB that it touches, has not been used before. `overwritten`: the
// caller writes every byte of the piece, so units inside it need no poison. The mapping must be accessible.
void settle(const Piece& piece, bool overwritten);
void settle_all(const Mapping& mapping);
void unsettle(Physical& physical);

// A number that no other allocation, stream, capture or node of the process has.
std::uint64_t next_number();

}  // namespace reprieve::simgpu
