#include "simgpu/failures.hpp"

#include <algorithm>

namespace reprieve::simgpu {
namespace {

constexpr std::array<const char*, call_kinds> names = {
    "reserve",
    "unreserve",
    "create",
    "release",
    "map",
    "set_access",
    "unmap",
    "memory_info",
    "event_create",
    "event_destroy",
    "event_record",
    "event_record_all",
    "event_query",
    "event_wait",
    "stream_create",
    "stream_destroy",
    "stream_synchronize",
    "stream_wait",
    "is_capturing",
    "copy",
    "fill",
    "launch",
    "malloc",
    "free",
    "host_alloc",
    "host_free",
    "host_register",
    "host_unregister",
    "malloc_async",
    "free_async",
    "synchronize",
    "stream_query",
    "host_function",
    "begin_capture",
    "end_capture",
    "graph_instantiate",
    "graph_launch",
    "ipc_export",
    "ipc_import",
};

}  // namespace

const char* call_name(Call call) { return names[static_cast<std::size_t>(call)]; }

std::optional<Call> find_call(std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Call>(found - names.begin());
}

}  // namespace reprieve::simgpu
