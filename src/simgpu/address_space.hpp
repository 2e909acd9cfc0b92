// Addresses, physical allocations and the mappings between them. Addresses are real: a reservation is an inaccessible
// range of this process, a mapping makes part of it readable and writable, and touching anything else faults.
// Not thread-safe: the machine's lock covers it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simgpu/backing.hpp"
#include "simgpu/codes.hpp"
#include "simgpu/costs.hpp"
#include "simgpu/use_history.hpp"

namespace reprieve::simgpu {

inline constexpr std::uint64_t granularity = std::uint64_t{2} << 20;

// One memory with a capacity: a device's, or the host's.
struct Memory {
  explicit Memory(const char* name) : backing(name) {}

  Backing backing;
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;     // by allocations that exist, or whose last mapping does
  std::uint64_t foreign = 0;  // by what is not simulated: other processes, modules, libraries

  std::uint64_t available() const {
    const std::uint64_t taken = used + foreign;
    return taken < capacity ? capacity - taken : 0;
  }
};

struct Physical {
  Memory* memory = nullptr;
  Location where = Location::device;
  std::uint64_t bytes = 0;
  std::uint64_t offset = Backing::nowhere;  // in the backing; chosen when it is first made accessible
  std::uint32_t mappings = 0;
  bool released = false;
  UseHistory history;
};

struct Mapping {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<Physical> physical;
  std::uint64_t access = 0;  // one bit a device
  bool alive = true;
  std::vector<Use> users;  // queued work that came through these addresses: the last of each queue

  std::uint64_t end() const { return at + bytes; }
};

// Part of a mapping.
struct Piece {
  std::shared_ptr<Mapping> mapping;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;

  std::uint64_t physical_begin() const { return at - mapping->at; }
};

class AddressSpace {
 public:
  AddressSpace(int devices, bool poison_fresh);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  Memory& device_memory(int device) { return *memories_[static_cast<std::size_t>(device) + 1]; }
  Memory& host_memory() { return *memories_[0]; }

  // Each call checks everything before it changes anything.
  Code reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out);
  Code unreserve(std::uint64_t base, std::uint64_t bytes);
  Code create(Memory& memory, Location where, std::uint64_t bytes, std::uint64_t& handle);
  Code release(std::uint64_t handle);
  Code map(std::uint64_t at, std::uint64_t bytes, std::uint64_t handle);
  // The mappings must come from whole_mappings().
  Code set_access(const std::vector<std::shared_ptr<Mapping>>& mappings, int device);
  Code unmap(const std::vector<std::shared_ptr<Mapping>>& mappings);

  // Null where there is no such handle.
  std::shared_ptr<Physical> find(std::uint64_t handle) const;

  // The mappings that fill [at, at + bytes) without a gap or a part left over; invalid_value where they do not.
  Code whole_mappings(std::uint64_t at, std::uint64_t bytes, std::vector<std::shared_ptr<Mapping>>& out) const;

  // The pieces that fill [at, at + bytes), all accessible from the device; false where some byte is not.
  bool pieces(std::uint64_t at, std::uint64_t bytes, int device, std::vector<Piece>& out) const;

  std::size_t mapping_count() const { return mappings_.size(); }

 private:
  Code place(const Mapping& mapping);
  void drop_if_unused(Physical& physical);

  bool poison_fresh_;
  std::vector<std::unique_ptr<Memory>> memories_;        // the host's first, then each device's
  std::map<std::uint64_t, std::uint64_t> reservations_;  // base to bytes
  std::map<std::uint64_t, std::shared_ptr<Mapping>> mappings_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Physical>> handles_;
  std::uint64_t next_handle_ = 1;
};

}  // namespace reprieve::simgpu
