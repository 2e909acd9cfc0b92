// The C interface, function by function: arguments are looked at here, everything else is the layers' below.
#include <algorithm>
#include <cstring>
#include <new>

#include "capi/runtime.hpp"
#include "capi/text.hpp"
#include "reprieve/reprieve.h"

#define REPRIEVE_TEXT(x) #x
#define REPRIEVE_TEXT_OF(x) REPRIEVE_TEXT(x)

namespace reprieve::capi {
namespace {

device::Stream to_stream(reprieve_stream stream) { return device::Stream{reinterpret_cast<std::uintptr_t>(stream)}; }

reprieve_status invalid(std::string text) {
  return report(failure(Errc::invalid_argument, "invalid argument"), std::move(text));
}

// Runs body(Runtime&) on the running library.
template <typename F>
reprieve_status with_runtime(F&& body) {
  Status status;
  std::string reason;
  Runtime* const runtime = Runtime::get(status, reason);
  if (runtime == nullptr) return report(status, std::move(reason));
  try {
    return body(*runtime);
  } catch (const std::bad_alloc&) {
    return report(failure(Errc::host_memory, "no host memory"), std::string("no host memory"));
  }
}

// Runs body(Allocator&) on a device's.
template <typename F>
reprieve_status with_device(int device, F&& body) {
  return with_runtime([&](Runtime& runtime) {
    Status status;
    std::string reason;
    memory::Allocator* const allocator = runtime.allocator(device, status, reason);
    if (allocator == nullptr) return report(status, std::move(reason));
    return body(*allocator);
  });
}

// The same on every device in use for -1; the first failure is returned, all are tried.
template <typename F>
reprieve_status with_devices(int device, F&& body) {
  if (device != -1) return with_device(device, std::forward<F>(body));
  return with_runtime([&](Runtime& runtime) {
    reprieve_status first = REPRIEVE_OK;
    for (int i = 0; i < Runtime::max_devices; ++i) {
      memory::Allocator* const allocator = runtime.if_open(i);
      if (allocator == nullptr) continue;
      const reprieve_status status = body(*allocator);
      if (first == REPRIEVE_OK) first = status;
    }
    return first;
  });
}

// Runs body(AddressMap&) for a live block.
template <typename F>
reprieve_status with_block(void* ptr, F&& body) {
  Runtime* runtime = Runtime::if_started();
  if (runtime == nullptr) {
    Status status;
    std::string reason;
    runtime = Runtime::get(status, reason);
    if (runtime == nullptr) return report(status, std::move(reason));
  }
  const Status status = body(runtime->addresses());
  if (status.ok()) [[likely]]
    return REPRIEVE_OK;
  return report(status, fmt::format("{:#x}: {}", reinterpret_cast<std::uintptr_t>(ptr), status.what));
}

// The one path that is taken millions of times: past it, everything is looked at again at leisure.
[[gnu::always_inline]] inline reprieve_status allocate(void** out, size_t bytes, int device, reprieve_stream stream,
                                                       reprieve_pool pool) {
  if (out == nullptr) return invalid("nowhere to put the block's address");
  Runtime* const runtime = Runtime::if_started();
  if (runtime != nullptr && static_cast<unsigned>(device) < Runtime::max_devices) [[likely]] {
    if (memory::Allocator* const allocator = runtime->if_open(device); allocator != nullptr) [[likely]] {
      const Status status = allocator->allocate(to_stream(stream), pool, bytes, out);
      if (status.ok()) [[likely]]
        return REPRIEVE_OK;
      return report_allocation(status, *allocator, bytes);
    }
  }
  return with_device(device, [&](memory::Allocator& allocator) {
    return report_allocation(allocator.allocate(to_stream(stream), pool, bytes, out), allocator, bytes);
  });
}

// Fills a structure of the caller's, which may know fewer fields than this library.
template <typename T>
bool fill(T* out, T& filled) {
  if (out == nullptr || out->size < sizeof(size_t) || out->size > sizeof(T)) return false;
  filled.size = out->size;
  std::memcpy(out, &filled, out->size);
  return true;
}
constexpr const char* bad_structure = "the structure's size is not that of a version up to this library's";

reprieve_segment_info to_c(const memory::SegmentView& segment, int device) {
  reprieve_segment_info info{};
  info.size = sizeof info;
  info.address = reinterpret_cast<void*>(segment.address);
  info.bytes = segment.bytes;
  info.device = device;
  info.stream = reinterpret_cast<reprieve_stream>(static_cast<std::uintptr_t>(segment.stream.stream));
  info.pool = segment.pool;
  info.large = segment.kind == memory::Arena::Kind::large ? 1 : 0;
  info.blocks = segment.blocks;
  return info;
}

reprieve_block_info to_c(const memory::BlockView& block) {
  reprieve_block_info info{};
  info.size = sizeof info;
  info.address = reinterpret_cast<void*>(block.address);
  info.bytes = block.bytes;
  info.requested = block.requested;
  info.state = block.state == memory::RangeState::live       ? REPRIEVE_BLOCK_LIVE
               : block.state == memory::RangeState::deferred ? REPRIEVE_BLOCK_DEFERRED
                                                             : REPRIEVE_BLOCK_FREE;
  info.other_streams = block.other_streams;
  return info;
}

reprieve_counter to_c(const memory::Counter& counter) {
  return {counter.current, counter.peak, counter.allocated, counter.freed};
}

// The counters that reprieve_stats and reprieve_kind_stats both have.
template <typename T>
void fill_totals(T& out, const memory::Totals& totals) {
  out.requested_bytes = to_c(totals.metrics[memory::requested_bytes]);
  out.allocated_bytes = to_c(totals.metrics[memory::allocated_bytes]);
  out.active_bytes = to_c(totals.metrics[memory::active_bytes]);
  out.inactive_split_bytes = to_c(totals.metrics[memory::inactive_split_bytes]);
  out.reserved_bytes = to_c(totals.reserved_bytes);
  out.allocations = to_c(totals.metrics[memory::allocations]);
  out.active_blocks = to_c(totals.metrics[memory::active_blocks]);
  out.inactive_split_blocks = to_c(totals.metrics[memory::inactive_split_blocks]);
  out.segments = to_c(totals.segments);
}

}  // namespace
}  // namespace reprieve::capi

using namespace reprieve;        // NOLINT(google-build-using-namespace): this file is the interface of that namespace
using namespace reprieve::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* reprieve_version(void) {
  return REPRIEVE_TEXT_OF(REPRIEVE_VERSION_MAJOR) "." REPRIEVE_TEXT_OF(REPRIEVE_VERSION_MINOR) "." REPRIEVE_TEXT_OF(
      REPRIEVE_VERSION_PATCH);
}

const char* reprieve_status_string(reprieve_status status) {
  switch (status) {
    case REPRIEVE_OK: return "success";
    case REPRIEVE_ERROR_OUT_OF_MEMORY: return "out of memory";
    case REPRIEVE_ERROR_INVALID_ARGUMENT: return "invalid argument";
    case REPRIEVE_ERROR_DEVICE: return "device error";
    case REPRIEVE_ERROR_NOT_SUPPORTED: return "not supported";
    case REPRIEVE_ERROR_HOST_MEMORY: return "out of host memory";
  }
  return "unknown status";
}

const char* reprieve_last_error(void) { return last_error(); }
int reprieve_last_driver_error(void) { return last_driver_error(); }

int reprieve_is_started(void) { return Runtime::if_started() != nullptr ? 1 : 0; }

reprieve_status reprieve_init(void) {
  return with_runtime([](Runtime&) { return REPRIEVE_OK; });
}

reprieve_status reprieve_shutdown(void) {
  std::string reason;
  const Status status = Runtime::shutdown(reason);
  return report(status, std::move(reason));
}

reprieve_status reprieve_set_option(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return invalid("an option needs a name and a value");
  std::string reason;
  const Status status = Runtime::set_option(name, value, reason);
  return report(status, std::move(reason));
}

reprieve_status reprieve_get_option_info(size_t index, reprieve_option_info* out) {
  const auto& texts = option_texts();
  if (index >= texts.size()) return invalid(fmt::format("option {}: there are {}", index, texts.size()));
  const OptionText& text = texts[index];
  reprieve_option_info info{};
  info.name = text.name.c_str();
  info.environment = text.environment.c_str();
  info.type = text.type.c_str();
  info.default_value = text.default_value.c_str();
  info.accepted = text.accepted.c_str();
  info.text = text.text.c_str();
  return fill(out, info) ? REPRIEVE_OK : invalid(bad_structure);
}

reprieve_status reprieve_device_count(int* out) {
  if (out == nullptr) return invalid("nowhere to put the count");
  return with_runtime([&](Runtime& runtime) {
    *out = runtime.device_count();
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_alloc_in_pool(void** out, size_t bytes, int device, reprieve_stream stream,
                                       reprieve_pool pool) {
  return allocate(out, bytes, device, stream, pool);
}

reprieve_status reprieve_alloc(void** out, size_t bytes, int device, reprieve_stream stream) {
  return allocate(out, bytes, device, stream, 0);
}

reprieve_status reprieve_enable_peer_access(int device, int peer) {
  return with_device(device, [&](memory::Allocator& allocator) {
    return with_device(peer, [&](memory::Allocator&) { return report(allocator.add_peer(peer), &allocator); });
  });
}

reprieve_status reprieve_alloc_at(void* ptr, size_t bytes, int device, reprieve_stream stream, reprieve_pool pool) {
  return with_device(device, [&](memory::Allocator& allocator) {
    const Status status = allocator.allocate_at(to_stream(stream), pool, ptr, bytes);
    return report(status, fmt::format("{} bytes at {:#x} of pool {}: {}", bytes, reinterpret_cast<std::uintptr_t>(ptr),
                                      pool, status.what));
  });
}

reprieve_status reprieve_dealloc(void* ptr) {
  if (ptr == nullptr) return REPRIEVE_OK;
  return with_block(ptr, [&](memory::AddressMap& addresses) { return memory::Allocator::free(addresses, ptr); });
}

reprieve_status reprieve_dealloc_on(void* ptr, reprieve_stream stream) {
  if (ptr == nullptr) return REPRIEVE_OK;
  return with_block(ptr, [&](memory::AddressMap& addresses) {
    return memory::Allocator::free_on(addresses, ptr, to_stream(stream));
  });
}

reprieve_status reprieve_record_stream(void* ptr, reprieve_stream stream) {
  return with_block(ptr, [&](memory::AddressMap& addresses) {
    return memory::Allocator::record_stream(addresses, ptr, to_stream(stream));
  });
}

reprieve_status reprieve_pin_backing(void* ptr) {
  return with_block(ptr, [&](memory::AddressMap& addresses) { return memory::Allocator::pin_backing(addresses, ptr); });
}

reprieve_status reprieve_pool_create(int device, unsigned flags, reprieve_pool* out) {
  if (out == nullptr) return invalid("nowhere to put the pool");
  if ((flags & ~static_cast<unsigned>(REPRIEVE_POOL_GRAPH)) != 0) {
    return invalid(fmt::format("flags {:#x}: 0 or REPRIEVE_POOL_GRAPH", flags));
  }
  return with_device(device, [&](memory::Allocator& allocator) {
    return report(allocator.create_pool((flags & REPRIEVE_POOL_GRAPH) != 0, *out), &allocator);
  });
}

reprieve_status reprieve_pool_destroy(int device, reprieve_pool pool) {
  return with_device(device, [&](memory::Allocator& allocator) {
    return report(allocator.destroy_pool(pool), fmt::format("pool {}: there is none of this number", pool));
  });
}

reprieve_status reprieve_capture_begin(int device) {
  return with_device(device, [](memory::Allocator& allocator) {
    allocator.capture_began();
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_capture_end(int device) {
  return with_device(device, [](memory::Allocator& allocator) {
    return allocator.capture_ended() ? REPRIEVE_OK : invalid("the end of a capture that never began");
  });
}

reprieve_status reprieve_empty_cache(int device) { return reprieve_trim(device, 0); }

reprieve_status reprieve_trim(int device, size_t keep_bytes) {
  return with_devices(device,
                      [&](memory::Allocator& allocator) { return report(allocator.trim(keep_bytes), &allocator); });
}

reprieve_status reprieve_set_limit(int device, size_t bytes) {
  return with_devices(device, [&](memory::Allocator& allocator) {
    allocator.set_limit(bytes);
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_get_limit(int device, size_t* out) {
  if (out == nullptr) return invalid("nowhere to put the limit");
  return with_device(device, [&](memory::Allocator& allocator) {
    *out = allocator.limit();
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_get_stats(int device, reprieve_stats* out) {
  return with_runtime([&](Runtime& runtime) {
    return with_device(device, [&](memory::Allocator& allocator) {
      const memory::Stats stats = allocator.stats();
      const device::CallStats calls = allocator.device().call_stats();
      reprieve_stats filled{};
      fill_totals(filled, stats);
      fill_totals(filled.small, stats.kinds[static_cast<std::size_t>(memory::BlockKind::small)]);
      fill_totals(filled.large, stats.kinds[static_cast<std::size_t>(memory::BlockKind::large)]);
      filled.alloc_retries = stats.alloc_retries;
      filled.ooms = stats.ooms;
      // A pointer in nobody's addresses belongs to no device; it is shown on each.
      filled.invalid_frees = stats.invalid_frees + runtime.addresses().strays.load(std::memory_order_relaxed);
      filled.harvested_chunks = stats.harvested_chunks;
      filled.harvested_bytes = stats.harvested_bytes;
      filled.limbo_bytes = stats.limbo_bytes;
      filled.address_space_bytes = stats.address_space_bytes;
      static_assert(REPRIEVE_CALL_KINDS == device::call_kinds);
      for (std::size_t i = 0; i < device::call_kinds; ++i) {
        filled.driver_calls[i] = static_cast<int64_t>(calls.count[i]);
      }
      filled.driver_ns = static_cast<int64_t>(calls.driver_ns);
      filled.driver_wall_ns = static_cast<int64_t>(calls.wall_ns);
      return fill(out, filled) ? REPRIEVE_OK : invalid(bad_structure);
    });
  });
}

reprieve_status reprieve_reset_peak_stats(int device) {
  return with_devices(device, [](memory::Allocator& allocator) {
    allocator.reset_peaks();
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_reset_accumulated_stats(int device) {
  return with_devices(device, [](memory::Allocator& allocator) {
    allocator.reset_accumulated();
    return REPRIEVE_OK;
  });
}

const char* reprieve_call_name(int kind) {
  return kind >= 0 && kind < REPRIEVE_CALL_KINDS ? device::call_name(static_cast<device::Call>(kind)) : nullptr;
}

reprieve_status reprieve_visit(int device, const reprieve_visitor* visitor) {
  if (visitor == nullptr || visitor->size < sizeof(reprieve_visitor)) return invalid(bad_structure);
  if (visitor->segment == nullptr || visitor->block == nullptr) return invalid("a visitor needs both functions");
  struct Forward final : memory::Visitor {
    Forward(const reprieve_visitor& to, int on) : target(to), ordinal(on) {}
    void segment(const memory::SegmentView& segment) override {
      const reprieve_segment_info info = to_c(segment, ordinal);
      target.segment(target.user, &info);
    }
    void block(const memory::BlockView& block) override {
      const reprieve_block_info info = to_c(block);
      target.block(target.user, &info);
    }

    const reprieve_visitor& target;
    const int ordinal;
  };
  return with_device(device, [&](memory::Allocator& allocator) {
    Forward forward(*visitor, device);
    allocator.visit(forward);
    return REPRIEVE_OK;
  });
}

reprieve_status reprieve_get_block_info(void* ptr, reprieve_block_info* block, reprieve_segment_info* segment) {
  return with_block(ptr, [&](memory::AddressMap& addresses) {
    memory::BlockPlace place;
    if (const Status status = memory::Allocator::locate(addresses, ptr, place); !status.ok()) return status;
    reprieve_block_info block_info = to_c(place.block);
    reprieve_segment_info segment_info = to_c(place.segment, place.device);
    const bool filled = fill(block, block_info) && (segment == nullptr || fill(segment, segment_info));
    return filled ? success() : failure(Errc::invalid_argument, bad_structure);
  });
}

reprieve_status reprieve_set_hooks(const reprieve_hooks* hooks) {
  if (hooks != nullptr && hooks->size < sizeof(reprieve_hooks)) return invalid(bad_structure);
  if (Runtime::forked()) return with_runtime([](Runtime&) { return REPRIEVE_OK; });
  if (hooks != nullptr && (hooks->wait_begin == nullptr) != (hooks->wait_end == nullptr)) {
    return invalid("wait_begin and wait_end come together");
  }
  Runtime::set_hooks(hooks);
  return REPRIEVE_OK;
}

reprieve_status reprieve_validate(int device) {
  return with_devices(device, [](memory::Allocator& allocator) {
    std::string difference = allocator.validate();
    if (difference.empty()) return REPRIEVE_OK;
    return report(failure(Errc::device_error, "inconsistent records"), std::move(difference));
  });
}

reprieve_status reprieve_stream_create(int device, reprieve_stream* out) {
  if (out == nullptr) return invalid("nowhere to put the stream");
  return with_device(device, [&](memory::Allocator& allocator) {
    device::Stream stream{};
    const Status status = allocator.device().stream_create(stream);
    if (status.ok()) *out = reinterpret_cast<reprieve_stream>(static_cast<std::uintptr_t>(stream));
    return report(status, &allocator);
  });
}

reprieve_status reprieve_forget_stream(int device, reprieve_stream stream) {
  return with_device(device, [&](memory::Allocator& allocator) {
    return report(allocator.forget_stream(to_stream(stream)), &allocator);
  });
}

reprieve_status reprieve_stream_destroy(int device, reprieve_stream stream) {
  return with_device(device, [&](memory::Allocator& allocator) {
    const Status forgotten = allocator.forget_stream(to_stream(stream));
    if (!forgotten.ok()) return report(forgotten, &allocator);
    return report(allocator.device().stream_destroy(to_stream(stream)), &allocator);
  });
}

reprieve_status reprieve_stream_synchronize(int device, reprieve_stream stream) {
  return with_device(device, [&](memory::Allocator& allocator) {
    return report(allocator.device().stream_synchronize(to_stream(stream)), &allocator);
  });
}

}  // extern "C"
