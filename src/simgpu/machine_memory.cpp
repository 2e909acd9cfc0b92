// Memory calls of the machine.
#include <fmt/format.h>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {

Code Machine::reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::reserve); code != Code::success) return code;
  spend(costs::reserve_ns);
  return space_.reserve(bytes, alignment, out);
}

Code Machine::unreserve(std::uint64_t base, std::uint64_t bytes) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::unreserve); code != Code::success) return code;
  spend(costs::unreserve_ns);
  return space_.unreserve(base, bytes);
}

Code Machine::create(int device, Location where, std::uint64_t bytes, HandleId& out) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::create); code != Code::success) return code;
  Memory& memory = where == Location::host ? space_.host_memory() : space_.device_memory(device);
  const Code code = space_.create(memory, where, bytes, out);
  spend(costs::create_ns(where, code == Code::success ? bytes : granularity));
  return code;
}

Code Machine::release(HandleId handle) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::release); code != Code::success) return code;
  const auto physical = space_.find(handle);
  if (physical == nullptr) return Code::invalid_value;
  spend(costs::release_ns(physical->where, physical->bytes));
  return space_.release(handle);
}

Code Machine::retain(std::uint64_t address, HandleId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  spend(costs::map_ns);
  const auto mapping = space_.find_mapping(address);
  if (mapping == nullptr || mapping->kind != PointerKind::mapped) return Code::invalid_value;
  out = space_.add_handle(mapping->physical);
  return Code::success;
}

Code Machine::handle_info(HandleId handle, HandleInfo& out) {
  const Turn turn(*this);
  if (!turn) return Code::not_initialized;
  const auto physical = space_.find(handle);
  if (physical == nullptr) return Code::invalid_value;
  out = {physical->where, physical->memory->device, physical->bytes};
  return Code::success;
}

Code Machine::map(std::uint64_t at, std::uint64_t bytes, HandleId handle) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::map); code != Code::success) return code;
  spend(costs::map_ns);
  return space_.map(at, bytes, handle);
}

Code Machine::set_access(int device, std::uint64_t at, std::uint64_t bytes) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::set_access); code != Code::success) return code;
  std::vector<std::shared_ptr<Mapping>> mappings;
  if (const Code code = space_.whole_mappings(at, bytes, mappings); code != Code::success) return code;
  std::uint64_t cost = 0;
  for (const auto& mapping : mappings) {
    const Physical& physical = *mapping->physical;
    cost += costs::set_access_ns(physical.where, physical.bytes, physical.offset != Backing::nowhere);
  }
  spend(cost);
  return space_.set_access(mappings, device);
}

void Machine::check_early_unmap(const Mapping& mapping) {
  for (const Use& user : mapping.users) {
    if (known_.covers(user.work->queue, user.work->index)) continue;
    report(FaultKind::early_unmap, mapping.at, mapping.bytes,
           fmt::format("early unmap of {:#x}, {} bytes: the {} uses {:#x}, and nothing has told the host that it is "
                       "complete",
                       mapping.at, mapping.bytes, describe(*user.work), user.address));
  }
}

Code Machine::unmap(std::uint64_t at, std::uint64_t bytes) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::unmap); code != Code::success) return code;
  std::vector<std::shared_ptr<Mapping>> mappings;
  if (const Code code = space_.whole_mappings(at, bytes, mappings); code != Code::success) return code;
  std::uint64_t cost = 0;
  for (const auto& mapping : mappings) cost += costs::unmap_ns(mapping->physical->where, mapping->bytes);
  spend(cost);
  const Code code = space_.unmap(mappings);
  if (code != Code::success) return code;
  for (const auto& mapping : mappings) check_early_unmap(*mapping);
  return Code::success;
}

Code Machine::memory_info(int device, std::uint64_t& free_bytes, std::uint64_t& total_bytes) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::memory_info); code != Code::success) return code;
  spend(costs::memory_info_ns);
  const Memory& memory = space_.device_memory(device);
  free_bytes = memory.available();
  total_bytes = memory.capacity;
  return Code::success;
}

}  // namespace reprieve::simgpu
