// The system's calls on ranges of addresses. All return false where the system refuses.
#pragma once

#include <cstdint>

namespace reprieve::simgpu::pages {

// `alignment`: a power of two; at least 2 MiB whatever is given.
bool reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out);
bool unreserve(std::uint64_t at, std::uint64_t bytes);

// Over what is there. Forked children do not have these pages, so they cannot change their parent's memory.
bool map_file(std::uint64_t at, std::uint64_t bytes, int file, std::uint64_t offset);
bool make_inaccessible(std::uint64_t at, std::uint64_t bytes);

// Ordinary memory of whole pages, zeroed. A forked child has a copy of its own.
bool allocate(std::uint64_t bytes, std::uint64_t& out);

}  // namespace reprieve::simgpu::pages
