// Device and host memory, copies and fills.
#include "standin/pointers.hpp"
#include "standin/runtime.hpp"
#include "standin/variables.hpp"

namespace reprieve::standin {
namespace {

using simgpu::Code;
using simgpu::CopyCall;
using simgpu::PointerInfo;
using simgpu::PointerKind;
using simgpu::Transfer;

bool known(simgpu::Machine& gpus, std::uint64_t address) {
  PointerInfo info;
  return find_memory(gpus, address, 1, info);
}

// From the first to the last byte of a side.
std::uint64_t extent(const Transfer& transfer, std::uint64_t pitch) {
  return (transfer.rows - 1) * pitch + transfer.bytes;
}

// The direction that a caller names must fit the two sides; host memory that the device may use fits both ways.
cudaError_t check_direction(simgpu::Machine& gpus, const Transfer& transfer, cudaMemcpyKind kind) {
  if (transfer.to == 0 || transfer.from == 0) return cudaErrorInvalidValue;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device && !known(gpus, transfer.to)) return cudaErrorInvalidValue;
  if (from_device && !known(gpus, transfer.from)) return cudaErrorInvalidValue;
  const bool both_fit = fits(gpus, transfer.to, extent(transfer, transfer.to_pitch)) &&
                        fits(gpus, transfer.from, extent(transfer, transfer.from_pitch));
  return both_fit ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t copy(const Transfer& transfer, cudaMemcpyKind kind, cudaStream_t stream, CopyCall call) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (transfer.bytes == 0 || transfer.rows == 0) return cudaSuccess;
    if (const cudaError_t error = check_direction(gpus, transfer, kind); error != cudaSuccess) return error;
    return error_of(gpus.copy(device_for(gpus, stream, device), transfer, id_of(stream), call));
  });
}

cudaError_t copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
                      std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream, CopyCall call) {
  if (bytes != 0 && rows != 0 && (bytes > to_pitch || bytes > from_pitch)) return done(cudaErrorInvalidPitchValue);
  return copy({address_of(to), address_of(from), bytes, to_pitch, from_pitch, rows}, kind, stream, call);
}

cudaError_t fill(const simgpu::Fill& fill, cudaStream_t stream, bool wait) {
  return on_device([&](simgpu::Machine& gpus, int device) {
    if (fill.bytes == 0 || fill.rows == 0) return cudaSuccess;
    PointerInfo info;
    if (!find_memory(gpus, fill.to, (fill.rows - 1) * fill.pitch + fill.bytes, info)) return cudaErrorInvalidValue;
    const int on = device_for(gpus, stream, device);
    if (const Code code = gpus.fill(on, fill, id_of(stream)); code != Code::success) return error_of(code);
    // cudaMemset returns before the fill has run, except where the memory is the host's.
    if (!wait || info.where == simgpu::Location::device) return cudaSuccess;
    return error_of(synchronize_stream(on, id_of(stream)));
  });
}

simgpu::Fill bytes_fill(void* to, int value, std::size_t bytes) {
  return {address_of(to), static_cast<std::uint32_t>(value) & 0xff, 1, bytes, 0, 1};
}

cudaError_t allocate(void** out, std::size_t bytes, bool managed) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  *out = nullptr;
  return on_device([&](simgpu::Machine& gpus, int device) {
    std::uint64_t address = 0;
    const Code code = gpus.malloc(device, bytes, address, managed);
    if (code == Code::success) *out = pointer_to(address);
    return code;
  });
}

// Part of a __device__ variable; null where it is none, or not that long.
std::uint64_t part_of_variable(const void* symbol, std::size_t bytes, std::size_t offset, int device,
                               cudaError_t& error) {
  std::uint64_t address = 0;
  std::size_t size = 0;
  error = error_of(variable_address(symbol, device, address, size));
  if (error == cudaSuccess && (offset > size || bytes > size - offset)) error = cudaErrorInvalidValue;
  return address + offset;
}

cudaError_t copy_to_variable(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                             cudaMemcpyKind kind, cudaStream_t stream, CopyCall call) {
  cudaError_t error = cudaSuccess;
  const std::uint64_t to = part_of_variable(symbol, bytes, offset, use_runtime_device(), error);
  if (error != cudaSuccess) return done(error);
  return copy({to, address_of(from), bytes}, kind, stream, call);
}

cudaError_t copy_from_variable(void* to, const void* symbol, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
                               cudaStream_t stream, CopyCall call) {
  cudaError_t error = cudaSuccess;
  const std::uint64_t from = part_of_variable(symbol, bytes, offset, use_runtime_device(), error);
  if (error != cudaSuccess) return done(error);
  return copy({address_of(to), from, bytes}, kind, stream, call);
}

}  // namespace
}  // namespace reprieve::standin

using namespace reprieve::standin;
namespace simgpu = reprieve::simgpu;

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) { return allocate(out, bytes, false); }

cudaError_t cudaMallocManaged(void** out, std::size_t bytes, unsigned flags) {
  if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) return done(cudaErrorInvalidValue);
  return allocate(out, bytes, true);
}

cudaError_t cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  constexpr std::size_t alignment = 512;
  if (pitch == nullptr) return done(cudaErrorInvalidValue);
  *pitch = (width + alignment - 1) / alignment * alignment;
  return allocate(out, *pitch * height, false);
}

cudaError_t cudaFree(void* pointer) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.free(address_of(pointer)); });
}

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  constexpr unsigned accepted = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (out == nullptr || (flags & ~accepted) != 0) return done(cudaErrorInvalidValue);
  *out = nullptr;
  return on_device([&](simgpu::Machine& gpus, int device) {
    std::uint64_t address = 0;
    const simgpu::Code code = gpus.host_alloc(device, bytes, address);
    if (code == simgpu::Code::success) *out = pointer_to(address);
    return code;
  });
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes) { return cudaHostAlloc(out, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* pointer) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.host_free(address_of(pointer)); });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned accepted =
      cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  if (pointer == nullptr || bytes == 0 || (flags & ~accepted) != 0) return done(cudaErrorInvalidValue);
  return on_device(
      [&](simgpu::Machine& gpus, int device) { return gpus.host_register(device, address_of(pointer), bytes); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return on_device([&](simgpu::Machine& gpus, int) { return gpus.host_unregister(address_of(pointer)); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned flags) {
  if (out == nullptr || flags != 0) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int) {
    if (!known(gpus, address_of(pointer))) return cudaErrorInvalidValue;
    *out = pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  if (flags == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int) {
    PointerInfo info;
    if (!gpus.find_pointer(address_of(pointer), info) || info.kind != PointerKind::pinned) return cudaErrorInvalidValue;
    *flags = cudaHostAllocMapped;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  if (free_bytes == nullptr || total == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine& gpus, int device) {
    std::uint64_t now_free = 0;
    std::uint64_t now_total = 0;
    const simgpu::Code code = gpus.memory_info(device, now_free, now_total);
    if (code != simgpu::Code::success) return code;
    *free_bytes = now_free;
    *total = now_total;
    return code;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return without_context([&](simgpu::Machine& gpus) {
    *out = {};
    out->type = cudaMemoryTypeUnregistered;
    out->device = cudaInvalidDeviceId;
    out->hostPointer = const_cast<void*>(pointer);
    PointerInfo info;
    if (!find_memory(gpus, address_of(pointer), 1, info)) return cudaSuccess;
    const bool on_host = info.where == simgpu::Location::host;
    out->type = info.kind == PointerKind::managed ? cudaMemoryTypeManaged
                : on_host                         ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeDevice;
    out->device = info.device;
    out->devicePointer = info.access != 0 ? const_cast<void*>(pointer) : nullptr;
    // Memory that was mapped by handle is the device's to use, also where it is located in the host's.
    const bool host_may_use = (on_host && info.kind != PointerKind::mapped) || info.kind == PointerKind::managed;
    if (!host_may_use) out->hostPointer = nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy({address_of(to), address_of(from), bytes}, kind, nullptr, CopyCall::synchronous);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy({address_of(to), address_of(from), bytes}, kind, stream, CopyCall::queued);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, nullptr, CopyCall::synchronous);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, CopyCall::queued);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const cudaError_t asked = without_context([&](simgpu::Machine& gpus) {
    const auto exists = [&](int device) { return device >= 0 && device < gpus.device_count(); };
    return exists(to_device) && exists(from_device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
  return asked != cudaSuccess ? asked : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  const cudaError_t queued = cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
  return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(bytes_fill(to, value, bytes), nullptr, true);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(bytes_fill(to, value, bytes), stream, false);
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  if (height > 1 && width > pitch) return done(cudaErrorInvalidValue);
  simgpu::Fill rows = bytes_fill(to, value, width);
  rows.pitch = pitch;
  rows.rows = height;
  return fill(rows, stream, false);
}

cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine&, int device) {
    cudaError_t error = cudaSuccess;
    const std::uint64_t address = part_of_variable(symbol, 0, 0, device, error);
    if (error == cudaSuccess) *out = pointer_to(address);
    return error;
  });
}

cudaError_t cudaGetSymbolSize(std::size_t* out, const void* symbol) {
  if (out == nullptr) return done(cudaErrorInvalidValue);
  return on_device([&](simgpu::Machine&, int device) {
    std::uint64_t address = 0;
    return error_of(variable_address(symbol, device, address, *out));
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  return copy_to_variable(symbol, from, bytes, offset, kind, nullptr, CopyCall::synchronous);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to_variable(symbol, from, bytes, offset, kind, stream, CopyCall::queued);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_from_variable(to, symbol, bytes, offset, kind, nullptr, CopyCall::synchronous);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from_variable(to, symbol, bytes, offset, kind, stream, CopyCall::queued);
}

}  // extern "C"
