#include "instruction.hpp"

#include <fmt/format.h>

namespace reprieve::fuzz {
namespace {

constexpr std::array<const char*, op_count> op_names = {"allocate",
                                                        "reallocate",
                                                        "free",
                                                        "free_on",
                                                        "free_again",
                                                        "free_interior",
                                                        "free_unknown",
                                                        "record_stream",
                                                        "write",
                                                        "read",
                                                        "order",
                                                        "advance",
                                                        "synchronize",
                                                        "synchronize_stream",
                                                        "hold",
                                                        "resume",
                                                        "fail",
                                                        "clear_failures",
                                                        "empty_cache",
                                                        "trim",
                                                        "set_limit",
                                                        "set_capacity",
                                                        "set_foreign_use",
                                                        "create_pool",
                                                        "destroy_pool",
                                                        "replay_graph",
                                                        "pin_backing",
                                                        "begin_capture",
                                                        "end_capture",
                                                        "destroy_stream",
                                                        "switch_thread",
                                                        "reset_peaks",
                                                        "reset_accumulated",
                                                        "check_stats",
                                                        "validate"};

}  // namespace

std::string as_code(const Setup& setup, const List& list, const std::string& comment) {
  std::string out = fmt::format("// {}\nTEST(FuzzRegressions, Name) {{\n  const Setup setup{{\n", comment);
  out += fmt::format("      .devices = {}, .device_bytes = {} * MiB, .chunk_max = {} * MiB, .growth_slack = {},\n",
                     setup.devices, setup.device_bytes / MiB, setup.chunk_max / MiB, setup.growth_slack);
  out += fmt::format("      .limit = {}, .headroom = {}, .wait_ms = {}, .context_events = {},\n", setup.limit,
                     setup.headroom, setup.wait_ms, setup.context_events);
  out += fmt::format("      .poison_fresh = {}, .settle_at_end = {}}};\n  expect_clean(setup, {{\n", setup.poison_fresh,
                     setup.settle_at_end);
  for (const Instruction& i : list) {
    out += fmt::format("      {{Op::{}, {}, {}, {}, {}}},\n", op_names[static_cast<std::size_t>(i.op)], i.slot,
                       i.stream, i.other, i.n);
  }
  return out + "  });\n}\n";
}

}  // namespace reprieve::fuzz
