#include "simgpu/address_space.hpp"

#include <sys/mman.h>

#include <cstring>
#include <iterator>

namespace reprieve::simgpu {
namespace {

constexpr unsigned char poison_byte = 0xa5;

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

bool make_inaccessible(std::uint64_t at, std::uint64_t bytes) {
  return mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

bool overflows(std::uint64_t at, std::uint64_t bytes) { return bytes > ~std::uint64_t{0} - at; }

bool is_whole_granules(std::uint64_t bytes) { return bytes != 0 && bytes % granularity == 0; }

}  // namespace

AddressSpace::AddressSpace(int devices, bool poison_fresh) : poison_fresh_(poison_fresh) {
  memories_.push_back(std::make_unique<Memory>("simgpu-host"));
  for (int i = 0; i < devices; ++i) memories_.push_back(std::make_unique<Memory>("simgpu-device"));
}

AddressSpace::~AddressSpace() {
  for (const auto& [base, bytes] : reservations_) munmap(pointer(base), bytes);
}

Code AddressSpace::reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out) {
  if (!is_whole_granules(bytes) || (alignment & (alignment - 1)) != 0) return Code::invalid_value;
  if (alignment < granularity) alignment = granularity;
  if (overflows(alignment, bytes)) return Code::out_of_memory;
  const std::uint64_t with_slack = bytes + alignment;
  void* const got = mmap(nullptr, with_slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return Code::out_of_memory;
  const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(got));
  const std::uint64_t base = (begin + alignment - 1) & ~(alignment - 1);
  if (base > begin) munmap(got, base - begin);
  const std::uint64_t behind = begin + with_slack - (base + bytes);
  if (behind > 0) munmap(pointer(base + bytes), behind);
  reservations_.emplace(base, bytes);
  out = base;
  return Code::success;
}

Code AddressSpace::unreserve(std::uint64_t base, std::uint64_t bytes) {
  const auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second != bytes) return Code::invalid_value;
  const auto mapped = mappings_.lower_bound(base);
  if (mapped != mappings_.end() && mapped->first < base + bytes) return Code::invalid_value;
  if (munmap(pointer(base), bytes) != 0) return Code::operating_system;
  reservations_.erase(it);
  return Code::success;
}

Code AddressSpace::create(Memory& memory, Location where, std::uint64_t bytes, std::uint64_t& handle) {
  if (!is_whole_granules(bytes)) return Code::invalid_value;
  if (bytes > memory.available()) return Code::out_of_memory;
  auto physical = std::make_shared<Physical>();
  physical->memory = &memory;
  physical->where = where;
  physical->bytes = bytes;
  memory.used += bytes;
  handle = next_handle_++;
  handles_.emplace(handle, std::move(physical));
  return Code::success;
}

void AddressSpace::drop_if_unused(Physical& physical) {
  if (!physical.released || physical.mappings != 0) return;
  physical.memory->used -= physical.bytes;
  if (physical.offset != Backing::nowhere) physical.memory->backing.give_back(physical.offset, physical.bytes);
}

Code AddressSpace::release(std::uint64_t handle) {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return Code::invalid_value;
  const std::shared_ptr<Physical> physical = std::move(it->second);
  handles_.erase(it);
  physical->released = true;
  drop_if_unused(*physical);
  return Code::success;
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
  const auto next = mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + bytes) return Code::invalid_value;
  if (next != mappings_.begin() && std::prev(next)->second->end() > at) return Code::invalid_value;
  auto mapping = std::make_shared<Mapping>();
  mapping->at = at;
  mapping->bytes = bytes;
  mapping->physical = physical;
  ++physical->mappings;
  mappings_.emplace_hint(next, at, std::move(mapping));
  return Code::success;
}

Code AddressSpace::whole_mappings(std::uint64_t at, std::uint64_t bytes,
                                  std::vector<std::shared_ptr<Mapping>>& out) const {
  if (bytes == 0 || overflows(at, bytes)) return Code::invalid_value;
  std::uint64_t reached = at;
  for (auto it = mappings_.find(at); it != mappings_.end() && it->first == reached && reached < at + bytes; ++it) {
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
    if (left.end() == mapping.at && left.physical->memory == physical.memory &&
        left.physical->offset != Backing::nowhere) {
      wanted = left.physical->offset + left.bytes;
    }
  }
  if (const auto next = std::next(here); wanted == Backing::nowhere && next != mappings_.end()) {
    const Mapping& right = *next->second;
    if (mapping.end() == right.at && right.physical->memory == physical.memory &&
        right.physical->offset != Backing::nowhere && right.physical->offset >= mapping.bytes) {
      wanted = right.physical->offset - mapping.bytes;
    }
  }
  physical.offset = physical.memory->backing.take(physical.bytes, wanted);
  return physical.offset == Backing::nowhere ? Code::operating_system : Code::success;
}

Code AddressSpace::set_access(const std::vector<std::shared_ptr<Mapping>>& mappings, int device) {
  const std::uint64_t bit = std::uint64_t{1} << device;
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    Mapping& mapping = *mappings[i];
    if (mapping.access != 0) continue;
    Physical& physical = *mapping.physical;
    const bool fresh = physical.offset == Backing::nowhere;
    const int file = physical.memory->backing.file();
    const bool placed = !fresh || place(mapping) == Code::success;
    if (!placed || mmap(pointer(mapping.at), mapping.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                        static_cast<off_t>(physical.offset)) == MAP_FAILED) {
      for (std::size_t done = 0; done < i; ++done) {
        if (mappings[done]->access == 0) make_inaccessible(mappings[done]->at, mappings[done]->bytes);
      }
      return Code::operating_system;
    }
    if (fresh && poison_fresh_) std::memset(pointer(mapping.at), poison_byte, mapping.bytes);
  }
  for (const auto& mapping : mappings) mapping->access |= bit;
  return Code::success;
}

Code AddressSpace::unmap(const std::vector<std::shared_ptr<Mapping>>& mappings) {
  const std::uint64_t at = mappings.front()->at;
  const std::uint64_t bytes = mappings.back()->end() - at;
  if (!make_inaccessible(at, bytes)) return Code::operating_system;
  for (const auto& mapping : mappings) {
    mapping->alive = false;
    mappings_.erase(mapping->at);
    --mapping->physical->mappings;
    drop_if_unused(*mapping->physical);
  }
  return Code::success;
}

bool AddressSpace::pieces(std::uint64_t at, std::uint64_t bytes, int device, std::vector<Piece>& out) const {
  if (overflows(at, bytes)) return false;
  const std::uint64_t bit = std::uint64_t{1} << device;
  const std::uint64_t end = at + bytes;
  auto it = mappings_.upper_bound(at);
  if (it == mappings_.begin()) return bytes == 0;
  for (--it; at < end; ++it) {
    if (it == mappings_.end()) return false;
    const std::shared_ptr<Mapping>& mapping = it->second;
    if (mapping->at > at || mapping->end() <= at || (mapping->access & bit) == 0) return false;
    const std::uint64_t stop = mapping->end() < end ? mapping->end() : end;
    out.push_back({mapping, at, stop - at});
    at = stop;
  }
  return true;
}

}  // namespace reprieve::simgpu
