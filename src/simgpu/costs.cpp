#include "simgpu/costs.hpp"

#include <cstddef>

namespace reprieve::simgpu::costs {
namespace {

struct Point {
  double mib;
  double us;
};

constexpr Point device_create[] = {{2, 12}, {64, 12}, {512, 22}, {4096, 42}};
constexpr Point device_access[] = {{2, 30}, {64, 30}, {512, 57}, {4096, 129}};
constexpr Point device_unmap[] = {{2, 20}, {64, 20}, {512, 27}, {4096, 50}};
constexpr Point device_release[] = {{2, 13}, {16, 61}, {64, 43}, {512, 237}, {4096, 2219}};

// The row 'host chunk of 64 MiB', its create at the middle of what was seen (14-22 ms; 1 GiB 265-331 ms). Both its
// create and its release were seen to go by size alone.
constexpr Point host_create[] = {{0, 0}, {64, 18'000}, {1024, 298'000}};
constexpr Point host_first_access[] = {{0, 0}, {64, 1'300}};
constexpr Point host_again_access[] = {{0, 0}, {64, 750}};
constexpr Point host_unmap[] = {{0, 0}, {64, 200}};
constexpr Point host_release[] = {{0, 0}, {64, 1'800}};

constexpr Point plain_malloc[] = {{2, 64}, {256, 74}, {1024, 125}, {8192, 499}};
constexpr Point plain_free[] = {{2, 47}, {256, 174}, {1024, 618}, {8192, 5135}};
// 2.1 and 10 GB/s; 4 GiB registered in 81 ms.
constexpr Point pinned_alloc[] = {{0, 10}, {1024, 491'000}};
constexpr Point pinned_free[] = {{0, 10}, {1024, 107'000}};
constexpr Point pinned_register[] = {{0, 10}, {4096, 81'000}};

template <std::size_t n>
std::uint64_t interpolate(const Point (&points)[n], std::uint64_t bytes) {
  static_assert(n >= 2);
  const double mib = static_cast<double>(bytes) / (1024.0 * 1024.0);
  if (mib <= points[0].mib) return static_cast<std::uint64_t>(points[0].us * 1e3);
  std::size_t upper = 1;
  while (upper + 1 < n && mib > points[upper].mib) ++upper;
  const Point& a = points[upper - 1];
  const Point& b = points[upper];
  return static_cast<std::uint64_t>((a.us + (b.us - a.us) * (mib - a.mib) / (b.mib - a.mib)) * 1e3);
}

}  // namespace

std::uint64_t create_ns(Location where, std::uint64_t bytes) {
  return where == Location::host ? interpolate(host_create, bytes) : interpolate(device_create, bytes);
}

std::uint64_t release_ns(Location where, std::uint64_t bytes) {
  return where == Location::host ? interpolate(host_release, bytes) : interpolate(device_release, bytes);
}

std::uint64_t unmap_ns(Location where, std::uint64_t bytes) {
  return where == Location::host ? interpolate(host_unmap, bytes) : interpolate(device_unmap, bytes);
}

std::uint64_t set_access_ns(Location where, std::uint64_t bytes, bool again) {
  if (where == Location::device) return interpolate(device_access, bytes);
  return again ? interpolate(host_again_access, bytes) : interpolate(host_first_access, bytes);
}

std::uint64_t malloc_ns(std::uint64_t bytes) { return interpolate(plain_malloc, bytes); }
std::uint64_t free_ns(std::uint64_t bytes) { return interpolate(plain_free, bytes); }
std::uint64_t host_alloc_ns(std::uint64_t bytes) { return interpolate(pinned_alloc, bytes); }
std::uint64_t host_free_ns(std::uint64_t bytes) { return interpolate(pinned_free, bytes); }
std::uint64_t host_register_ns(std::uint64_t bytes) { return interpolate(pinned_register, bytes); }

// 50 memsets of 8 GiB took 113.8 ms: 3.77 bytes a picosecond.
std::uint64_t fill_work_ns(std::uint64_t bytes) {
  return 1 + static_cast<std::uint64_t>(static_cast<double>(bytes) / 3774.0);
}

// 64 MiB in device memory in 100 us; pinned copies at 55.4 GB/s either way.
std::uint64_t copy_work_ns(std::uint64_t bytes, bool over_pcie) {
  return 1 + static_cast<std::uint64_t>(static_cast<double>(bytes) / (over_pcie ? 55.4 : 671.0));
}

}  // namespace reprieve::simgpu::costs
