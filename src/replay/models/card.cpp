#include "replay/models/card.hpp"

#include <cstddef>
#include <span>

#include "replay/models/sizes.hpp"
#include "simgpu/costs.hpp"

namespace reprieve::replay::models {
namespace {

namespace costs = simgpu::costs;

constexpr std::uint64_t page = 2 * MiB;  // of the driver: everything is a multiple

struct Point {
  double mib, us;
};

// On one NVIDIA H200, driver 580.159.04, CUDA 13.0; cudaFree on an idle GPU. Linear between the sizes.
constexpr Point malloc_cost[] = {{2, 64}, {256, 74}, {1024, 125}, {8192, 499}};
constexpr Point free_cost[] = {{2, 47}, {256, 174}, {1024, 618}, {8192, 5135}};

std::uint64_t interpolated_ns(std::span<const Point> points, std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / static_cast<double>(MiB);
  std::size_t upper = 1;
  while (upper + 1 < points.size() && mib > points[upper].mib) ++upper;
  const Point& low = points[upper - 1];
  const Point& high = points[upper];
  const double us = low.us + (high.us - low.us) * (mib - low.mib) / (high.mib - low.mib);
  return static_cast<std::uint64_t>(us * 1e3);
}

}  // namespace

void Card::charge(device::Call call, std::uint64_t times, std::uint64_t ns_each) {
  costs_.driver_calls[static_cast<std::size_t>(call)] += times;
  costs_.ns += times * ns_each;
}

std::uint64_t Card::allocate(std::uint64_t bytes) {
  const std::uint64_t taken = round_up(bytes, page);
  ++costs_.malloc_calls;
  // A call that is refused was not measured; it is charged as one that is not.
  costs_.ns += interpolated_ns(malloc_cost, taken);
  if (taken > capacity_ - used_) return 0;
  used_ += taken;
  return next_address_ -= taken;
}

void Card::free(std::uint64_t bytes) {
  const std::uint64_t given_back = round_up(bytes, page);
  ++costs_.free_calls;
  costs_.ns += interpolated_ns(free_cost, given_back);
  used_ -= given_back;
}

std::uint64_t Card::reserve(std::uint64_t bytes) {
  charge(device::Call::reserve, 1, costs::reserve_ns);
  return next_address_ -= round_up(bytes, page);
}

void Card::unreserve() { charge(device::Call::unreserve, 1, costs::unreserve_ns); }

bool Card::map_chunks(std::uint64_t count, std::uint64_t chunk) {
  const std::uint64_t taken = round_up(chunk, page);
  const std::uint64_t fit = (capacity_ - used_) / taken;
  const std::uint64_t create_ns = costs::create_ns(simgpu::Location::device, taken);
  if (fit < count) {
    // The last call is the one that is refused; what was created before goes back.
    charge(device::Call::create, fit + 1, create_ns);
    charge(device::Call::release, fit, costs::release_ns(simgpu::Location::device, taken));
    return false;
  }
  charge(device::Call::create, count, create_ns);
  charge(device::Call::map, count, costs::map_ns);
  // One call over all of them, which costs as many calls over one each.
  charge(device::Call::set_access, 1, count * costs::set_access_ns(simgpu::Location::device, taken, false));
  used_ += count * taken;
  return true;
}

void Card::unmap_chunks(std::uint64_t count, std::uint64_t chunk) {
  const std::uint64_t given_back = round_up(chunk, page);
  charge(device::Call::stream_synchronize, 1, costs::stream_call_ns);
  charge(device::Call::unmap, count, costs::unmap_ns(simgpu::Location::device, given_back));
  charge(device::Call::release, count, costs::release_ns(simgpu::Location::device, given_back));
  used_ -= count * given_back;
}

void Card::event_recorded_and_queried() {
  charge(device::Call::event_record, 1, costs::event_record_ns);
  charge(device::Call::event_query, 1, costs::event_query_ns);
}

}  // namespace reprieve::replay::models
