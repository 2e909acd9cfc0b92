// Reservations, handles and their mappings.
#include "simgpu/address_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "simgpu/pages.hpp"

namespace reprieve::simgpu {
namespace {

bool overflows(std::uint64_t at, std::uint64_t bytes) { return bytes > ~std::uint64_t{0} - at; }

bool is_whole_granules(std::uint64_t bytes) { return bytes != 0 && bytes % granularity == 0; }

}  // namespace

AddressSpace::AddressSpace(int devices, Poison poison) : poison_(poison) {
  memories_.push_back(std::make_unique<Memory>("simgpu-host", -1));
  for (int i = 0; i < devices; ++i)
    memories_.push_back(std::make_unique<Memory>(fmt::format("simgpu-device-{}", i), i));
}

void AddressSpace::abandon() {
  reservations_.clear();
  mappings_.clear();
  for (const auto& memory : memories_) memory->plain.abandon();
}

AddressSpace::~AddressSpace() {
  for (const auto& [base, bytes] : reservations_) pages::unreserve(base, bytes);
  for (const auto& [at, mapping] : mappings_) {
    if (mapping->kind == PointerKind::pinned || mapping->kind == PointerKind::imported) {
      pages::unreserve(at, mapping->bytes);
    }
  }
}

Code AddressSpace::reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out) {
  if (!is_whole_granules(bytes) || (alignment & (alignment - 1)) != 0) return Code::invalid_value;
  if (overflows(std::max(alignment, granularity), bytes)) return Code::out_of_memory;
  if (!pages::reserve(bytes, alignment, out)) return Code::out_of_memory;
  reservations_.emplace(out, bytes);
  return Code::success;
}

Code AddressSpace::unreserve(std::uint64_t base, std::uint64_t bytes) {
  const auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second != bytes) return Code::invalid_value;
  const auto mapped = mappings_.lower_bound(base);
  if (mapped != mappings_.end() && mapped->first < base + bytes) return Code::invalid_value;
  if (!pages::unreserve(base, bytes)) return Code::operating_system;
  reservations_.erase(it);
  return Code::success;
}

std::shared_ptr<Physical> AddressSpace::new_physical(Memory& memory, Location where, std::uint64_t bytes) {
  auto physical = std::make_shared<Physical>();
  physical->memory = &memory;
  physical->where = where;
  physical->bytes = bytes;
  return physical;
}

std::uint64_t AddressSpace::add_handle(std::shared_ptr<Physical> physical) {
  ++physical->handles;
  handles_.emplace(next_handle_, std::move(physical));
  return next_handle_++;
}

Code AddressSpace::create(Memory& memory, Location where, std::uint64_t bytes, std::uint64_t& handle) {
  if (!is_whole_granules(bytes)) return Code::invalid_value;
  if (bytes > memory.available()) return Code::out_of_memory;
  memory.charge(bytes);
  handle = add_handle(new_physical(memory, where, bytes));
  return Code::success;
}

void AddressSpace::drop_if_unused(Physical& physical) {
  if (physical.handles != 0 || physical.mappings != 0 || physical.imported >= 0) return;
  physical.memory->used -= physical.bytes;
  if (physical.offset != Backing::nowhere) physical.memory->backing.give_back(physical.offset, physical.bytes);
}

Code AddressSpace::release(std::uint64_t handle) {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return Code::invalid_value;
  const std::shared_ptr<Physical> physical = std::move(it->second);
  handles_.erase(it);
  --physical->handles;
  drop_if_unused(*physical);
  return Code::success;
}

std::shared_ptr<Mapping> AddressSpace::find_mapping(std::uint64_t address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return nullptr;
  --it;
  return it->second->end() > address ? it->second : nullptr;
}

std::shared_ptr<Physical> AddressSpace::find(std::uint64_t handle) const {
  const auto it = handles_.find(handle);
  return it == handles_.end() ? nullptr : it->second;
}

Code AddressSpace::map(std::uint64_t at, std::uint64_t bytes, std::uint64_t handle) {
  const std::shared_ptr<Physical> physical = find(handle);
  if (physical == nullptr || at % granularity != 0 || !is_whole_granules(bytes) || overflows(at, bytes)) {
    return Code::invalid_value;
  }
  if (bytes != physical->bytes) return Code::not_supported;  // the driver's own answer: a handle maps whole
  const auto above = reservations_.upper_bound(at);
  if (above == reservations_.begin()) return Code::invalid_value;
  const auto reservation = std::prev(above);
  if (at + bytes > reservation->first + reservation->second) return Code::invalid_value;
  if (overlaps(at, bytes)) return Code::invalid_value;
  add_mapping(PointerKind::mapped, physical->memory->device, at, bytes, physical);
  ++handle_mappings_;
  return Code::success;
}

bool AddressSpace::overlaps(std::uint64_t at, std::uint64_t bytes) const {
  const auto next = mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + bytes) return true;
  return next != mappings_.begin() && std::prev(next)->second->end() > at;
}

std::shared_ptr<Mapping> AddressSpace::add_mapping(PointerKind kind, int device, std::uint64_t at, std::uint64_t bytes,
                                                   std::shared_ptr<Physical> physical) {
  auto mapping = std::make_shared<Mapping>();
  mapping->at = at;
  mapping->bytes = bytes;
  mapping->kind = kind;
  mapping->device = device;
  mapping->asked_bytes = bytes;
  mapping->id = next_number();
  ++physical->mappings;
  mapping->physical = std::move(physical);
  mappings_.emplace(at, mapping);
  return mapping;
}

Code AddressSpace::whole_mappings(std::uint64_t at, std::uint64_t bytes,
                                  std::vector<std::shared_ptr<Mapping>>& out) const {
  if (bytes == 0 || overflows(at, bytes)) return Code::invalid_value;
  std::uint64_t reached = at;
  for (auto it = mappings_.find(at); it != mappings_.end() && it->first == reached && reached < at + bytes; ++it) {
    if (it->second->kind != PointerKind::mapped) return Code::invalid_value;
    out.push_back(it->second);
    reached = it->second->end();
  }
  return reached == at + bytes ? Code::success : Code::invalid_value;
}

// Chooses the place in the backing: next to the one of a neighbouring address, where there is one.
Code AddressSpace::place(const Mapping& mapping) {
  Physical& physical = *mapping.physical;
  std::uint64_t wanted = Backing::nowhere;
  const auto here = mappings_.find(mapping.at);
  if (here != mappings_.begin()) {
    const Mapping& left = *std::prev(here)->second;
    if (left.end() == mapping.at && left.physical->file() == physical.file() &&
        left.physical->offset != Backing::nowhere) {
      wanted = left.physical->offset + left.bytes;
    }
  }
  if (const auto next = std::next(here); wanted == Backing::nowhere && next != mappings_.end()) {
    const Mapping& right = *next->second;
    if (mapping.end() == right.at && right.physical->file() == physical.file() &&
        right.physical->offset != Backing::nowhere && right.physical->offset >= mapping.bytes) {
      wanted = right.physical->offset - mapping.bytes;
    }
  }
  physical.offset = physical.memory->backing.take(physical.bytes, wanted);
  return physical.offset == Backing::nowhere ? Code::operating_system : Code::success;
}

void AddressSpace::poison(const Mapping& mapping) const {
  if (poison_ == Poison::none) return;
  unsettle(*mapping.physical);
  if (poison_ == Poison::at_once) settle_all(mapping);
}

Code AddressSpace::set_access(const std::vector<std::shared_ptr<Mapping>>& mappings, int device) {
  const std::uint64_t bit = std::uint64_t{1} << device;
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    Mapping& mapping = *mappings[i];
    if (mapping.access != 0) continue;
    Physical& physical = *mapping.physical;
    const bool fresh = physical.offset == Backing::nowhere;
    const bool placed = !fresh || place(mapping) == Code::success;
    if (!placed || !pages::map_file(mapping.at, mapping.bytes, physical.file(), physical.offset)) {
      for (std::size_t done = 0; done < i; ++done) {
        if (mappings[done]->access == 0) pages::make_inaccessible(mappings[done]->at, mappings[done]->bytes);
      }
      return Code::operating_system;
    }
    if (fresh) poison(mapping);
  }
  for (const auto& mapping : mappings) mapping->access |= bit;
  return Code::success;
}

Code AddressSpace::unmap(const std::vector<std::shared_ptr<Mapping>>& mappings) {
  const std::uint64_t at = mappings.front()->at;
  const std::uint64_t bytes = mappings.back()->end() - at;
  if (!pages::make_inaccessible(at, bytes)) return Code::operating_system;
  for (const auto& mapping : mappings) {
    mapping->alive = false;
    mappings_.erase(mapping->at);
    --handle_mappings_;
    --mapping->physical->mappings;
    drop_if_unused(*mapping->physical);
  }
  return Code::success;
}

bool AddressSpace::pieces(std::uint64_t at, std::uint64_t bytes, int device, std::vector<Piece>& out) const {
  if (overflows(at, bytes)) return false;
  const std::uint64_t bits = device == any_device ? ~std::uint64_t{0} : std::uint64_t{1} << device;
  const std::uint64_t end = at + bytes;
  auto it = mappings_.upper_bound(at);
  if (it == mappings_.begin()) return bytes == 0;
  for (--it; at < end; ++it) {
    if (it == mappings_.end()) return false;
    const std::shared_ptr<Mapping>& mapping = it->second;
    if (mapping->at > at || mapping->end() <= at || (mapping->access & bits) == 0) return false;
    const std::uint64_t stop = mapping->end() < end ? mapping->end() : end;
    out.push_back({mapping, at, stop - at});
    at = stop;
  }
  return true;
}

}  // namespace reprieve::simgpu
