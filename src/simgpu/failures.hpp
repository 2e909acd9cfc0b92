// Which calls of the simulated driver fail on purpose, counted per kind of call. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "simgpu/codes.hpp"

namespace reprieve::simgpu {

// Every kind of driver call.
enum class Call : std::uint8_t {
  reserve,
  unreserve,
  create,
  release,
  map,
  set_access,
  unmap,
  memory_info,
  event_create,
  event_destroy,
  event_record,
  event_record_all,
  event_query,
  event_wait,
  stream_create,
  stream_destroy,
  stream_synchronize,
  stream_wait,
  is_capturing,
  copy,
  fill,
  launch,
  malloc,
  free,
  host_alloc,
  host_free,
  host_register,
  host_unregister,
  malloc_async,
  free_async,
  synchronize,
  stream_query,
  host_function,
  begin_capture,
  end_capture,
  graph_instantiate,
  graph_launch,
  ipc_export,
  ipc_import,
};
inline constexpr std::size_t call_kinds = static_cast<std::size_t>(Call::ipc_import) + 1;

const char* call_name(Call call);  // "reserve", "create", …
std::optional<Call> find_call(std::string_view name);

class Failures {
 public:
  // After `after` more calls of this kind, the next `times` fail with `code`. Rules for one kind work one after the
  // other, each counting from the end of the one before.
  void add(Call call, std::uint64_t after, std::uint64_t times, Code code) {
    if (times != 0) rules_[static_cast<std::size_t>(call)].push_back({after, times, code});
  }

  void clear() {
    for (auto& rules : rules_) rules.clear();
  }

  // How many failures are still to come.
  std::uint64_t pending() const {
    std::uint64_t sum = 0;
    for (const auto& rules : rules_) {
      for (const Rule& rule : rules) sum += rule.times;
    }
    return sum;
  }

  // The code with which this call fails; success where it does not.
  Code next(Call call) {
    auto& rules = rules_[static_cast<std::size_t>(call)];
    if (rules.empty()) return Code::success;
    Rule& rule = rules.front();
    if (rule.after != 0) {
      --rule.after;
      return Code::success;
    }
    const Code code = rule.code;
    if (--rule.times == 0) rules.pop_front();
    return code;
  }

 private:
  struct Rule {
    std::uint64_t after;
    std::uint64_t times;
    Code code;
  };

  std::array<std::deque<Rule>, call_kinds> rules_;
};

}  // namespace reprieve::simgpu
