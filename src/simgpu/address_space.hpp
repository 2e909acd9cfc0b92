// Addresses, allocations and the mappings between them. Addresses are real: a reservation is an inaccessible range of
// this process, a mapping makes part of it readable and writable, and touching anything else faults.
// Not thread-safe: the machine's lock covers it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simgpu/codes.hpp"
#include "simgpu/config.hpp"
#include "simgpu/physical.hpp"
#include "simgpu/plain_area.hpp"
#include "simgpu/pointer.hpp"

namespace reprieve::simgpu {

class AddressSpace {
 public:
  AddressSpace(int devices, Poison poison);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  Memory& device_memory(int device) { return *memories_[static_cast<std::size_t>(device) + 1]; }
  Memory& host_memory() { return *memories_[0]; }

  // Leaves all ranges as they are, for ever.
  void abandon();

  void set_poison(Poison poison) { poison_ = poison; }

  // Each call checks everything before it changes anything.
  Code reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out);
  Code unreserve(std::uint64_t base, std::uint64_t bytes);
  Code create(Memory& memory, Location where, std::uint64_t bytes, std::uint64_t& handle);
  Code release(std::uint64_t handle);
  Code map(std::uint64_t at, std::uint64_t bytes, std::uint64_t handle);
  // The mappings must come from whole_mappings().
  Code set_access(const std::vector<std::shared_ptr<Mapping>>& mappings, int device);
  Code unmap(const std::vector<std::shared_ptr<Mapping>>& mappings);

  // Memory that comes with its addresses, all of it accessible from every device. `kind` is what find() then tells.
  Code allocate(PointerKind kind, int device, std::uint64_t bytes, std::uint64_t& out);  // plain, managed, pooled
  Code allocate_host(int device, std::uint64_t bytes, std::uint64_t& out);               // pinned
  Code register_host(int device, std::uint64_t base, std::uint64_t bytes);               // registered
  Code import_plain(int device, int file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t asked_bytes,
                    std::uint64_t& out);
  void free(const std::shared_ptr<Mapping>& mapping);  // one of these four

  // For other processes: everything that is not yet settled is, so that they see what this one would.
  void share(Mapping& mapping);
  Code share(Physical& physical);
  // A handle of memory that another process shares; of the same allocation where it is one of this process's.
  Code import_handle(Memory& memory, Location where, int file, std::uint64_t offset, std::uint64_t bytes,
                     std::uint64_t& handle);
  std::uint64_t add_handle(std::shared_ptr<Physical> physical);

  // Null where there is no such handle.
  std::shared_ptr<Physical> find(std::uint64_t handle) const;
  // The mapping that holds the address; null where there is none.
  std::shared_ptr<Mapping> find_mapping(std::uint64_t address) const;
  // Whether the address is reserved for memory of the machine, mapped or not.
  bool owns(std::uint64_t address) const;

  // The mappings that fill [at, at + bytes) without a gap or a part left over, all of kind `mapped`; invalid_value where
  // they do not.
  Code whole_mappings(std::uint64_t at, std::uint64_t bytes, std::vector<std::shared_ptr<Mapping>>& out) const;

  static constexpr int any_device = -1;
  // The pieces that fill [at, at + bytes), all accessible from the device; false where some byte is not.
  bool pieces(std::uint64_t at, std::uint64_t bytes, int device, std::vector<Piece>& out) const;

  // Of kind `mapped`.
  std::size_t mapping_count() const { return handle_mappings_; }

 private:
  Code place(const Mapping& mapping);
  void poison(const Mapping& mapping) const;  // as fresh memory is
  void drop_if_unused(Physical& physical);
  std::shared_ptr<Mapping> add_mapping(PointerKind kind, int device, std::uint64_t at, std::uint64_t bytes,
                                       std::shared_ptr<Physical> physical);
  std::shared_ptr<Physical> new_physical(Memory& memory, Location where, std::uint64_t bytes);
  bool overlaps(std::uint64_t at, std::uint64_t bytes) const;

  Poison poison_;
  std::vector<std::unique_ptr<Memory>> memories_;        // the host's first, then each device's
  std::map<std::uint64_t, std::uint64_t> reservations_;  // base to bytes
  std::map<std::uint64_t, std::shared_ptr<Mapping>> mappings_;
  std::size_t handle_mappings_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Physical>> handles_;
  std::uint64_t next_handle_ = 1;
};

}  // namespace reprieve::simgpu
