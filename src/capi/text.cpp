#include "capi/text.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/options.hpp"

namespace reprieve::capi {
namespace {

struct LastError {
  std::string text;
  int driver = 0;
};
thread_local LastError last;

std::uint64_t unsigned_of(std::int64_t value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

std::string out_of_memory_text(memory::Allocator& allocator, std::uint64_t bytes) {
  const device::Properties& properties = allocator.device().properties();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = properties.total_bytes;
  [[maybe_unused]] const Status asked = allocator.device().memory_info(free_bytes, total_bytes);
  const memory::Stats stats = allocator.stats();
  const std::uint64_t reserved = unsigned_of(stats.reserved_bytes.current);
  const std::uint64_t allocated = unsigned_of(stats.metrics[memory::allocated_bytes].current);
  const std::uint64_t waiting = unsigned_of(stats.metrics[memory::active_bytes].current) - allocated;
  std::string text =
      fmt::format("CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free.",
                  format_bytes(bytes), properties.ordinal, format_bytes(total_bytes), format_bytes(free_bytes));
  if (allocator.limit() != 0) text += fmt::format(" The limit is {}.", format_bytes(allocator.limit()));
  text += fmt::format(
      " reprieve has reserved {}: {} allocated, {} freed but in use on other streams, {} free in pieces that do not "
      "fit.",
      format_bytes(reserved), format_bytes(allocated), format_bytes(waiting),
      format_bytes(reserved - allocated - waiting));
  return text;
}

}  // namespace

reprieve_status to_c(Errc code) {
  switch (code) {
    case Errc::ok: return REPRIEVE_OK;
    case Errc::out_of_memory: return REPRIEVE_ERROR_OUT_OF_MEMORY;
    case Errc::invalid_argument: return REPRIEVE_ERROR_INVALID_ARGUMENT;
    case Errc::not_supported: return REPRIEVE_ERROR_NOT_SUPPORTED;
    case Errc::device_error: return REPRIEVE_ERROR_DEVICE;
    case Errc::host_memory: return REPRIEVE_ERROR_HOST_MEMORY;
  }
  return REPRIEVE_ERROR_DEVICE;
}

const char* last_error() { return last.text.c_str(); }
int last_driver_error() { return last.driver; }

reprieve_status report(const Status& status, std::string text) {
  if (status.ok()) return REPRIEVE_OK;
  last.text = std::move(text);
  last.driver = status.driver;
  return to_c(status.code);
}

reprieve_status report(const Status& status, const memory::Allocator* allocator) {
  if (status.ok()) return REPRIEVE_OK;
  if (status.driver == 0 || allocator == nullptr) return report(status, std::string(status.what));
  return report(status, fmt::format("{}: {}", status.what, allocator->device().describe(status.driver)));
}

reprieve_status report_allocation(const Status& status, memory::Allocator& allocator, std::uint64_t bytes) {
  if (!status.is(Errc::out_of_memory)) return report(status, &allocator);
  return report(status, out_of_memory_text(allocator, bytes));
}

}  // namespace reprieve::capi
