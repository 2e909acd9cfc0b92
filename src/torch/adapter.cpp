#include "torch/adapter.hpp"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include "torch/gil.hpp"

namespace reprieve::torch_adapter {

namespace cda = c10::CachingDeviceAllocator;
using When = cda::RecordContext;
using Action = cda::TraceEntry;

static_assert(!std::is_abstract_v<Adapter>, "this torch has a pure virtual that the adapter lacks");

namespace {

// Where this torch has the member, ours must override it.
template <class Base, class Ours>
consteval bool overrides_all() {
  bool all = true;
  if constexpr (compat::has_rejection_observers<Base>) {
    all &= compat::same_signature(&Base::attachOomRejectionObserver, &Ours::attachOomRejectionObserver);
  }
  if constexpr (compat::has_context_for_pointer<Base>) {
    all &= compat::same_signature(&Base::getContextForPointer, &Ours::getContextForPointer);
  }
  if constexpr (compat::has_capture_marks<Base>) {
    all &= compat::same_signature(&Base::markCaptureBegin, &Ours::markCaptureBegin);
    all &= compat::same_signature(&Base::markCaptureEnd, &Ours::markCaptureEnd);
  }
  if constexpr (compat::has_metadata_support<Base>) {
    all &= compat::same_signature(&Base::supportsUserMetadata, &Ours::supportsUserMetadata);
  }
  return all;
}
static_assert(overrides_all<compat::cca::CUDAAllocator, Adapter>(), "this torch changed the signature of a member");

// What a request becomes; torch's profiler is told of blocks.
constexpr size_t block_bytes(size_t bytes) { return (bytes + 511) / 512 * 512; }

constexpr size_t one_exbibyte = size_t{1} << 60;

}  // namespace

void check(reprieve_status status, const char* what) {
  if (status == REPRIEVE_OK) return;
  const std::string text = reprieve_last_error();
  const int driver = reprieve_last_driver_error();
  // A CUDA error stays what it is: torch's check makes of it the exception that a program may look for.
  if (status == REPRIEVE_ERROR_DEVICE && driver != 0) C10_CUDA_CHECK(static_cast<cudaError_t>(driver));
  TORCH_CHECK(false, "reprieve: ", what, ": ", text.empty() ? reprieve_status_string(status) : text);
}

Adapter::Adapter() : fractions_(C10_COMPILE_TIME_MAX_GPUS), ooms_(C10_COMPILE_TIME_MAX_GPUS) {
  reprieve_hooks hooks{};
  hooks.size = sizeof hooks;
  hooks.user = this;
  hooks.collect = collect;
  hooks.segment = segment;
  hooks.deferred_free = [](void* user, int, void* ptr) {
    static_cast<Adapter*>(user)->history_.deferred_free_over(ptr);
  };
  hooks.wait_begin = [](void*) { return let_go_of_gil(); };
  hooks.wait_end = [](void*, void* token) { take_gil(token); };
  check(reprieve_set_hooks(&hooks), "setting hooks");
  for (auto& fraction : fractions_) fraction.store(1.0, std::memory_order_relaxed);
}

Adapter& Adapter::instance() {
  static auto* const adapter = new Adapter;
  return *adapter;
}

DeviceIndex Adapter::current_device() const {
  if (one_device_.load(std::memory_order_relaxed)) [[likely]]
    return 0;
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

void Adapter::watch() { watched_.store(pools_.routing() || history_.listening(), std::memory_order_relaxed); }

// ---- blocks ----

DataPtr Adapter::allocate(size_t bytes) {
  const DeviceIndex device = current_device();
  void* ptr = nullptr;
  if (bytes != 0) ptr = take(device, c10::cuda::getCurrentCUDAStream(device), bytes);
  return {ptr, ptr, &delete_block, c10::Device(c10::kCUDA, device)};
}

void* Adapter::raw_alloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  const DeviceIndex device = current_device();
  return take(device, c10::cuda::getCurrentCUDAStream(device), bytes);
}

void* Adapter::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  return bytes == 0 ? nullptr : take(current_device(), stream, bytes);
}

void* Adapter::take(DeviceIndex device, cudaStream_t stream, size_t bytes) {
  void* ptr = nullptr;
  if (watched_.load(std::memory_order_relaxed)) [[unlikely]] {
    ptr = take_watched(device, stream, bytes);
  } else {
    const reprieve_status status = reprieve_alloc(&ptr, bytes, device, stream);
    if (status != REPRIEVE_OK) [[unlikely]]
      ptr = take_failed(status, device, stream, bytes);
  }
  if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
  }
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report_to_profiler(ptr, static_cast<int64_t>(block_bytes(bytes)), device);
  return ptr;
}

void* Adapter::take_watched(DeviceIndex device, cudaStream_t stream, size_t bytes) {
  History::Context context = history_.gather(When::STATE);
  const reprieve_pool pool = pools_.route(device, stream);
  void* ptr = nullptr;
  const reprieve_status status = reprieve_alloc_in_pool(&ptr, bytes, device, stream, pool);
  if (status != REPRIEVE_OK) ptr = take_failed(status, device, stream, bytes);
  if (history_.listening()) {
    history_.record(Action::ALLOC, device, reinterpret_cast<size_t>(ptr), bytes, stream, pools_.id_of(device, pool),
                    context);
    history_.remember(ptr, std::move(context));
  }
  return ptr;
}

// What is left to try, then the error.
void* Adapter::take_failed(reprieve_status status, DeviceIndex device, cudaStream_t stream, size_t bytes) {
  if (status != REPRIEVE_ERROR_OUT_OF_MEMORY) check(status, "allocation");
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < one_exbibyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  void* ptr = nullptr;
  for (const reprieve_pool pool : pools_.for_oom(device)) {
    if (reprieve_alloc_in_pool(&ptr, bytes, device, stream, pool) == REPRIEVE_OK) return ptr;
  }
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0;
  size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  reprieve_stats stats{};
  stats.size = sizeof stats;
  check(reprieve_get_stats(device, &stats), "statistics");
  ooms_.at(static_cast<size_t>(device)).fetch_add(1, std::memory_order_relaxed);
  history_.record(Action::OOM, device, free, bytes, stream, {0, 0}, history_.gather(When::ALLOC));
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), static_cast<size_t>(stats.allocated_bytes.current),
                                   static_cast<size_t>(stats.reserved_bytes.current), c10::Device(c10::kCUDA, device));
  size_t limit = 0;
  check(reprieve_get_limit(device, &limit), "the limit");
  observers_.tell(device, bytes, limit != 0 ? limit : total, free);
  throw_out_of_memory(device, bytes, free, total);
}

void Adapter::raw_delete(void* ptr) {
  if (ptr == nullptr) return;
  reprieve_block_info block{};
  block.size = sizeof block;
  const reprieve_status status = reprieve_get_block_info(ptr, &block, nullptr);
  TORCH_CHECK(status != REPRIEVE_ERROR_INVALID_ARGUMENT && (status != REPRIEVE_OK || block.address == ptr),
              "invalid device pointer: ", ptr);
  delete_block(ptr);
}

void Adapter::delete_block(void* ptr) {
  if (ptr == nullptr) return;
  Adapter& self = instance();
  if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
  }
  if (self.watched_.load(std::memory_order_relaxed) || c10::memoryProfilingEnabled()) [[unlikely]] {
    give_watched(ptr);
    return;
  }
  const reprieve_status status = reprieve_dealloc(ptr);
  // Called from destructors: what cannot be freed is told, and no exception thrown. After fork there is nothing to free.
  if (status != REPRIEVE_OK && status != REPRIEVE_ERROR_NOT_SUPPORTED) [[unlikely]]
    TORCH_WARN("reprieve: free: ", reprieve_last_error());
}

void Adapter::give_watched(void* ptr) {
  Adapter& self = instance();
  reprieve_block_info block{};
  block.size = sizeof block;
  reprieve_segment_info segment{};
  segment.size = sizeof segment;
  if (reprieve_get_block_info(ptr, &block, &segment) == REPRIEVE_OK && self.history_.listening()) {
    self.history_.record_free(ptr, segment.device, block.requested, segment.stream,
                              self.pools_.id_of(segment.device, segment.pool), self.history_.gather(When::ALL),
                              block.other_streams != 0);
  }
  const reprieve_status status = reprieve_dealloc(ptr);
  if (status != REPRIEVE_OK && status != REPRIEVE_ERROR_NOT_SUPPORTED) {
    TORCH_WARN("reprieve: free: ", reprieve_last_error());
  } else if (c10::memoryProfilingEnabled()) {
    report_to_profiler(ptr, -static_cast<int64_t>(block.bytes), static_cast<DeviceIndex>(segment.device));
  }
}

void Adapter::report_to_profiler(void* ptr, int64_t bytes, DeviceIndex device) {
  reprieve_stats stats{};
  stats.size = sizeof stats;
  if (reprieve_get_stats(device, &stats) != REPRIEVE_OK) return;
  c10::reportMemoryUsageToProfiler(ptr, bytes, static_cast<size_t>(stats.allocated_bytes.current),
                                   static_cast<size_t>(stats.reserved_bytes.current), c10::Device(c10::kCUDA, device));
}

void Adapter::recordStream(const DataPtr& data, CUDAStream stream) {
  // Memory of another process' or of a user's own is not ours to wait for.
  if (data.get() == nullptr || data.get_deleter() != &delete_block) return;
  check(reprieve_record_stream(data.get(), stream.stream()), "record_stream");
}

void Adapter::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

cudaError_t Adapter::memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                 cudaStream_t stream, bool p2p_enabled) {
  // A plain copy between devices needs mapped memory to be accessible from both.
  if (p2p_enabled || to_device == from_device) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

// ---- the library's hooks ----

void Adapter::collect(void*, int) {
  for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
}

void Adapter::segment(void* user, int device, int backed, void* address, size_t bytes, reprieve_stream stream,
                      reprieve_pool pool) {
  auto& self = *static_cast<Adapter*>(user);
  if (!self.history_.listening()) return;
  self.history_.record(backed != 0 ? Action::SEGMENT_MAP : Action::SEGMENT_UNMAP, device,
                       reinterpret_cast<size_t>(address), bytes, stream, self.pools_.id_of(device, pool), nullptr);
}

}  // namespace reprieve::torch_adapter
