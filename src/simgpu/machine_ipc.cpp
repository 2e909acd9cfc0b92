// Memory and events between processes.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "simgpu/range_lock.hpp"
#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t memory_magic = 0x6d656d2d7263'0001;
constexpr std::uint64_t event_magic = 0x6576742d7263'0001;
constexpr std::string_view device_file = "simgpu-device-";
constexpr std::string_view host_file = "simgpu-host";

struct MemoryTicket {
  std::uint64_t magic;
  std::int32_t process;
  std::int32_t file;  // the exporter's descriptor
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t asked_bytes;
  std::uint64_t id;
};
static_assert(sizeof(MemoryTicket) <= sizeof(IpcMemory));

struct EventTicket {
  std::uint64_t magic;
  std::int64_t process;
};
static_assert(sizeof(EventTicket) <= sizeof(IpcEvent));

template <typename Ticket, typename Bytes>
Ticket unpack(const Bytes& bytes) {
  Ticket out;
  std::memcpy(&out, bytes.bytes, sizeof out);
  return out;
}

}  // namespace

Code Machine::ipc_export(std::uint64_t address, IpcMemory& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::ipc_export); code != Code::success) return code;
  spend(costs::ipc_ns);
  const auto mapping = space_.find_mapping(address);
  if (mapping == nullptr || mapping->kind != PointerKind::plain) return Code::invalid_value;
  space_.share(*mapping);
  const Physical& physical = *mapping->physical;
  const MemoryTicket ticket{memory_magic,         getpid(),   physical.file(), physical.offset, mapping->bytes,
                            mapping->asked_bytes, mapping->id};
  out = {};
  std::memcpy(out.bytes, &ticket, sizeof ticket);
  return Code::success;
}

Code Machine::ipc_import(int device, const IpcMemory& memory, std::uint64_t& out) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::ipc_import); code != Code::success) return code;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  spend(costs::ipc_ns);
  const auto ticket = unpack<MemoryTicket>(memory);
  if (ticket.magic != memory_magic) return Code::invalid_value;
  if (ticket.process == getpid()) return Code::invalid_context;
  const std::string key(reinterpret_cast<const char*>(memory.bytes), sizeof memory.bytes);
  if (const auto known = imported_.find(key); known != imported_.end()) {
    ++known->second.opened;
    out = known->second.base;
    return Code::success;
  }
  const int file = open_of_process(ticket.process, ticket.file);
  if (file < 0) return Code::invalid_value;
  const bool good = memory_file_name(file).starts_with(device_file) && lock_range(file, ticket.offset, ticket.bytes);
  const Code code = good ? space_.import_plain(device, file, ticket.offset, ticket.bytes, ticket.asked_bytes, out)
                         : Code::invalid_value;
  if (code != Code::success) {
    close(file);
    return code;
  }
  imported_.emplace(key, Imported{out, 1});
  return Code::success;
}

Code Machine::ipc_close(std::uint64_t base) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  spend(costs::ipc_ns);
  const auto find = [&] {
    return std::find_if(imported_.begin(), imported_.end(),
                        [&](const auto& entry) { return entry.second.base == base; });
  };
  if (find() == imported_.end()) return Code::invalid_value;
  if (const Code code = wait_for_all_devices(turn, "the end of an import"); code != Code::success) return code;
  const auto found = find();
  if (found == imported_.end()) return Code::invalid_value;
  if (--found->second.opened != 0) return Code::success;
  imported_.erase(found);
  const auto mapping = space_.find_mapping(base);
  space_.free(mapping);
  check_early_unmap(*mapping);
  return Code::success;
}

// The descriptor says by its position where the memory begins, and by its lock how much it is and that it is in use:
// both travel with it, and last as long as any copy of it.
Code Machine::export_handle(HandleId handle, int& file) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::ipc_export); code != Code::success) return code;
  spend(costs::ipc_ns);
  const auto physical = space_.find(handle);
  if (physical == nullptr) return Code::invalid_value;
  if (const Code code = space_.share(*physical); code != Code::success) return code;
  const int made = open_again(physical->file());
  if (made < 0) return Code::operating_system;
  const auto offset = static_cast<off_t>(physical->offset);
  if (lseek(made, offset, SEEK_SET) != offset || !lock_range(made, physical->offset, physical->bytes)) {
    close(made);
    return Code::operating_system;
  }
  file = made;
  return Code::success;
}

Code Machine::import_handle(int file, HandleId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::ipc_import); code != Code::success) return code;
  spend(costs::ipc_ns);
  const std::string name = memory_file_name(file);
  const bool on_host = name == host_file;
  if (!on_host && !name.starts_with(device_file)) return Code::invalid_value;
  // The number of the device is the exporter's; where there are fewer here, the first stands for it.
  const int number = on_host ? -1 : std::atoi(name.c_str() + device_file.size());
  Memory& memory = on_host ? space_.host_memory() : space_.device_memory(is_device(number) ? number : 0);
  const off_t position = lseek(file, 0, SEEK_CUR);
  const int own = open_again(file);
  if (position < 0 || own < 0) {
    if (own >= 0) close(own);
    return Code::invalid_value;
  }
  const auto offset = static_cast<std::uint64_t>(position);
  const auto bytes = locked_bytes(own, offset);
  if (!bytes || !lock_range(own, offset, *bytes)) {
    close(own);
    return Code::invalid_value;
  }
  return space_.import_handle(memory, on_host ? Location::host : Location::device, own, offset, *bytes, out);
}

Code Machine::event_export(EventId event, IpcEvent& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::ipc_export); code != Code::success) return code;
  const Event* found = find_event(event);
  if (found == nullptr) return Code::invalid_handle;
  if (!found->flags.interprocess) return Code::invalid_handle;
  const EventTicket ticket{event_magic, getpid()};
  out = {};
  std::memcpy(out.bytes, &ticket, sizeof ticket);
  return Code::success;
}

Code Machine::event_import(int device, const IpcEvent& event, EventId& out) {
  Turn turn(*this);
  if (!is_device(device)) return Code::invalid_device;
  if (const Code code = turn.begin(Call::ipc_import); code != Code::success) return code;
  const auto ticket = unpack<EventTicket>(event);
  if (ticket.magic != event_magic) return Code::invalid_value;
  if (ticket.process == getpid()) return Code::invalid_context;
  out = next_event_++;
  Event made{device, {false, true}, std::make_shared<Record>()};
  made.record->end_ns = now_ns();
  events_.emplace(out, std::move(made));
  return Code::success;
}

}  // namespace reprieve::simgpu
