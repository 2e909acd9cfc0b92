// Every entry of the driver by name, as cuGetProcAddress finds them (and through it the runtime).
#include <cstring>

#include "standin/driver.hpp"

namespace reprieve::standin {
namespace {

struct Entry {
  const char* name;
  int version;  // the oldest CUDA version whose form of the entry this is (<cudaTypedefs.h>)
  void* function;
};

// The header's macros turn a name into that of its newest form, which is the one that exists here.
#define ENTRY(name, version) \
  { #name, version, reinterpret_cast < void*>(name) }

const Entry entries[] = {
    ENTRY(cuCtxEnablePeerAccess, 4000),
    ENTRY(cuCtxGetApiVersion, 3020),
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxGetDevice, 2000),
    ENTRY(cuCtxGetFlags, 7000),
    ENTRY(cuCtxGetLimit, 3010),
    ENTRY(cuCtxGetStreamPriorityRange, 5050),
    ENTRY(cuCtxPopCurrent, 4000),
    ENTRY(cuCtxPushCurrent, 4000),
#if CUDA_VERSION >= 12050
    ENTRY(cuCtxRecordEvent, 12050),
#endif
    ENTRY(cuCtxSetCurrent, 4000),
    ENTRY(cuCtxSetLimit, 3010),
    ENTRY(cuCtxSynchronize, 2000),
    ENTRY(cuDeviceCanAccessPeer, 4000),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetAttribute, 2000),
    ENTRY(cuDeviceGetCount, 2000),
    ENTRY(cuDeviceGetDefaultMemPool, 11020),
    ENTRY(cuDeviceGetName, 2000),
    ENTRY(cuDeviceGetPCIBusId, 4010),
    ENTRY(cuDeviceGetUuid, 11040),
    ENTRY(cuDevicePrimaryCtxGetState, 7000),
    ENTRY(cuDevicePrimaryCtxRelease, 11000),
    ENTRY(cuDevicePrimaryCtxReset, 11000),
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    ENTRY(cuDevicePrimaryCtxSetFlags, 11000),
    ENTRY(cuDeviceTotalMem, 3020),
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuEventCreate, 2000),
    ENTRY(cuEventDestroy, 4000),
    ENTRY(cuEventElapsedTime, 2000),
    ENTRY(cuEventQuery, 2000),
    ENTRY(cuEventRecord, 2000),
    ENTRY(cuEventRecordWithFlags, 11010),
    ENTRY(cuEventSynchronize, 2000),
    ENTRY(cuFuncGetAttribute, 2020),
    ENTRY(cuFuncGetName, 12030),
    ENTRY(cuFuncSetAttribute, 9000),
    ENTRY(cuFuncSetCacheConfig, 3000),
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuGetErrorString, 6000),
    ENTRY(cuGraphDestroy, 10000),
    ENTRY(cuGraphExecDestroy, 10000),
    ENTRY(cuGraphInstantiateWithFlags, 11040),
    ENTRY(cuGraphLaunch, 10000),
    ENTRY(cuInit, 2000),
    ENTRY(cuIpcCloseMemHandle, 4010),
    ENTRY(cuIpcGetEventHandle, 4010),
    ENTRY(cuIpcGetMemHandle, 4010),
    ENTRY(cuIpcOpenEventHandle, 4010),
    ENTRY(cuIpcOpenMemHandle, 11000),
    ENTRY(cuKernelGetAttribute, 12000),
    ENTRY(cuKernelGetFunction, 12000),
    ENTRY(cuKernelSetAttribute, 12000),
    ENTRY(cuLaunchCooperativeKernel, 9000),
    ENTRY(cuLaunchHostFunc, 10000),
    ENTRY(cuLaunchKernel, 4000),
    ENTRY(cuLaunchKernelEx, 11060),
    ENTRY(cuLibraryGetKernel, 12000),
    ENTRY(cuLibraryLoadData, 12000),
    ENTRY(cuLibraryUnload, 12000),
    ENTRY(cuMemAddressFree, 10020),
    ENTRY(cuMemAddressReserve, 10020),
    ENTRY(cuMemAlloc, 3020),
    ENTRY(cuMemAllocAsync, 11020),
    ENTRY(cuMemAllocHost, 3020),
    ENTRY(cuMemCreate, 10020),
    ENTRY(cuMemExportToShareableHandle, 10020),
    ENTRY(cuMemFree, 3020),
    ENTRY(cuMemFreeAsync, 11020),
    ENTRY(cuMemFreeHost, 2000),
    ENTRY(cuMemGetAccess, 10020),
    ENTRY(cuMemGetAddressRange, 3020),
    ENTRY(cuMemGetAllocationGranularity, 10020),
    ENTRY(cuMemGetAllocationPropertiesFromHandle, 10020),
    ENTRY(cuMemGetInfo, 3020),
    ENTRY(cuMemHostAlloc, 2020),
    ENTRY(cuMemHostGetDevicePointer, 3020),
    ENTRY(cuMemHostRegister, 6050),
    ENTRY(cuMemHostUnregister, 4000),
    ENTRY(cuMemImportFromShareableHandle, 10020),
    ENTRY(cuMemMap, 10020),
    ENTRY(cuMemRelease, 10020),
    ENTRY(cuMemRetainAllocationHandle, 11000),
    ENTRY(cuMemSetAccess, 10020),
    ENTRY(cuMemUnmap, 10020),
    ENTRY(cuMemcpy, 4000),
    ENTRY(cuMemcpyAsync, 4000),
    ENTRY(cuMemcpyDtoD, 3020),
    ENTRY(cuMemcpyDtoDAsync, 3020),
    ENTRY(cuMemcpyDtoH, 3020),
    ENTRY(cuMemcpyDtoHAsync, 3020),
    ENTRY(cuMemcpyHtoD, 3020),
    ENTRY(cuMemcpyHtoDAsync, 3020),
    ENTRY(cuMemsetD16, 3020),
    ENTRY(cuMemsetD16Async, 3020),
    ENTRY(cuMemsetD32, 3020),
    ENTRY(cuMemsetD32Async, 3020),
    ENTRY(cuMemsetD8, 3020),
    ENTRY(cuMemsetD8Async, 3020),
    ENTRY(cuModuleGetFunction, 2000),
    ENTRY(cuModuleLoad, 2000),
    ENTRY(cuModuleLoadData, 2000),
    ENTRY(cuModuleLoadDataEx, 2010),
    ENTRY(cuModuleLoadFatBinary, 2000),
    ENTRY(cuModuleUnload, 2000),
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000),
    ENTRY(cuOccupancyMaxActiveClusters, 11070),
    ENTRY(cuOccupancyMaxPotentialBlockSize, 6050),
    ENTRY(cuPointerGetAttribute, 4000),
    ENTRY(cuPointerSetAttribute, 6000),
    ENTRY(cuProfilerStart, 4000),
    ENTRY(cuProfilerStop, 4000),
    ENTRY(cuStreamBeginCapture, 10010),
    ENTRY(cuStreamCreate, 2000),
    ENTRY(cuStreamCreateWithPriority, 5050),
    ENTRY(cuStreamDestroy, 4000),
    ENTRY(cuStreamEndCapture, 10000),
#if CUDA_VERSION >= 13000
    ENTRY(cuStreamGetCaptureInfo, 12030),
#endif
    ENTRY(cuStreamGetPriority, 5050),
    ENTRY(cuStreamIsCapturing, 10000),
    ENTRY(cuStreamQuery, 2000),
    ENTRY(cuStreamSynchronize, 2000),
    ENTRY(cuStreamWaitEvent, 3020),
    ENTRY(cuStreamWaitValue32, 11070),
    ENTRY(cuStreamWaitValue64, 11070),
    ENTRY(cuStreamWriteValue32, 11070),
    ENTRY(cuStreamWriteValue64, 11070),
    ENTRY(cuTensorMapEncodeIm2col, 12000),
    ENTRY(cuTensorMapEncodeTiled, 12000),
    ENTRY(cuTensorMapReplaceAddress, 12000),
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
    ENTRY(cuGetProcAddress, 12000),
};

#undef ENTRY

const Entry* find_entry(const char* name) {
  for (const Entry& each : entries) {
    if (std::strcmp(each.name, name) == 0) return &each;
  }
  return nullptr;
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;

extern "C" {

// Per-thread default streams are those of the program that asks for them by their handle: entries are the same for both
// flags. Not finding one is no error, and says why in `status`.
CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Entry* const found = find_entry(name);
  const bool old_enough = found != nullptr && found->version <= version;
  *out = old_enough ? found->function : nullptr;
  if (status != nullptr) {
    *status = found == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
              : old_enough     ? CU_GET_PROC_ADDRESS_SUCCESS
                               : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
