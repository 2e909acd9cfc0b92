// Memory that comes with its addresses, and memory of other processes.
#include "simgpu/address_space.hpp"

#include <unistd.h>

#include <iterator>

#include "simgpu/pages.hpp"
#include "simgpu/range_lock.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t host_page = 4096;
constexpr std::uint64_t every_device = ~std::uint64_t{0};

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Code AddressSpace::allocate(PointerKind kind, int device, std::uint64_t bytes, std::uint64_t& out) {
  Memory& memory = device_memory(device);
  // Before rounding, which would overflow.
  if (bytes > memory.available()) return Code::out_of_memory;
  const std::uint64_t whole = round_up(bytes, granularity);
  if (whole > memory.available()) return Code::out_of_memory;
  PlainArea::Place place;
  if (!memory.plain.take(whole, place)) return Code::operating_system;
  memory.charge(whole);
  auto physical = new_physical(memory, Location::device, whole);
  physical->offset = place.offset;
  const auto mapping = add_mapping(kind, device, place.address, whole, std::move(physical));
  mapping->asked_bytes = bytes;
  mapping->access = every_device;
  poison(*mapping);
  out = place.address;
  return Code::success;
}

Code AddressSpace::allocate_host(int device, std::uint64_t bytes, std::uint64_t& out) {
  Memory& memory = host_memory();
  if (bytes > memory.available()) return Code::out_of_memory;
  const std::uint64_t whole = round_up(bytes, host_page);
  if (whole > memory.available()) return Code::out_of_memory;
  if (!pages::allocate(whole, out)) return Code::out_of_memory;
  memory.charge(whole);
  const auto mapping =
      add_mapping(PointerKind::pinned, device, out, whole, new_physical(memory, Location::host, whole));
  mapping->asked_bytes = bytes;
  mapping->access = every_device;
  return Code::success;
}

Code AddressSpace::register_host(int device, std::uint64_t base, std::uint64_t bytes) {
  if (base == 0 || bytes == 0 || bytes > ~std::uint64_t{0} - base || owns(base)) return Code::invalid_value;
  if (overlaps(base, bytes)) return Code::already_registered;
  Memory& memory = host_memory();
  if (bytes > memory.available()) return Code::out_of_memory;
  memory.charge(bytes);
  add_mapping(PointerKind::registered, device, base, bytes, new_physical(memory, Location::host, bytes))->access =
      every_device;
  return Code::success;
}

Code AddressSpace::import_plain(int device, int file, std::uint64_t offset, std::uint64_t bytes,
                                std::uint64_t asked_bytes, std::uint64_t& out) {
  std::uint64_t at = 0;
  if (!pages::reserve(bytes, 0, at)) return Code::operating_system;
  if (!pages::map_file(at, bytes, file, offset)) {
    pages::unreserve(at, bytes);
    return Code::operating_system;
  }
  auto physical = new_physical(device_memory(device), Location::device, bytes);
  physical->offset = offset;
  physical->imported = file;
  const auto mapping = add_mapping(PointerKind::imported, device, at, bytes, std::move(physical));
  mapping->asked_bytes = asked_bytes;
  mapping->access = every_device;
  out = at;
  return Code::success;
}

void AddressSpace::free(const std::shared_ptr<Mapping>& mapping) {
  Memory& memory = *mapping->physical->memory;
  mapping->alive = false;
  mappings_.erase(mapping->at);
  --mapping->physical->mappings;
  switch (mapping->kind) {
    case PointerKind::plain:
    case PointerKind::managed:
    case PointerKind::pooled: memory.plain.give_back(mapping->at, mapping->bytes); break;
    case PointerKind::pinned: pages::unreserve(mapping->at, mapping->bytes); break;
    case PointerKind::imported:
      pages::unreserve(mapping->at, mapping->bytes);
      close(mapping->physical->imported);  // the exporter may use the range again
      mapping->physical->imported = -1;
      return;
    default: break;
  }
  memory.used -= mapping->bytes;
}

bool AddressSpace::owns(std::uint64_t address) const {
  const auto above = reservations_.upper_bound(address);
  if (above != reservations_.begin()) {
    const auto reservation = std::prev(above);
    if (address - reservation->first < reservation->second) return true;
  }
  for (const auto& memory : memories_) {
    if (memory->plain.holds(address)) return true;
  }
  return false;
}

void AddressSpace::share(Mapping& mapping) {
  settle_all(mapping);
  mapping.physical->memory->backing.share();
}

// A handle that is mapped nowhere can be poisoned only where it is mapped for the purpose.
Code AddressSpace::share(Physical& physical) {
  if (physical.imported >= 0) return Code::success;
  const bool fresh = physical.offset == Backing::nowhere;
  if (fresh) physical.offset = physical.memory->backing.take(physical.bytes, Backing::nowhere);
  if (physical.offset == Backing::nowhere) return Code::operating_system;
  physical.memory->backing.share();
  if (fresh && poison_ != Poison::none) unsettle(physical);
  if (physical.settled.empty()) return Code::success;
  std::uint64_t at = 0;
  if (!pages::reserve(physical.bytes, 0, at)) return Code::operating_system;
  const bool mapped = pages::map_file(at, physical.bytes, physical.file(), physical.offset);
  if (mapped) {
    Mapping whole;
    whole.at = at;
    whole.bytes = physical.bytes;
    whole.physical = std::shared_ptr<Physical>(&physical, [](Physical*) {});
    settle_all(whole);
  }
  pages::unreserve(at, physical.bytes);
  return mapped ? Code::success : Code::operating_system;
}

Code AddressSpace::import_handle(Memory& memory, Location where, int file, std::uint64_t offset, std::uint64_t bytes,
                                 std::uint64_t& handle) {
  if (same_file(file, memory.backing.file())) {
    for (const auto& [number, physical] : handles_) {
      if (physical->memory != &memory || physical->imported >= 0 || physical->offset != offset) continue;
      close(file);
      handle = add_handle(physical);
      return Code::success;
    }
    for (const auto& [at, mapping] : mappings_) {
      const auto& physical = mapping->physical;
      if (mapping->kind != PointerKind::mapped || physical->memory != &memory || physical->imported >= 0 ||
          physical->offset != offset) {
        continue;
      }
      close(file);
      handle = add_handle(physical);
      return Code::success;
    }
  }
  auto physical = new_physical(memory, where, bytes);
  physical->offset = offset;
  physical->imported = file;
  handle = add_handle(std::move(physical));
  return Code::success;
}

}  // namespace reprieve::simgpu
