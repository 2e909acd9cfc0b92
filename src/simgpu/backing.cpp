#include "simgpu/backing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

namespace reprieve::simgpu {
namespace {

// Far more than any simulated memory, so that runs of neighbours rarely meet. The file is sparse: size costs nothing.
constexpr std::uint64_t file_bytes = std::uint64_t{1} << 46;
constexpr std::uint64_t placement = std::uint64_t{2} << 20;

}  // namespace

Backing::Backing(const char* name) : file_(memfd_create(name, MFD_CLOEXEC)) {
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(file_bytes)) != 0) {
    close(file_);
    file_ = -1;
  }
  free_.emplace(0, file_bytes);
}

Backing::~Backing() {
  if (file_ >= 0) close(file_);
}

std::uint64_t Backing::take_at(std::uint64_t offset, std::uint64_t bytes) {
  auto hole = std::prev(free_.upper_bound(offset));
  const std::uint64_t begin = hole->first;
  const std::uint64_t end = begin + hole->second;
  if (begin == offset) {
    free_.erase(hole);
  } else {
    hole->second = offset - begin;
  }
  if (offset + bytes < end) free_.emplace(offset + bytes, end - offset - bytes);
  return offset;
}

std::uint64_t Backing::take(std::uint64_t bytes, std::uint64_t wanted) {
  if (wanted != nowhere) {
    const auto after = free_.upper_bound(wanted);
    if (after != free_.begin()) {
      const auto hole = std::prev(after);
      if (wanted + bytes <= hole->first + hole->second) return take_at(wanted, bytes);
    }
  }
  auto largest = free_.begin();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second > largest->second) largest = it;
  }
  if (largest == free_.end() || largest->second < bytes) return nowhere;
  const std::uint64_t spare = (largest->second - bytes) / 2;
  return take_at(largest->first + spare - spare % placement, bytes);
}

void Backing::give_back(std::uint64_t offset, std::uint64_t bytes) {
  if (file_ >= 0) {
    // A failure only keeps the pages until the file is closed.
    (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes));
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace reprieve::simgpu
