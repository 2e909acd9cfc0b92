#include "fake_driver.hpp"

#include <cstring>
#include <map>
#include <vector>

namespace {

using namespace fake_driver;  // NOLINT(google-build-using-namespace)
using driver::Result;

State state;
thread_local std::vector<driver::Context> contexts;
thread_local int capture_mode = 0;  // global, a thread's mode at its start
int context_objects[8];

driver::Context context_of(int device) { return reinterpret_cast<driver::Context>(&context_objects[device]); }

Result answer(const char* entry) { return state.failing == entry ? state.failure : driver::success; }

// The answer of a call that needs one of the primary contexts to be current.
Result answer_in_context(const char* entry) {
  if (contexts.empty() || contexts.back() != context_of(1)) ++state.without_context;
  return answer(entry);
}

Result init(unsigned) { return state.init; }
Result driver_get_version(int* version) {
  *version = state.version;
  return driver::success;
}
Result get_error_name(Result error, const char** text) {
  *text = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
  return error < 1000 ? driver::success : driver::invalid_value;
}
Result get_error_string(Result, const char** text) {
  *text = "what the driver says";
  return driver::success;
}
Result device_get_count(int* count) {
  *count = state.devices;
  return answer("cuDeviceGetCount");
}
Result device_get(driver::Ordinal* device, int ordinal) {
  *device = ordinal;
  return driver::success;
}
Result device_get_name(char* name, int length, driver::Ordinal) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return driver::success;
}
Result device_get_attribute(int* value, int attribute, driver::Ordinal) {
  switch (attribute) {
    case driver::attribute_virtual_memory_management: *value = state.virtual_memory; break;
    case driver::attribute_posix_fd_handles: *value = state.posix_fd; break;
    case driver::attribute_gpu_direct_rdma_with_vmm: *value = state.rdma; break;
    case driver::attribute_host_numa_id: *value = state.numa_node; break;
    default: return driver::invalid_value;
  }
  return driver::success;
}
Result device_total_mem(std::size_t* bytes, driver::Ordinal) {
  *bytes = std::size_t{1} << 34;
  return driver::success;
}
Result primary_context_retain(driver::Context* context, driver::Ordinal device) {
  ++state.retained;
  *context = context_of(device);
  return driver::success;
}
Result primary_context_release(driver::Ordinal) {
  --state.retained;
  return driver::success;
}
Result context_get_current(driver::Context* context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return driver::success;
}
Result context_push_current(driver::Context context) {
  ++state.pushes;
  contexts.push_back(context);
  return driver::success;
}
Result context_pop_current(driver::Context* context) {
  *context = contexts.back();
  contexts.pop_back();
  return driver::success;
}
Result context_record_event(driver::Context, driver::EventHandle) { return answer("cuCtxRecordEvent"); }

Result mem_get_granularity(std::size_t* bytes, const driver::AllocationProperties*, int) {
  *bytes = std::size_t{2} << 20;
  return driver::success;
}
Result mem_address_reserve(driver::DevicePtr* address, std::size_t, std::size_t, driver::DevicePtr,
                           unsigned long long) {
  *address = std::uint64_t{1} << 40;
  ++state.reservations;
  return driver::success;
}
Result mem_address_free(driver::DevicePtr, std::size_t) {
  --state.reservations;
  return driver::success;
}
Result mem_create(driver::MemHandle* handle, std::size_t, const driver::AllocationProperties* properties,
                  unsigned long long) {
  ++state.creates;
  if (const Result result = answer_in_context("cuMemCreate"); result != driver::success) return result;
  if (state.refuse_rdma && properties->flags.gpu_direct_rdma != 0) return driver::not_supported;
  if (state.refuse_fd && properties->handle_types != 0) return driver::not_permitted;
  if (state.refuse_numa && properties->location.type == driver::location_host_numa) return driver::not_supported;
  state.created = *properties;
  ++state.handles;
  *handle = 7;
  return driver::success;
}
Result mem_release(driver::MemHandle) {
  --state.handles;
  return driver::success;
}
Result mem_map(driver::DevicePtr, std::size_t, std::size_t, driver::MemHandle, unsigned long long) {
  const Result result = answer_in_context("cuMemMap");
  if (result == driver::success) ++state.mappings;
  return result;
}
Result mem_set_access(driver::DevicePtr, std::size_t, const driver::Access*, std::size_t) {
  return answer_in_context("cuMemSetAccess");
}
Result mem_unmap(driver::DevicePtr, std::size_t) {
  --state.mappings;
  return answer_in_context("cuMemUnmap");
}
Result mem_get_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = 1;
  *total_bytes = 2;
  return answer_in_context("cuMemGetInfo");
}

Result event_create(driver::EventHandle* event, unsigned) {
  *event = reinterpret_cast<driver::EventHandle>(&context_objects[7]);
  return answer_in_context("cuEventCreate");
}
Result event_destroy(driver::EventHandle) { return answer("cuEventDestroy"); }
Result event_record(driver::EventHandle, driver::StreamHandle) { return answer_in_context("cuEventRecord"); }
Result event_query(driver::EventHandle) {
  ++state.queries;
  if (capture_mode != driver::capture_mode_relaxed) ++state.unrelaxed_queries;
  if (const Result result = answer("cuEventQuery"); result != driver::success) return result;
  return state.event_done ? driver::success : driver::not_ready;
}
Result stream_create(driver::StreamHandle* stream, unsigned) {
  *stream = reinterpret_cast<driver::StreamHandle>(&context_objects[6]);
  return answer_in_context("cuStreamCreate");
}
Result stream_destroy(driver::StreamHandle) { return answer("cuStreamDestroy"); }
Result stream_synchronize(driver::StreamHandle) { return answer_in_context("cuStreamSynchronize"); }
Result stream_wait_event(driver::StreamHandle, driver::EventHandle, unsigned) {
  return answer_in_context("cuStreamWaitEvent");
}
Result stream_is_capturing(driver::StreamHandle, int* status) {
  *status = driver::capture_status_none;
  return answer_in_context("cuStreamIsCapturing");
}
Result exchange_capture_mode(int* mode) {
  std::swap(*mode, capture_mode);
  return driver::success;
}
Result memcpy_async(driver::DevicePtr, driver::DevicePtr, std::size_t, driver::StreamHandle) {
  return answer_in_context("cuMemcpyAsync");
}
Result memset_d8_async(driver::DevicePtr, unsigned char, std::size_t, driver::StreamHandle) {
  return answer_in_context("cuMemsetD8Async");
}

template <typename Function>
void* entry(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& entries() {
  static const std::map<std::string, void*> all = {
      {"cuGetErrorName", entry(get_error_name)},
      {"cuGetErrorString", entry(get_error_string)},
      {"cuDeviceGetCount", entry(device_get_count)},
      {"cuDeviceGet", entry(device_get)},
      {"cuDeviceGetName", entry(device_get_name)},
      {"cuDeviceGetAttribute", entry(device_get_attribute)},
      {"cuDeviceTotalMem", entry(device_total_mem)},
      {"cuDevicePrimaryCtxRetain", entry(primary_context_retain)},
      {"cuDevicePrimaryCtxRelease", entry(primary_context_release)},
      {"cuCtxGetCurrent", entry(context_get_current)},
      {"cuCtxPushCurrent", entry(context_push_current)},
      {"cuCtxPopCurrent", entry(context_pop_current)},
      {"cuCtxRecordEvent", entry(context_record_event)},
      {"cuMemGetAllocationGranularity", entry(mem_get_granularity)},
      {"cuMemAddressReserve", entry(mem_address_reserve)},
      {"cuMemAddressFree", entry(mem_address_free)},
      {"cuMemCreate", entry(mem_create)},
      {"cuMemRelease", entry(mem_release)},
      {"cuMemMap", entry(mem_map)},
      {"cuMemSetAccess", entry(mem_set_access)},
      {"cuMemUnmap", entry(mem_unmap)},
      {"cuMemGetInfo", entry(mem_get_info)},
      {"cuEventCreate", entry(event_create)},
      {"cuEventDestroy", entry(event_destroy)},
      {"cuEventRecord", entry(event_record)},
      {"cuEventQuery", entry(event_query)},
      {"cuStreamCreate", entry(stream_create)},
      {"cuStreamDestroy", entry(stream_destroy)},
      {"cuStreamSynchronize", entry(stream_synchronize)},
      {"cuStreamWaitEvent", entry(stream_wait_event)},
      {"cuStreamIsCapturing", entry(stream_is_capturing)},
      {"cuThreadExchangeStreamCaptureMode", entry(exchange_capture_mode)},
      {"cuMemcpyAsync", entry(memcpy_async)},
      {"cuMemsetD8Async", entry(memset_d8_async)},
  };
  return all;
}

}  // namespace

#define FAKE_DRIVER_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_DRIVER_EXPORT State* fake_driver_state() { return &state; }
FAKE_DRIVER_EXPORT void fake_driver_reset() {
  state = State{};
  contexts.clear();
  capture_mode = 0;
}

FAKE_DRIVER_EXPORT Result cuInit(unsigned flags) { return init(flags); }
FAKE_DRIVER_EXPORT Result cuDriverGetVersion(int* version) { return driver_get_version(version); }
FAKE_DRIVER_EXPORT Result cuGetProcAddress_v2(const char* name, void** found, int version, std::uint64_t, int*) {
  const auto it = entries().find(name);
  if (it == entries().end() || state.missing == name || version > state.version) return driver::invalid_value;
  *found = it->second;
  return driver::success;
}
