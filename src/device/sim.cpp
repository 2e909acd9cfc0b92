#include "device/sim.hpp"

#include <utility>

namespace reprieve::device {
namespace {

using simgpu::Code;

static_assert(sim_call(Call::reserve) == simgpu::Call::reserve && sim_call(Call::unmap) == simgpu::Call::unmap &&
                  sim_call(Call::event_record_all) == simgpu::Call::event_record_all &&
                  sim_call(Call::is_capturing) == simgpu::Call::is_capturing &&
                  sim_call(Call::fill) == simgpu::Call::fill,
              "the two lists of calls have the same order");

Status status_of(Code code, const char* what) {
  const auto number = static_cast<std::int32_t>(code);
  switch (code) {
    case Code::success: return success();
    case Code::out_of_memory: return failure(Errc::out_of_memory, what, number);
    case Code::invalid_value:
    case Code::invalid_device:
    case Code::invalid_handle: return failure(Errc::invalid_argument, what, number);
    case Code::not_supported: return failure(Errc::not_supported, what, number);
    default: return failure(Errc::device_error, what, number);
  }
}

simgpu::StreamId id(Stream stream) { return static_cast<simgpu::StreamId>(stream); }
simgpu::EventId id(Event event) { return static_cast<simgpu::EventId>(event); }
simgpu::HandleId id(Handle handle) { return static_cast<simgpu::HandleId>(handle); }

// Queries are legal during another stream's capture only in this mode of the thread.
class RelaxedCapture {
 public:
  RelaxedCapture() : before_(simgpu::exchange_capture_mode(simgpu::CaptureMode::relaxed)) {}
  ~RelaxedCapture() { simgpu::exchange_capture_mode(before_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  simgpu::CaptureMode before_;
};

class SimDevice final : public Device {
 public:
  SimDevice(simgpu::Machine& machine, Properties properties)
      : Device(std::move(properties)), machine_(machine), ordinal_(this->properties().ordinal) {}

  std::string describe(std::int32_t driver_code) const override {
    return std::string(simgpu::code_name(driver_code)) + ": " + simgpu::code_text(driver_code);
  }

 private:
  Status do_reserve(std::size_t bytes, std::size_t alignment, Address& out) override {
    return status_of(machine_.reserve(bytes, alignment, out), "reserve");
  }
  Status do_unreserve(Address base, std::size_t bytes) override {
    return status_of(machine_.unreserve(base, bytes), "unreserve");
  }
  Status do_create(std::size_t bytes, Location where, Handle& out) override {
    simgpu::HandleId handle = 0;
    const auto place = where == Location::host ? simgpu::Location::host : simgpu::Location::device;
    const Code code = machine_.create(ordinal_, place, bytes, handle);
    if (code == Code::success) out = Handle{handle};
    return status_of(code, "create");
  }
  Status do_release(Handle handle) override { return status_of(machine_.release(id(handle)), "release"); }
  Status do_map(Address at, std::size_t bytes, Handle handle) override {
    return status_of(machine_.map(at, bytes, id(handle)), "map");
  }
  Status do_set_access(Address at, std::size_t bytes, std::span<const int> peers) override {
    for (const int peer : peers) {
      if (peer < 0 || peer >= machine_.device_count()) return status_of(Code::invalid_device, "set_access");
    }
    Code code = machine_.set_access(ordinal_, at, bytes);
    for (const int peer : peers) {
      if (code == Code::success) code = machine_.set_access(peer, at, bytes);
    }
    return status_of(code, "set_access");
  }
  Status do_unmap(Address at, std::size_t bytes) override { return status_of(machine_.unmap(at, bytes), "unmap"); }
  Status do_memory_info(std::size_t& free_bytes, std::size_t& total_bytes) override {
    return status_of(machine_.memory_info(ordinal_, free_bytes, total_bytes), "memory_info");
  }
  Status do_event_create(Event& out) override {
    simgpu::EventId event = 0;
    const Code code = machine_.event_create(ordinal_, event);
    if (code == Code::success) out = Event{event};
    return status_of(code, "event_create");
  }
  Status do_event_destroy(Event event) override {
    return status_of(machine_.event_destroy(id(event)), "event_destroy");
  }
  Status do_event_record(Event event, Stream stream) override {
    return status_of(machine_.event_record(ordinal_, id(event), id(stream)), "event_record");
  }
  Status do_event_record_all(Event event) override {
    return status_of(machine_.event_record_all(ordinal_, id(event)), "event_record_all");
  }
  Status do_event_query(Event event, bool& done) override {
    const RelaxedCapture relaxed;
    return answer(machine_.event_query(id(event)), "event_query", done);
  }
  Status do_event_wait(Event event, std::chrono::nanoseconds timeout, bool& done) override {
    const RelaxedCapture relaxed;
    const auto ns = timeout.count() > 0 ? static_cast<std::uint64_t>(timeout.count()) : 0;
    return answer(machine_.event_wait(id(event), ns), "event_wait", done);
  }
  Status do_stream_create(Stream& out) override {
    simgpu::StreamId stream = 0;
    const Code code = machine_.stream_create(ordinal_, stream);
    if (code == Code::success) out = Stream{stream};
    return status_of(code, "stream_create");
  }
  Status do_stream_destroy(Stream stream) override {
    return status_of(machine_.stream_destroy(ordinal_, id(stream)), "stream_destroy");
  }
  Status do_stream_synchronize(Stream stream) override {
    return status_of(machine_.stream_synchronize(ordinal_, id(stream)), "stream_synchronize");
  }
  Status do_stream_wait(Stream stream, Event event) override {
    return status_of(machine_.stream_wait(ordinal_, id(stream), id(event)), "stream_wait");
  }
  Status do_is_capturing(Stream stream, bool& capturing) override {
    return status_of(machine_.is_capturing(ordinal_, id(stream), capturing), "is_capturing");
  }
  Status do_copy(Address to, Address from, std::size_t bytes, Stream stream) override {
    return status_of(machine_.copy(ordinal_, to, from, bytes, id(stream)), "copy");
  }
  Status do_fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream) override {
    return status_of(machine_.fill(ordinal_, to, value, bytes, id(stream)), "fill");
  }
  std::uint64_t clock_ns() const override { return machine_.now_ns(); }

  static Status answer(Code code, const char* what, bool& done) {
    if (code != Code::success && code != Code::not_ready) return status_of(code, what);
    done = code == Code::success;
    return success();
  }

  simgpu::Machine& machine_;
  const int ordinal_;
};

}  // namespace

Status SimBackend::open(int ordinal, std::unique_ptr<Device>& out) {
  if (ordinal < 0 || ordinal >= machine_.device_count()) {
    return failure(Errc::invalid_argument, "no such device", static_cast<std::int32_t>(Code::invalid_device));
  }
  Properties properties;
  properties.ordinal = ordinal;
  properties.name = "simulated GPU";
  properties.granularity = simgpu::granularity;
  properties.context_events = machine_.context_events();
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  if (const Code code = machine_.memory_info(ordinal, free_bytes, total_bytes); code != Code::success) {
    return status_of(code, "open");
  }
  properties.total_bytes = total_bytes;
  out = std::make_unique<SimDevice>(machine_, std::move(properties));
  return success();
}

}  // namespace reprieve::device
