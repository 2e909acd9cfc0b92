// Memory that comes with its addresses, on devices and on the host.
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {

Code Machine::malloc(int device, std::uint64_t bytes, std::uint64_t& out, bool managed) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::malloc); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  spend(costs::malloc_ns(bytes));
  if (bytes == 0) {
    out = 0;
    return Code::success;
  }
  return space_.allocate(managed ? PointerKind::managed : PointerKind::plain, device, bytes, out);
}

Code Machine::free(std::uint64_t address) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::free); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (address == 0) return Code::success;
  return free_waiting(turn, address);
}

Code Machine::free_waiting(Turn& turn, std::uint64_t address) {
  auto mapping = space_.find_mapping(address);
  if (mapping == nullptr) return Code::invalid_value;
  const bool pooled = mapping->kind == PointerKind::pooled;
  const bool plain = mapping->kind == PointerKind::plain || mapping->kind == PointerKind::managed;
  if (!pooled && (!plain || mapping->at != address)) return Code::invalid_value;
  const Code code = wait_for_device(turn, mapping->device, "a free, which waits for the device,");
  if (code != Code::success) return code;
  if (pooled) return free_pooled(address, {});
  // While it waited another thread may have freed it.
  if (!mapping->alive) return Code::invalid_value;
  spend(costs::free_ns(mapping->bytes));
  space_.free(mapping);
  check_early_unmap(*mapping);
  return Code::success;
}

Code Machine::host_alloc(int device, std::uint64_t bytes, std::uint64_t& out) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::host_alloc); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  if (bytes == 0) {
    out = 0;
    return Code::success;
  }
  const Code code = space_.allocate_host(device, bytes, out);
  spend(costs::host_alloc_ns(code == Code::success ? bytes : 0));
  return code;
}

Code Machine::wait_for_all_devices(Turn& turn, const char* what) {
  std::vector<Waitable> all;
  for (int device = 0; device < config_.devices; ++device) collect_device(device, all);
  return wait_endless(turn, all, what);
}

Code Machine::free_host_range(Turn& turn, std::uint64_t base, PointerKind kind, Code none) {
  const auto mapping = space_.find_mapping(base);
  if (mapping == nullptr || mapping->at != base || mapping->kind != kind) return none;
  if (const Code code = wait_for_all_devices(turn, "a free of host memory"); code != Code::success) return code;
  if (!mapping->alive) return none;
  if (kind == PointerKind::pinned) spend(costs::host_free_ns(mapping->bytes));
  space_.free(mapping);
  return Code::success;
}

Code Machine::host_free(std::uint64_t address) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::host_free); code != Code::success) return code;
  if (address == 0) return Code::success;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  return free_host_range(turn, address, PointerKind::pinned, Code::invalid_value);
}

Code Machine::host_register(int device, std::uint64_t base, std::uint64_t bytes) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::host_register); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  const Code code = space_.register_host(device, base, bytes);
  spend(costs::host_register_ns(code == Code::success ? bytes : 0));
  return code;
}

Code Machine::host_unregister(std::uint64_t base) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::host_unregister); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  return free_host_range(turn, base, PointerKind::registered, Code::not_registered);
}

bool Machine::find_pointer(std::uint64_t address, PointerInfo& out) {
  const Turn turn(*this);
  out = {};
  const auto mapping = turn ? space_.find_mapping(address) : nullptr;
  if (mapping == nullptr) return false;
  PointerInfo info{mapping->kind, mapping->physical->where, mapping->device, mapping->at, mapping->asked_bytes,
                   mapping->id,   mapping->access};
  if (const StreamPool* pool = pool_of(address); pool != nullptr) {
    const auto block = pool->find_used(address);
    if (!block) return false;  // freed
    info.base = block->address;
    info.bytes = block->bytes;
    info.id = block->id;
  }
  out = info;
  return true;
}

bool Machine::accessible(int device, std::uint64_t address, std::uint64_t bytes) {
  const Turn turn(*this);
  std::vector<Piece> pieces;
  return turn && is_device(device) && space_.pieces(address, bytes, device, pieces);
}

}  // namespace reprieve::simgpu
