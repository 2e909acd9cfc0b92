#include "device/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace reprieve::device::driver {
namespace {

struct Entry {
  const char* name;
  int version;  // the CUDA version whose form of the entry is meant
  bool required;
  void (*set)(Api&, void*);
};

template <auto member>
void set(Api& api, void* entry) {
  api.*member = reinterpret_cast<std::remove_reference_t<decltype(api.*member)>>(entry);
}

// Asking for the oldest accepted version gets one form of each entry from every driver, also from one whose newer
// versions have changed it.
constexpr Entry entries[] = {
    {"cuGetErrorName", minimum_version, true, set<&Api::get_error_name>},
    {"cuGetErrorString", minimum_version, true, set<&Api::get_error_string>},
    {"cuDeviceGetCount", minimum_version, true, set<&Api::device_get_count>},
    {"cuDeviceGet", minimum_version, true, set<&Api::device_get>},
    {"cuDeviceGetName", minimum_version, true, set<&Api::device_get_name>},
    {"cuDeviceGetAttribute", minimum_version, true, set<&Api::device_get_attribute>},
    {"cuDeviceTotalMem", minimum_version, true, set<&Api::device_total_mem>},
    {"cuDevicePrimaryCtxRetain", minimum_version, true, set<&Api::primary_context_retain>},
    {"cuDevicePrimaryCtxRelease", minimum_version, true, set<&Api::primary_context_release>},
    {"cuCtxGetCurrent", minimum_version, true, set<&Api::context_get_current>},
    {"cuCtxPushCurrent", minimum_version, true, set<&Api::context_push_current>},
    {"cuCtxPopCurrent", minimum_version, true, set<&Api::context_pop_current>},
    {"cuCtxRecordEvent", 12050, false, set<&Api::context_record_event>},
    {"cuMemGetAllocationGranularity", minimum_version, true, set<&Api::mem_get_granularity>},
    {"cuMemAddressReserve", minimum_version, true, set<&Api::mem_address_reserve>},
    {"cuMemAddressFree", minimum_version, true, set<&Api::mem_address_free>},
    {"cuMemCreate", minimum_version, true, set<&Api::mem_create>},
    {"cuMemRelease", minimum_version, true, set<&Api::mem_release>},
    {"cuMemMap", minimum_version, true, set<&Api::mem_map>},
    {"cuMemSetAccess", minimum_version, true, set<&Api::mem_set_access>},
    {"cuMemUnmap", minimum_version, true, set<&Api::mem_unmap>},
    {"cuMemGetInfo", minimum_version, true, set<&Api::mem_get_info>},
    {"cuEventCreate", minimum_version, true, set<&Api::event_create>},
    {"cuEventDestroy", minimum_version, true, set<&Api::event_destroy>},
    {"cuEventRecord", minimum_version, true, set<&Api::event_record>},
    {"cuEventQuery", minimum_version, true, set<&Api::event_query>},
    {"cuStreamCreate", minimum_version, true, set<&Api::stream_create>},
    {"cuStreamDestroy", minimum_version, true, set<&Api::stream_destroy>},
    {"cuStreamSynchronize", minimum_version, true, set<&Api::stream_synchronize>},
    {"cuStreamWaitEvent", minimum_version, true, set<&Api::stream_wait_event>},
    {"cuStreamIsCapturing", minimum_version, true, set<&Api::stream_is_capturing>},
    {"cuThreadExchangeStreamCaptureMode", minimum_version, true, set<&Api::exchange_capture_mode>},
    {"cuMemcpyAsync", minimum_version, true, set<&Api::memcpy_async>},
    {"cuMemsetD8Async", minimum_version, true, set<&Api::memset_d8_async>},
};

Status refuse(std::string& reason, std::string text, const char* what, Result result = success) {
  reason = std::move(text);
  return failure(Errc::not_supported, what, result);
}

// The two entries that every driver ever made has under these names, needed to judge it before it is asked for more.
bool find_first_entries(void* library, Api& api) {
  set<&Api::init>(api, dlsym(library, "cuInit"));
  set<&Api::driver_get_version>(api, dlsym(library, "cuDriverGetVersion"));
  return api.init != nullptr && api.driver_get_version != nullptr;
}

Status find_entries(GetProcAddress get_proc_address, Api& api, std::string& reason) {
  for (const Entry& entry : entries) {
    void* found = nullptr;
    // Stream 0 is the legacy default stream in every entry, whatever the program was compiled with.
    const Result result = get_proc_address(entry.name, &found, entry.version, proc_address_legacy_stream, nullptr);
    if (result != success) found = nullptr;
    if (found == nullptr && entry.required) {
      return refuse(reason, fmt::format("{} has no {}", library_name, entry.name), entry.name, result);
    }
    entry.set(api, found);
  }
  return reprieve::success();
}

Status initialize(const Api& api, std::string& reason) {
  const Result result = api.init(0);
  if (result == success) return reprieve::success();
  if (result == no_device) return refuse(reason, "the CUDA driver finds no device", "cuInit", result);
  if (result == stub_library) {
    return refuse(reason, fmt::format("{} is the toolkit's stub for linking, not a driver", library_name), "cuInit",
                  result);
  }
  return refuse(reason, fmt::format("the CUDA driver does not start: {}", describe(api, result)), "cuInit", result);
}

}  // namespace

Status load(Api& out, std::string& reason) {
  void* const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    return refuse(reason, fmt::format("no CUDA driver: {} cannot be loaded ({})", library_name, error ? error : "?"),
                  library_name);
  }
  Api api{};
  int version = 0;
  if (!find_first_entries(library, api)) {
    return refuse(reason, fmt::format("{} is not a CUDA driver: it has no cuInit", library_name), library_name);
  }
  if (const Result result = api.driver_get_version(&version); result != success) {
    return refuse(reason, fmt::format("{} does not tell its version: CUDA error {}", library_name, result),
                  "cuDriverGetVersion", result);
  }
  if (version < minimum_version) {
    return refuse(reason,
                  fmt::format("the CUDA driver is for CUDA {}.{}; reprieve needs one for CUDA {}.{} or newer",
                              version / 1000, version % 1000 / 10, minimum_version / 1000, minimum_version % 1000 / 10),
                  "cuDriverGetVersion");
  }
  const auto get_proc_address = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get_proc_address == nullptr) {
    return refuse(reason, fmt::format("{} has no cuGetProcAddress_v2", library_name), "cuGetProcAddress_v2");
  }
  Status status = find_entries(get_proc_address, api, reason);
  if (status.ok()) status = initialize(api, reason);
  if (status.ok()) out = api;
  return status;
}

Status status_of(Result result, const char* call) {
  switch (result) {
    case success: return reprieve::success();
    case out_of_memory: return failure(Errc::out_of_memory, call, result);
    case invalid_value:
    case invalid_handle: return failure(Errc::invalid_argument, call, result);
    case not_supported: return failure(Errc::not_supported, call, result);
    default: return failure(Errc::device_error, call, result);
  }
}

std::string describe(const Api& api, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(result, &name) != success || name == nullptr) return fmt::format("CUDA error {}", result);
  if (api.get_error_string(result, &text) != success || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

}  // namespace reprieve::device::driver
