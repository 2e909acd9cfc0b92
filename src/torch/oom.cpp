#include "torch/oom.hpp"

#include <c10/util/Exception.h>

#include <array>
#include <cstdio>

namespace reprieve::torch_adapter {

void OomObservers::add(Observer observer) {
  const std::scoped_lock lock(mutex_);
  observers_.push_back(std::move(observer));
}

void OomObservers::tell(int64_t device, size_t wanted, size_t total, size_t free) const {
  std::vector<Observer> all;
  {
    const std::scoped_lock lock(mutex_);
    all = observers_;
  }
  for (const Observer& observer : all) observer(device, wanted, total, free);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 3> units = {"KiB", "MiB", "GiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, units[unit]);
  return text.data();
}

void throw_out_of_memory(int device, size_t wanted, size_t free, size_t total) {
  const std::string reason = reprieve_last_error();
  reprieve_stats stats{};
  stats.size = sizeof stats;
  size_t limit = 0;
  std::string held;
  if (reprieve_get_stats(device, &stats) == REPRIEVE_OK && reprieve_get_limit(device, &limit) == REPRIEVE_OK) {
    const auto bytes = [](std::int64_t value) { return format_size(static_cast<std::uint64_t>(value)); };
    held = " reprieve holds " + bytes(stats.reserved_bytes.current) + ", of which " +
           bytes(stats.allocated_bytes.current) + " are in live blocks (" + bytes(stats.requested_bytes.current) +
           " as asked for)" + (limit == 0 ? "." : "; its limit is " + format_size(limit) + ".");
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", format_size(wanted), ". GPU ",
                   device, " has a total capacity of ", format_size(total), " of which ", format_size(free),
                   " is free.", held, " (", reason, ")");
}

}  // namespace reprieve::torch_adapter
