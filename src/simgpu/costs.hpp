// What each driver call costs the calling CPU, and how long the GPU works on copies and fills, in nanoseconds.
//
// Source: measured.md, one NVIDIA H200 (driver 580.159.04, CUDA 13.0), 2026-12-01. Between measured sizes the cost is
// interpolated linearly in bytes; below the smallest it is constant; above the largest the last slope goes on.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

enum class Location : std::uint8_t { device, host };

namespace costs {

// Calls whose cost does not depend on a size.
inline constexpr std::uint64_t reserve_ns = 45'000;   // the dearer of the two measured: 256 GiB once
inline constexpr std::uint64_t unreserve_ns = 3'800;  // not measured; as the cheaper reserve
inline constexpr std::uint64_t map_ns = 1'100;
inline constexpr std::uint64_t memory_info_ns = 10'000;  // not in the table: about that of cudaMemGetInfo
inline constexpr std::uint64_t event_create_ns = 510;
inline constexpr std::uint64_t event_destroy_ns = 510;  // not measured; as create
inline constexpr std::uint64_t event_record_ns = 360;
inline constexpr std::uint64_t event_query_ns = 360;
inline constexpr std::uint64_t record_all_idle_ns = 240;
inline constexpr std::uint64_t record_all_busy_ns = 10'000;
inline constexpr std::uint64_t stream_call_ns = 360;  // wait, synchronize, is_capturing: not measured; as an event call
inline constexpr std::uint64_t stream_create_ns = 5'000;  // not measured
inline constexpr std::uint64_t launch_ns = 2'000;         // not measured: a kernel launch, copy or fill, to queue it
inline constexpr std::uint64_t host_function_ns = 5'000;  // GPU time before one runs: not measured
inline constexpr std::uint64_t pool_call_ns = 1'000;      // cudaMallocAsync without growth, cudaFreeAsync: not measured
inline constexpr std::uint64_t ipc_ns = 50'000;           // not measured

std::uint64_t create_ns(Location where, std::uint64_t bytes);
std::uint64_t release_ns(Location where, std::uint64_t bytes);
std::uint64_t unmap_ns(Location where, std::uint64_t bytes);
// Per mapped handle. `again`: the handle has been accessible before (host memory is cheaper the second time).
std::uint64_t set_access_ns(Location where, std::uint64_t bytes, bool again);

// cudaMalloc and cudaFree, without the wait for the device; cudaHostAlloc, cudaFreeHost and cudaHostRegister.
std::uint64_t malloc_ns(std::uint64_t bytes);
std::uint64_t free_ns(std::uint64_t bytes);
std::uint64_t host_alloc_ns(std::uint64_t bytes);
std::uint64_t host_free_ns(std::uint64_t bytes);
std::uint64_t host_register_ns(std::uint64_t bytes);

// GPU time.
std::uint64_t fill_work_ns(std::uint64_t bytes);
std::uint64_t copy_work_ns(std::uint64_t bytes, bool over_pcie);

}  // namespace costs
}  // namespace reprieve::simgpu
