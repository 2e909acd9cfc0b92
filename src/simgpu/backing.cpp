#include "simgpu/backing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simgpu/range_lock.hpp"

namespace reprieve::simgpu {
namespace {

// Far more than any simulated memory, so that runs of neighbours rarely meet. The file is sparse: size costs nothing.
constexpr std::uint64_t file_bytes = std::uint64_t{1} << 46;
constexpr std::uint64_t placement = std::uint64_t{2} << 20;

}  // namespace

Backing::Backing(const std::string& name) : file_(memfd_create(name.c_str(), MFD_CLOEXEC)) {
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(file_bytes)) != 0) {
    close(file_);
    file_ = -1;
  }
  free_.add(0, file_bytes);
}

Backing::~Backing() {
  if (file_ >= 0) close(file_);
}

std::uint64_t Backing::take(std::uint64_t bytes, std::uint64_t wanted) {
  if (wanted != nowhere && free_.take_at(wanted, bytes)) return wanted;
  look_at_kept();
  const auto largest = free_.largest();
  if (largest == free_.all().end() || largest->second < bytes) return nowhere;
  const std::uint64_t spare = (largest->second - bytes) / 2;
  const std::uint64_t offset = largest->first + spare - spare % placement;
  return free_.take_at(offset, bytes) ? offset : nowhere;
}

void Backing::empty(std::uint64_t offset, std::uint64_t bytes) const {
  if (file_ < 0) return;
  // A failure only keeps the pages until the file is closed.
  (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
}

bool Backing::imported_elsewhere(std::uint64_t offset, std::uint64_t bytes) const {
  return shared_ && is_range_locked(file_, offset, bytes);
}

void Backing::look_at_kept() {
  for (auto it = kept_.begin(); it != kept_.end();) {
    const Part part = *it;
    if (imported_elsewhere(part.offset, part.bytes)) {
      ++it;
      continue;
    }
    it = kept_.erase(it);
    empty(part.offset, part.bytes);
    free_.add(part.offset, part.bytes);
  }
}

void Backing::give_back(std::uint64_t offset, std::uint64_t bytes) {
  if (imported_elsewhere(offset, bytes)) {
    kept_.push_back({offset, bytes});
    return;
  }
  empty(offset, bytes);
  free_.add(offset, bytes);
}

}  // namespace reprieve::simgpu
