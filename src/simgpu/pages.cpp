#include "simgpu/pages.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace reprieve::simgpu::pages {
namespace {

constexpr std::uint64_t least_alignment = std::uint64_t{2} << 20;

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }
std::uint64_t number(void* address) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address)); }

}  // namespace

bool reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& out) {
  alignment = std::max(alignment, least_alignment);
  const std::uint64_t with_slack = bytes + alignment;
  void* const got = mmap(nullptr, with_slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return false;
  const std::uint64_t begin = number(got);
  const std::uint64_t base = (begin + alignment - 1) & ~(alignment - 1);
  if (base > begin) munmap(got, base - begin);
  const std::uint64_t behind = begin + with_slack - (base + bytes);
  if (behind > 0) munmap(pointer(base + bytes), behind);
  out = base;
  return true;
}

bool unreserve(std::uint64_t at, std::uint64_t bytes) { return munmap(pointer(at), bytes) == 0; }

bool map_file(std::uint64_t at, std::uint64_t bytes, int file, std::uint64_t offset) {
  if (mmap(pointer(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    return false;
  }
  return madvise(pointer(at), bytes, MADV_DONTFORK) == 0;
}

bool make_inaccessible(std::uint64_t at, std::uint64_t bytes) {
  return mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

bool allocate(std::uint64_t bytes, std::uint64_t& out) {
  void* const got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return false;
  out = number(got);
  return true;
}

}  // namespace reprieve::simgpu::pages
