#include "fake_library.hpp"

#include <algorithm>

namespace fake {
namespace {

std::string name(reprieve_stream stream) { return std::to_string(reinterpret_cast<std::uintptr_t>(stream)); }

reprieve_status fail(reprieve_status status, std::string text) {
  library().error = std::move(text);
  return status;
}

// Notes the call; a device error where the test asked for one.
reprieve_status enter(const std::string& call, const std::string& arguments = "") {
  Library& lib = library();
  lib.log.push_back(arguments.empty() ? call : call + " " + arguments);
  return call == lib.failing_call ? fail(REPRIEVE_ERROR_DEVICE, "the driver said no") : REPRIEVE_OK;
}

void reserve(std::uint64_t bytes) {
  Library& lib = library();
  const std::uint64_t old = lib.reserved_bytes;
  lib.reserved_bytes = bytes;
  lib.peak_reserved_bytes = std::max(lib.peak_reserved_bytes, bytes);
  const auto grown = static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(old);
  const std::int64_t changed_pages = grown / static_cast<std::int64_t>(Library::page_bytes);
  const std::int64_t calls = changed_pages < 0 ? -changed_pages : changed_pages;
  lib.stats.driver_calls[changed_pages < 0 ? Library::release_kind : Library::create_kind] += calls;
  lib.stats.driver_ns += calls * Library::page_driver_ns;
}

reprieve_status free_block(void* ptr) {
  Library& lib = library();
  if (ptr == nullptr) return REPRIEVE_OK;
  const auto block = lib.live.find(ptr);
  if (block == lib.live.end()) return fail(REPRIEVE_ERROR_INVALID_ARGUMENT, "no live block begins there");
  lib.live_bytes -= block->second;
  lib.live.erase(block);
  return REPRIEVE_OK;
}

}  // namespace

Library& library() {
  static Library instance;
  return instance;
}

void reset() { library() = {}; }

}  // namespace fake

using fake::library;
using fake::Library;

const char* reprieve_status_string(reprieve_status) { return "a status"; }
const char* reprieve_last_error() { return library().error.c_str(); }

reprieve_status reprieve_init() {
  const reprieve_status status = fake::enter("init");
  if (status != REPRIEVE_OK) return status;
  library().started = true;
  ++library().starts;
  return REPRIEVE_OK;
}

reprieve_status reprieve_shutdown() {
  Library& lib = library();
  const reprieve_status status = fake::enter("shutdown");
  if (!lib.live.empty()) return fake::fail(REPRIEVE_ERROR_INVALID_ARGUMENT, "blocks are live");
  lib.started = false;
  lib.options.clear();
  lib.reserved_bytes = lib.peak_reserved_bytes = 0;
  lib.stats = {};
  return status;
}

reprieve_status reprieve_set_option(const char* name, const char* value) {
  Library& lib = library();
  if (lib.started) return fake::fail(REPRIEVE_ERROR_INVALID_ARGUMENT, "the library has started");
  if (std::string(value) == "13")
    return fake::fail(REPRIEVE_ERROR_INVALID_ARGUMENT, std::string(name) + ": 13 is not accepted");
  lib.options[name] = value;
  return fake::enter("set_option", std::string(name) + "=" + value);
}

reprieve_status reprieve_alloc_in_pool(void** out, size_t bytes, int, reprieve_stream stream, reprieve_pool pool) {
  Library& lib = library();
  const std::string from = pool == 0 ? "" : " from pool " + std::to_string(pool);
  if (const reprieve_status status = fake::enter("alloc", std::to_string(bytes) + " " + fake::name(stream) + from);
      status != REPRIEVE_OK) {
    return status;
  }
  if (bytes == 0) {
    *out = nullptr;
    return REPRIEVE_OK;
  }
  const bool shrunk =
      lib.shrinks_after_starts != 0 && static_cast<std::uint64_t>(lib.starts) >= lib.shrinks_after_starts;
  const std::uint64_t pages =
      (lib.live_bytes + bytes + Library::page_bytes - 1) / Library::page_bytes + lib.overhead_pages + (shrunk ? 1 : 0);
  const std::uint64_t limit = std::stoull(lib.options["limit"]);
  const std::uint64_t most = limit == 0 ? lib.memory_bytes : std::min(limit, lib.memory_bytes);
  if (pages * Library::page_bytes > most) {
    *out = reinterpret_cast<void*>(std::uintptr_t{0xbad});
    return fake::fail(REPRIEVE_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  fake::reserve(std::max(lib.reserved_bytes, pages * Library::page_bytes));
  lib.live_bytes += bytes;
  *out = reinterpret_cast<void*>(lib.next_address);
  lib.next_address += bytes;
  lib.live.emplace(*out, bytes);
  return REPRIEVE_OK;
}

reprieve_status reprieve_dealloc(void* ptr) {
  const reprieve_status status = fake::enter("dealloc");
  return status == REPRIEVE_OK ? fake::free_block(ptr) : status;
}

reprieve_status reprieve_dealloc_on(void* ptr, reprieve_stream stream) {
  const reprieve_status status = fake::enter("dealloc_on", fake::name(stream));
  return status == REPRIEVE_OK ? fake::free_block(ptr) : status;
}

reprieve_status reprieve_record_stream(void* ptr, reprieve_stream stream) {
  if (!library().live.contains(ptr)) return fake::fail(REPRIEVE_ERROR_INVALID_ARGUMENT, "no live block begins there");
  return fake::enter("record_stream", fake::name(stream));
}

reprieve_status reprieve_empty_cache(int) {
  const reprieve_status status = fake::enter("empty_cache");
  if (status == REPRIEVE_OK) fake::reserve(0);
  return status;
}

reprieve_status reprieve_get_stats(int, reprieve_stats* out) {
  Library& lib = library();
  const size_t size = out->size;
  *out = lib.stats;
  out->size = size;
  out->reserved_bytes.current = static_cast<int64_t>(lib.reserved_bytes);
  out->reserved_bytes.peak = static_cast<int64_t>(lib.peak_reserved_bytes);
  return REPRIEVE_OK;
}

reprieve_status reprieve_validate(int) { return fake::enter("validate"); }

reprieve_status reprieve_stream_create(int, reprieve_stream* out) {
  *out = reinterpret_cast<reprieve_stream>(library().next_stream++);
  return fake::enter("stream_create", fake::name(*out));
}

reprieve_status reprieve_stream_destroy(int, reprieve_stream stream) {
  return fake::enter("stream_destroy", fake::name(stream));
}

reprieve_status reprieve_stream_synchronize(int, reprieve_stream stream) {
  return fake::enter("stream_synchronize", fake::name(stream));
}

reprieve_status reprieve_pool_create(int, unsigned flags, reprieve_pool* out) {
  *out = ++library().pools;
  return fake::enter("pool_create", std::to_string(flags));
}

reprieve_status reprieve_pool_destroy(int, reprieve_pool pool) {
  return fake::enter("pool_destroy", std::to_string(pool));
}
