#include "simgpu/physical.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t unit_bytes = std::uint64_t{64} << 10;

}  // namespace

Physical::~Physical() {
  if (imported >= 0) close(imported);
}

void unsettle(Physical& physical) { physical.settled.assign(physical.bytes / unit_bytes, false); }

namespace {

void settle_range(const Mapping& mapping, std::uint64_t begin, std::uint64_t end, bool overwritten) {
  std::vector<bool>& settled = mapping.physical->settled;
  if (settled.empty()) return;
  for (std::uint64_t unit = begin / unit_bytes; unit * unit_bytes < end; ++unit) {
    if (settled[unit]) continue;
    settled[unit] = true;
    const std::uint64_t at = unit * unit_bytes;
    if (overwritten && at >= begin && at + unit_bytes <= end) continue;
    std::memset(reinterpret_cast<void*>(static_cast<std::uintptr_t>(mapping.at + at)), poison_byte, unit_bytes);
  }
}

}  // namespace

void settle(const Piece& piece, bool overwritten) {
  settle_range(*piece.mapping, piece.physical_begin(), piece.physical_begin() + piece.bytes, overwritten);
}

void settle_all(const Mapping& mapping) {
  settle_range(mapping, 0, mapping.bytes, false);
  mapping.physical->settled.clear();
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace reprieve::simgpu
