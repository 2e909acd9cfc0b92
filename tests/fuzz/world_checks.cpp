// Comparing what the allocators say of themselves with the shadow and with the machine.
#include <fmt/format.h>

#include <string_view>

#include "world.hpp"

namespace reprieve::fuzz {

void World::check_total(const char* kind, const char* name, const memory::Counter& counter, const Total& total) {
  if (counter.current != total.current) {
    fail("stats current", fmt::format("{} {}: {}, in truth {}", kind, name, counter.current, total.current));
  }
  if (counter.peak != total.peak) {
    fail("stats peak", fmt::format("peak of {} {}: {}, in truth {}", kind, name, counter.peak, total.peak));
  }
  if (counter.allocated != total.allocated || counter.freed != total.freed) {
    fail("stats sums", fmt::format("{} {}: {} allocated and {} freed, in truth {} and {}", kind, name,
                                   counter.allocated, counter.freed, total.allocated, total.freed));
  }
}

void World::check_blocks(const char* kind, const memory::Totals& said, const Totals& totals) {
  check_total(kind, "requested bytes", said.metrics[memory::requested_bytes], totals.requested);
  check_total(kind, "allocated bytes", said.metrics[memory::allocated_bytes], totals.allocated);
  check_total(kind, "allocations", said.metrics[memory::allocations], totals.allocations);
}

// What the kinds say of themselves adds up to what is said of both; each peak lies where it can.
void World::check_kinds(const memory::Stats& stats) {
  const auto& [small, large] = stats.kinds;
  const auto check = [&](std::string_view name, const memory::Counter& all, const memory::Counter& one,
                         const memory::Counter& other) {
    if (one.current + other.current != all.current) {
      fail("stats kinds",
           fmt::format("{}: {} small and {} large make {}", name, one.current, other.current, all.current));
    }
    if (std::max(one.peak, other.peak) > all.peak || one.peak + other.peak < all.peak) {
      fail("stats kinds",
           fmt::format("{}: peaks of {} small and {} large, {} together", name, one.peak, other.peak, all.peak));
    }
    for (const memory::Counter& counter : {one, other}) {
      if (counter.peak < counter.current) fail("stats kinds", fmt::format("{}: a peak below what is", name));
    }
  };
  for (std::size_t m = 0; m < memory::metric_count; ++m) {
    check(fmt::format("metric {}", m), stats.metrics[m], small.metrics[m], large.metrics[m]);
  }
  check("reserved bytes", stats.reserved_bytes, small.reserved_bytes, large.reserved_bytes);
  check("segments", stats.segments, small.segments, large.segments);
}

void World::check_totals(OneDevice& on) {
  const memory::Stats stats = on.allocator->stats();
  DeviceShadow& shadow = on.shadow;
  check_blocks("all", stats, shadow.totals.all);
  check_blocks("small", stats.kinds[0], shadow.totals.kinds[0]);
  check_blocks("large", stats.kinds[1], shadow.totals.kinds[1]);
  check_kinds(stats);
  const auto reserved = static_cast<std::int64_t>(machine_.used_bytes(on.device->properties().ordinal));
  if (stats.reserved_bytes.current != reserved) {
    fail("stats reserved",
         fmt::format("{} bytes reserved, the device says {}", stats.reserved_bytes.current, reserved));
  }
  const std::int64_t active = stats.metrics[memory::active_bytes].current;
  if (active < shadow.totals.all.allocated.current || active > reserved) {
    fail("stats active", fmt::format("{} bytes active, {} allocated, {} reserved", active,
                                     shadow.totals.all.allocated.current, reserved));
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
