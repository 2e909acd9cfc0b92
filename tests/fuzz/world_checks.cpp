// Comparing what the allocators say of themselves with the shadow and with the machine.
#include <fmt/format.h>

#include "world.hpp"

namespace reprieve::fuzz {

void World::check_total(const char* name, const memory::Counter& counter, const Total& total) {
  if (counter.current != total.current) {
    fail("stats current", fmt::format("{}: {}, in truth {}", name, counter.current, total.current));
  }
  if (counter.peak != total.peak) {
    fail("stats peak", fmt::format("peak of {}: {}, in truth {}", name, counter.peak, total.peak));
  }
  if (counter.allocated != total.allocated || counter.freed != total.freed) {
    fail("stats sums", fmt::format("{}: {} allocated and {} freed, in truth {} and {}", name, counter.allocated,
                                   counter.freed, total.allocated, total.freed));
  }
}

void World::check_totals(OneDevice& on) {
  const memory::Stats stats = on.allocator->stats();
  DeviceShadow& shadow = on.shadow;
  check_total("requested bytes", stats.metrics[memory::requested_bytes], shadow.requested);
  check_total("allocated bytes", stats.metrics[memory::allocated_bytes], shadow.allocated);
  check_total("allocations", stats.metrics[memory::allocations], shadow.allocations);
  const auto reserved = static_cast<std::int64_t>(machine_.used_bytes(on.device->properties().ordinal));
  if (stats.reserved_bytes.current != reserved) {
    fail("stats reserved",
         fmt::format("{} bytes reserved, the device says {}", stats.reserved_bytes.current, reserved));
  }
  const std::int64_t active = stats.metrics[memory::active_bytes].current;
  if (active < shadow.allocated.current || active > reserved) {
    fail("stats active",
         fmt::format("{} bytes active, {} allocated, {} reserved", active, shadow.allocated.current, reserved));
  }
  if (stats.reserved_bytes.peak < std::max(shadow.reserved_peak, reserved)) {
    fail("stats reserved", "the peak of reserved memory is below what was reserved");
  }
  shadow.reserved_peak = stats.reserved_bytes.peak;
  if (shadow.most_allowed != 0 && static_cast<std::uint64_t>(shadow.reserved_peak) > shadow.most_allowed) {
    fail("limit", fmt::format("{} bytes were reserved, the limit was {}", shadow.reserved_peak, shadow.most_allowed));
  }
  if (stats.ooms != shadow.ooms) fail("stats ooms", fmt::format("{} ooms, in truth {}", stats.ooms, shadow.ooms));
  if (stats.limbo_bytes < 0) fail("stats limbo", "less than nothing is in limbo");
}

void World::check_records() {
  std::int64_t wrong_frees = addresses_.strays.load();
  for (OneDevice& on : devices_) {
    if (const std::string difference = on.allocator->validate(); !difference.empty()) fail("validate", difference);
    wrong_frees += on.allocator->stats().invalid_frees;
  }
  if (wrong_frees != wrong_frees_) {
    fail("stats invalid frees", fmt::format("{} wrong frees counted, in truth {}", wrong_frees, wrong_frees_));
  }
}

}  // namespace reprieve::fuzz
