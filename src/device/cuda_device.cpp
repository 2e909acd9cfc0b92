#include "device/cuda_device.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "device/cuda_driver.hpp"
#include "device/cuda_scopes.hpp"

namespace reprieve::device {
namespace {

using driver::Result;
using driver::status_of;
using std::chrono::nanoseconds;

driver::StreamHandle native(Stream stream) { return reinterpret_cast<driver::StreamHandle>(stream); }
driver::EventHandle native(Event event) { return reinterpret_cast<driver::EventHandle>(event); }

int attribute(const driver::Api& api, int which, driver::Ordinal device, int otherwise) {
  int value = 0;
  return api.device_get_attribute(&value, which, device) == driver::success ? value : otherwise;
}

// Answers to a wish in cuMemCreate that cannot be met, as against a device that is full or broken.
bool is_refusal(Result result) {
  return result == driver::invalid_value || result == driver::invalid_device || result == driver::operating_system ||
         result == driver::not_permitted || result == driver::not_supported;
}

driver::AllocationProperties pinned_at(int location, int id) {
  driver::AllocationProperties properties{};
  properties.type = driver::allocation_pinned;
  properties.location = {location, id};
  return properties;
}

// Times between two polls of an event: none at first, since most waits are short, then growing.
constexpr nanoseconds spin_for = std::chrono::microseconds(20);
constexpr nanoseconds first_pause = std::chrono::microseconds(10);
constexpr nanoseconds longest_pause = std::chrono::microseconds(200);

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<const driver::Api> api, driver::Ordinal device, driver::Context context,
                       Properties properties)
    : Device(std::move(properties)),
      api_(std::move(api)),
      device_(device),
      context_(context),
      numa_node_(attribute(*api_, driver::attribute_host_numa_id, device, -1)),
      ask_for_rdma_(attribute(*api_, driver::attribute_gpu_direct_rdma_with_vmm, device, 0) != 0),
      ask_for_fd_(attribute(*api_, driver::attribute_posix_fd_handles, device, 0) != 0),
      ask_for_numa_(numa_node_ >= 0) {}

CudaDevice::~CudaDevice() { api_->primary_context_release(device_); }

std::string CudaDevice::describe(std::int32_t driver_code) const { return driver::describe(*api_, driver_code); }

std::uint64_t CudaDevice::clock_ns() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<nanoseconds>(now).count());
}

// ---- memory

Status CudaDevice::do_reserve(std::size_t bytes, std::size_t alignment, Address& out) {
  return status_of(api_->mem_address_reserve(&out, bytes, alignment, 0, 0), "cuMemAddressReserve");
}

Status CudaDevice::do_unreserve(Address base, std::size_t bytes) {
  return status_of(api_->mem_address_free(base, bytes), "cuMemAddressFree");
}

Status CudaDevice::do_create(std::size_t bytes, Location where, Handle& out) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return where == Location::device ? create_on_device(bytes, out) : create_on_host(bytes, out);
}

// Export and RDMA cannot be added to a handle later, so they are asked for wherever the device has them. A wish is
// given up for good only when the same request succeeds without it: the fault may lie in the request itself.
Status CudaDevice::create_on_device(std::size_t bytes, Handle& out) {
  driver::MemHandle handle = 0;
  bool rdma = ask_for_rdma_.load(std::memory_order_relaxed);
  bool fd = ask_for_fd_.load(std::memory_order_relaxed);
  for (;;) {
    driver::AllocationProperties properties = pinned_at(driver::location_device, device_);
    properties.flags.gpu_direct_rdma = rdma ? 1 : 0;
    properties.handle_types = fd ? driver::handle_posix_fd : 0;
    const Result result = api_->mem_create(&handle, bytes, &properties, 0);
    if (result == driver::success) break;
    if (!is_refusal(result) || (!rdma && !fd)) return status_of(result, "cuMemCreate");
    (rdma ? rdma : fd) = false;
  }
  if (!rdma) ask_for_rdma_.store(false, std::memory_order_relaxed);
  if (!fd) ask_for_fd_.store(false, std::memory_order_relaxed);
  out = Handle{handle};
  return success();
}

Status CudaDevice::create_on_host(std::size_t bytes, Handle& out) {
  driver::MemHandle handle = 0;
  driver::AllocationProperties properties = pinned_at(driver::location_host_numa, numa_node_);
  if (ask_for_numa_.load(std::memory_order_relaxed)) {
    const Result result = api_->mem_create(&handle, bytes, &properties, 0);
    if (result == driver::success) {
      out = Handle{handle};
      return success();
    }
    if (!is_refusal(result)) return status_of(result, "cuMemCreate");
  }
  properties = pinned_at(driver::location_host, 0);
  const Result result = api_->mem_create(&handle, bytes, &properties, 0);
  if (result != driver::success) return status_of(result, "cuMemCreate");
  ask_for_numa_.store(false, std::memory_order_relaxed);
  out = Handle{handle};
  return success();
}

Status CudaDevice::do_release(Handle handle) {
  return status_of(api_->mem_release(static_cast<driver::MemHandle>(handle)), "cuMemRelease");
}

Status CudaDevice::do_map(Address at, std::size_t bytes, Handle handle) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->mem_map(at, bytes, 0, static_cast<driver::MemHandle>(handle), 0), "cuMemMap");
}

Status CudaDevice::do_set_access(Address at, std::size_t bytes, std::span<const int> peers) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  constexpr std::size_t most = 64;
  std::array<driver::Access, most> access{};
  std::size_t count = 0;
  access[count++] = {{driver::location_device, device_}, driver::access_read_write};
  for (const int peer : peers) {
    driver::Ordinal other = 0;
    if (const driver::Result result = api_->device_get(&other, peer); result != driver::success || count == most) {
      return status_of(result == driver::success ? driver::invalid_value : result, "cuDeviceGet");
    }
    access[count++] = {{driver::location_device, other}, driver::access_read_write};
  }
  return status_of(api_->mem_set_access(at, bytes, access.data(), count), "cuMemSetAccess");
}

Status CudaDevice::do_unmap(Address at, std::size_t bytes) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->mem_unmap(at, bytes), "cuMemUnmap");
}

Status CudaDevice::do_memory_info(std::size_t& free_bytes, std::size_t& total_bytes) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  const RelaxedCapture relaxed(*api_);
  return status_of(api_->mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo");
}

Status CudaDevice::try_memory_calls() {
  const std::size_t bytes = properties_.granularity;
  const auto keep_first = [](Status& first, Status next) {
    if (first.ok()) first = next;
  };
  Address at = 0;
  Handle handle{};
  Status status = do_reserve(bytes, 0, at);
  if (status.ok()) {
    status = do_create(bytes, Location::device, handle);
    if (status.ok()) {
      status = do_map(at, bytes, handle);
      if (status.ok()) {
        status = do_set_access(at, bytes, {});
        keep_first(status, do_unmap(at, bytes));
      }
      keep_first(status, do_release(handle));
    }
    keep_first(status, do_unreserve(at, bytes));
  }
  // Memory that is short at the moment says nothing about what the driver can do.
  if (status.is(Errc::out_of_memory)) return success();
  return is_refusal(status.driver) ? failure(Errc::not_supported, status.what, status.driver) : status;
}

// ---- events

Status CudaDevice::do_event_create(Event& out) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  driver::EventHandle event = nullptr;
  const Result result = api_->event_create(&event, driver::event_disable_timing);
  if (result == driver::success) out = Event{reinterpret_cast<std::uintptr_t>(event)};
  return status_of(result, "cuEventCreate");
}

Status CudaDevice::do_event_destroy(Event event) {
  const RelaxedCapture relaxed(*api_);
  return status_of(api_->event_destroy(native(event)), "cuEventDestroy");
}

Status CudaDevice::do_event_record(Event event, Stream stream) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->event_record(native(event), native(stream)), "cuEventRecord");
}

Status CudaDevice::do_event_record_all(Event event) {
  if (api_->context_record_event == nullptr) return failure(Errc::not_supported, "cuCtxRecordEvent");
  return status_of(api_->context_record_event(context_, native(event)), "cuCtxRecordEvent");
}

Status CudaDevice::do_event_query(Event event, bool& done) {
  const RelaxedCapture relaxed(*api_);
  const Result result = api_->event_query(native(event));
  if (result != driver::success && result != driver::not_ready) return status_of(result, "cuEventQuery");
  done = result == driver::success;
  return success();
}

// Polled, because the driver's own wait has no deadline.
Status CudaDevice::do_event_wait(Event event, nanoseconds timeout, bool& done) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  nanoseconds pause = first_pause;
  for (;;) {
    const Status status = do_event_query(event, done);
    if (!status.ok() || done) return status;
    const nanoseconds waited = Clock::now() - start;
    if (waited >= timeout) return status;
    if (waited < spin_for) continue;
    std::this_thread::sleep_for(std::min(pause, timeout - waited));
    pause = std::min(2 * pause, longest_pause);
  }
}

// ---- streams

Status CudaDevice::do_stream_create(Stream& out) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  driver::StreamHandle stream = nullptr;
  const Result result = api_->stream_create(&stream, driver::stream_non_blocking);
  if (result == driver::success) out = Stream{reinterpret_cast<std::uintptr_t>(stream)};
  return status_of(result, "cuStreamCreate");
}

Status CudaDevice::do_stream_destroy(Stream stream) {
  return status_of(api_->stream_destroy(native(stream)), "cuStreamDestroy");
}

Status CudaDevice::do_stream_synchronize(Stream stream) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->stream_synchronize(native(stream)), "cuStreamSynchronize");
}

Status CudaDevice::do_stream_wait(Stream stream, Event event) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->stream_wait_event(native(stream), native(event), 0), "cuStreamWaitEvent");
}

Status CudaDevice::do_is_capturing(Stream stream, bool& capturing) {
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  int capture_status = driver::capture_status_none;
  const Result result = api_->stream_is_capturing(native(stream), &capture_status);
  // The legacy stream while a stream that synchronizes with it captures: an event recorded on it would spoil that
  // capture, so for whoever asks it is as good as capturing.
  const bool implicit = result == driver::stream_capture_implicit;
  if (result != driver::success && !implicit) return status_of(result, "cuStreamIsCapturing");
  capturing = implicit || capture_status != driver::capture_status_none;
  return success();
}

// ---- work on a stream

// The copy that infers the kinds of both addresses: the driver calls memory that lies on host chunks 'host'.
Status CudaDevice::do_copy(Address to, Address from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return success();
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->memcpy_async(to, from, bytes, native(stream)), "cuMemcpyAsync");
}

Status CudaDevice::do_fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream) {
  if (bytes == 0) return success();
  const CurrentContext current(*api_, context_);
  if (current.result() != driver::success) return status_of(current.result(), "cuCtxPushCurrent");
  return status_of(api_->memset_d8_async(to, value, bytes, native(stream)), "cuMemsetD8Async");
}

}  // namespace reprieve::device
