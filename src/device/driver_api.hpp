// The part of the CUDA driver's binary interface that is used here, declared anew so that building needs no CUDA
// toolkit. Values and layouts are those of <cuda.h> from CUDA 12.0 on; tests/device/driver_api_test.cpp compares them
// with the real header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprieve::device::driver {

using Result = int;   // CUresult
using Ordinal = int;  // CUdevice
using DevicePtr = std::uint64_t;
using MemHandle = std::uint64_t;  // CUmemGenericAllocationHandle
using Context = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;

inline constexpr Result success = 0;
inline constexpr Result invalid_value = 1;
inline constexpr Result out_of_memory = 2;
inline constexpr Result stub_library = 34;
inline constexpr Result no_device = 100;
inline constexpr Result invalid_device = 101;
inline constexpr Result operating_system = 304;
inline constexpr Result invalid_handle = 400;
inline constexpr Result not_ready = 600;
inline constexpr Result not_permitted = 800;
inline constexpr Result not_supported = 801;
inline constexpr Result stream_capture_implicit = 906;

// CUdevice_attribute
inline constexpr int attribute_virtual_memory_management = 102;
inline constexpr int attribute_posix_fd_handles = 103;
inline constexpr int attribute_gpu_direct_rdma_with_vmm = 110;
inline constexpr int attribute_host_numa_id = 134;

inline constexpr int location_device = 1;
inline constexpr int location_host = 2;
inline constexpr int location_host_numa = 3;
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_posix_fd = 1;
inline constexpr int access_read_write = 3;
inline constexpr int granularity_minimum = 0;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr int capture_mode_relaxed = 2;
inline constexpr int capture_status_none = 0;
inline constexpr std::uint64_t proc_address_legacy_stream = 1;

struct Location {
  int type;
  int id;
};

struct AllocationFlags {
  unsigned char compression;
  unsigned char gpu_direct_rdma;
  unsigned short usage;
  unsigned char reserved[4];
};

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* windows_attributes;
  AllocationFlags flags;
};

struct Access {
  Location location;
  int flags;
};

// Every entry that is used; each is named in the table of cuda_driver.cpp, where it gets its value.
struct Api {
  Result (*init)(unsigned flags);
  Result (*driver_get_version)(int* version);
  Result (*get_error_name)(Result error, const char** text);
  Result (*get_error_string)(Result error, const char** text);
  Result (*device_get_count)(int* count);
  Result (*device_get)(Ordinal* device, int ordinal);
  Result (*device_get_name)(char* name, int length, Ordinal device);
  Result (*device_get_attribute)(int* value, int attribute, Ordinal device);
  Result (*device_total_mem)(std::size_t* bytes, Ordinal device);
  Result (*primary_context_retain)(Context* context, Ordinal device);
  Result (*primary_context_release)(Ordinal device);
  Result (*context_get_current)(Context* context);
  Result (*context_push_current)(Context context);
  Result (*context_pop_current)(Context* context);
  Result (*context_record_event)(Context context, EventHandle event);  // null before CUDA 12.5

  Result (*mem_get_granularity)(std::size_t* bytes, const AllocationProperties* properties, int option);
  Result (*mem_address_reserve)(DevicePtr* address, std::size_t bytes, std::size_t alignment, DevicePtr wanted,
                                unsigned long long flags);
  Result (*mem_address_free)(DevicePtr address, std::size_t bytes);
  Result (*mem_create)(MemHandle* handle, std::size_t bytes, const AllocationProperties* properties,
                       unsigned long long flags);
  Result (*mem_release)(MemHandle handle);
  Result (*mem_map)(DevicePtr address, std::size_t bytes, std::size_t offset, MemHandle handle,
                    unsigned long long flags);
  Result (*mem_set_access)(DevicePtr address, std::size_t bytes, const Access* access, std::size_t count);
  Result (*mem_unmap)(DevicePtr address, std::size_t bytes);
  Result (*mem_get_info)(std::size_t* free_bytes, std::size_t* total_bytes);

  Result (*event_create)(EventHandle* event, unsigned flags);
  Result (*event_destroy)(EventHandle event);
  Result (*event_record)(EventHandle event, StreamHandle stream);
  Result (*event_query)(EventHandle event);
  Result (*stream_create)(StreamHandle* stream, unsigned flags);
  Result (*stream_destroy)(StreamHandle stream);
  Result (*stream_synchronize)(StreamHandle stream);
  Result (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags);
  Result (*stream_is_capturing)(StreamHandle stream, int* status);
  Result (*exchange_capture_mode)(int* mode);
  Result (*memcpy_async)(DevicePtr to, DevicePtr from, std::size_t bytes, StreamHandle stream);
  Result (*memset_d8_async)(DevicePtr to, unsigned char value, std::size_t count, StreamHandle stream);
};

// cuGetProcAddress_v2, which finds all the others (`query_result` may be null).
using GetProcAddress = Result (*)(const char* name, void** entry, int cuda_version, std::uint64_t flags,
                                  int* query_result);

}  // namespace reprieve::device::driver
