// Our declarations of the driver's binary interface against the toolkit's: compiled where there is a <cuda.h>.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "device/driver_api.hpp"

namespace reprieve::device::driver {
namespace {

static_assert(CUDA_VERSION >= 12000);

static_assert(success == CUDA_SUCCESS);
static_assert(invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(stub_library == CUDA_ERROR_STUB_LIBRARY);
static_assert(no_device == CUDA_ERROR_NO_DEVICE);
static_assert(invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(operating_system == CUDA_ERROR_OPERATING_SYSTEM);
static_assert(invalid_handle == CUDA_ERROR_INVALID_HANDLE);
static_assert(not_ready == CUDA_ERROR_NOT_READY);
static_assert(not_permitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(not_supported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(stream_capture_implicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);

static_assert(attribute_virtual_memory_management == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(attribute_posix_fd_handles == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(attribute_gpu_direct_rdma_with_vmm == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(location_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(capture_mode_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(capture_status_none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(proc_address_legacy_stream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
#if CUDA_VERSION >= 12030  // the first header with these names
static_assert(attribute_host_numa_id == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
static_assert(location_host == CU_MEM_LOCATION_TYPE_HOST);
static_assert(location_host_numa == CU_MEM_LOCATION_TYPE_HOST_NUMA);
#endif

static_assert(sizeof(Location) == sizeof(CUmemLocation));
static_assert(offsetof(Location, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));

static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(AllocationProperties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, windows_attributes) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(AllocationFlags) == sizeof(CUmemAllocationProp::allocFlags));
static_assert(offsetof(AllocationProperties, flags.gpu_direct_rdma) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(offsetof(AllocationProperties, flags.usage) == offsetof(CUmemAllocationProp, allocFlags.usage));

static_assert(sizeof(Access) == sizeof(CUmemAccessDesc));
static_assert(offsetof(Access, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(Access, flags) == offsetof(CUmemAccessDesc, flags));

// One parameter passed in the same way: pointers to whatever as pointers, numbers with the same size.
template <typename Ours, typename Theirs>
constexpr bool same_parameter =
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    sizeof(Ours) == sizeof(Theirs) && std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;

template <typename Ours, typename Theirs>
constexpr bool same_call = false;
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
constexpr bool same_call<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return same_parameter<OurResult, TheirResult> && (same_parameter<Ours, Theirs> && ...);
  } else {
    return false;
  }
}();
static_assert(!same_call<int (*)(int), int (*)(int*)> && !same_call<int (*)(int), int (*)(int, int)>);

static_assert(same_call<decltype(Api::init), decltype(&cuInit)>);
static_assert(same_call<decltype(Api::driver_get_version), decltype(&cuDriverGetVersion)>);
static_assert(same_call<decltype(Api::get_error_name), decltype(&cuGetErrorName)>);
static_assert(same_call<decltype(Api::get_error_string), decltype(&cuGetErrorString)>);
static_assert(same_call<decltype(Api::device_get_count), decltype(&cuDeviceGetCount)>);
static_assert(same_call<decltype(Api::device_get), decltype(&cuDeviceGet)>);
static_assert(same_call<decltype(Api::device_get_name), decltype(&cuDeviceGetName)>);
static_assert(same_call<decltype(Api::device_get_attribute), decltype(&cuDeviceGetAttribute)>);
static_assert(same_call<decltype(Api::device_total_mem), decltype(&cuDeviceTotalMem)>);
static_assert(same_call<decltype(Api::primary_context_retain), decltype(&cuDevicePrimaryCtxRetain)>);
static_assert(same_call<decltype(Api::primary_context_release), decltype(&cuDevicePrimaryCtxRelease)>);
static_assert(same_call<decltype(Api::context_get_current), decltype(&cuCtxGetCurrent)>);
static_assert(same_call<decltype(Api::context_push_current), decltype(&cuCtxPushCurrent)>);
static_assert(same_call<decltype(Api::context_pop_current), decltype(&cuCtxPopCurrent)>);
#if CUDA_VERSION >= 12050
static_assert(same_call<decltype(Api::context_record_event), decltype(&cuCtxRecordEvent)>);
#endif
static_assert(same_call<decltype(Api::mem_get_granularity), decltype(&cuMemGetAllocationGranularity)>);
static_assert(same_call<decltype(Api::mem_address_reserve), decltype(&cuMemAddressReserve)>);
static_assert(same_call<decltype(Api::mem_address_free), decltype(&cuMemAddressFree)>);
static_assert(same_call<decltype(Api::mem_create), decltype(&cuMemCreate)>);
static_assert(same_call<decltype(Api::mem_release), decltype(&cuMemRelease)>);
static_assert(same_call<decltype(Api::mem_map), decltype(&cuMemMap)>);
static_assert(same_call<decltype(Api::mem_set_access), decltype(&cuMemSetAccess)>);
static_assert(same_call<decltype(Api::mem_unmap), decltype(&cuMemUnmap)>);
static_assert(same_call<decltype(Api::mem_get_info), decltype(&cuMemGetInfo)>);
static_assert(same_call<decltype(Api::event_create), decltype(&cuEventCreate)>);
static_assert(same_call<decltype(Api::event_destroy), decltype(&cuEventDestroy)>);
static_assert(same_call<decltype(Api::event_record), decltype(&cuEventRecord)>);
static_assert(same_call<decltype(Api::event_query), decltype(&cuEventQuery)>);
static_assert(same_call<decltype(Api::stream_create), decltype(&cuStreamCreate)>);
static_assert(same_call<decltype(Api::stream_destroy), decltype(&cuStreamDestroy)>);
static_assert(same_call<decltype(Api::stream_synchronize), decltype(&cuStreamSynchronize)>);
static_assert(same_call<decltype(Api::stream_wait_event), decltype(&cuStreamWaitEvent)>);
static_assert(same_call<decltype(Api::stream_is_capturing), decltype(&cuStreamIsCapturing)>);
static_assert(same_call<decltype(Api::exchange_capture_mode), decltype(&cuThreadExchangeStreamCaptureMode)>);
static_assert(same_call<decltype(Api::memcpy_async), decltype(&cuMemcpyAsync)>);
static_assert(same_call<decltype(Api::memset_d8_async), decltype(&cuMemsetD8Async)>);
static_assert(same_call<GetProcAddress, decltype(&cuGetProcAddress)>);

TEST(DriverApi, AgreesWithTheToolkitsHeader) { SUCCEED() << "everything is compared when this file is compiled"; }

}  // namespace
}  // namespace reprieve::device::driver
