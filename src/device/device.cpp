#include "device/device.hpp"

#include <utility>

namespace reprieve::device {
namespace {

// clang-format off
constexpr std::array<const char*, call_kinds> call_names = {
  "reserve", "unreserve", "create", "release", "map", "set_access", "unmap", "memory_info", "event_create",
  "event_destroy", "event_record", "event_record_all", "event_query", "event_wait", "stream_create", "stream_destroy",
  "stream_synchronize", "stream_wait", "is_capturing", "copy", "fill",
};
// clang-format on

std::uint64_t wall_clock_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

const char* call_name(Call call) { return call_names[static_cast<std::size_t>(call)]; }

template <typename F>
Status Device::metered(Call call, F&& body) {
  const std::uint64_t wall_start = wall_clock_ns();
  const std::uint64_t driver_start = clock_ns();
  const Status status = std::forward<F>(body)();
  driver_ns_.fetch_add(clock_ns() - driver_start, std::memory_order_relaxed);
  counts_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
  wall_ns_.fetch_add(wall_clock_ns() - wall_start, std::memory_order_relaxed);
  return status;
}

Status Device::reserve(std::size_t bytes, std::size_t alignment, Address& out) {
  return metered(Call::reserve, [&] { return do_reserve(bytes, alignment, out); });
}
Status Device::unreserve(Address base, std::size_t bytes) {
  return metered(Call::unreserve, [&] { return do_unreserve(base, bytes); });
}
Status Device::create(std::size_t bytes, Location where, Handle& out) {
  return metered(Call::create, [&] { return do_create(bytes, where, out); });
}
Status Device::release(Handle handle) {
  return metered(Call::release, [&] { return do_release(handle); });
}
Status Device::map(Address at, std::size_t bytes, Handle handle) {
  return metered(Call::map, [&] { return do_map(at, bytes, handle); });
}
Status Device::set_access(Address at, std::size_t bytes, std::span<const int> peers) {
  return metered(Call::set_access, [&] { return do_set_access(at, bytes, peers); });
}
Status Device::unmap(Address at, std::size_t bytes) {
  return metered(Call::unmap, [&] { return do_unmap(at, bytes); });
}
Status Device::memory_info(std::size_t& free_bytes, std::size_t& total_bytes) {
  return metered(Call::memory_info, [&] { return do_memory_info(free_bytes, total_bytes); });
}
Status Device::event_create(Event& out) {
  return metered(Call::event_create, [&] { return do_event_create(out); });
}
Status Device::event_destroy(Event event) {
  return metered(Call::event_destroy, [&] { return do_event_destroy(event); });
}
Status Device::event_record(Event event, Stream stream) {
  return metered(Call::event_record, [&] { return do_event_record(event, stream); });
}
Status Device::event_record_all(Event event) {
  return metered(Call::event_record_all, [&] { return do_event_record_all(event); });
}
Status Device::event_query(Event event, bool& done) {
  return metered(Call::event_query, [&] { return do_event_query(event, done); });
}
Status Device::event_wait(Event event, std::chrono::nanoseconds timeout, bool& done) {
  return metered(Call::event_wait, [&] { return do_event_wait(event, timeout, done); });
}
Status Device::stream_create(Stream& out) {
  return metered(Call::stream_create, [&] { return do_stream_create(out); });
}
Status Device::stream_destroy(Stream stream) {
  return metered(Call::stream_destroy, [&] { return do_stream_destroy(stream); });
}
Status Device::stream_synchronize(Stream stream) {
  return metered(Call::stream_synchronize, [&] { return do_stream_synchronize(stream); });
}
Status Device::stream_wait(Stream stream, Event event) {
  return metered(Call::stream_wait, [&] { return do_stream_wait(stream, event); });
}
Status Device::is_capturing(Stream stream, bool& capturing) {
  return metered(Call::is_capturing, [&] { return do_is_capturing(stream, capturing); });
}
Status Device::copy(Address to, Address from, std::size_t bytes, Stream stream) {
  return metered(Call::copy, [&] { return do_copy(to, from, bytes, stream); });
}
Status Device::fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream) {
  return metered(Call::fill, [&] { return do_fill(to, value, bytes, stream); });
}

CallStats Device::call_stats() const {
  CallStats out;
  for (std::size_t i = 0; i < call_kinds; ++i) out.count[i] = counts_[i].load(std::memory_order_relaxed);
  out.driver_ns = driver_ns_.load(std::memory_order_relaxed);
  out.wall_ns = wall_ns_.load(std::memory_order_relaxed);
  return out;
}

}  // namespace reprieve::device
