#include "simgpu/range_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace reprieve::simgpu {
namespace {

struct flock range_of(short type, std::uint64_t offset, std::uint64_t bytes) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(offset);
  range.l_len = static_cast<off_t>(bytes);
  return range;
}

}  // namespace

int open_again(int file) { return open(fmt::format("/proc/self/fd/{}", file).c_str(), O_RDWR | O_CLOEXEC); }

int open_of_process(std::int64_t process, int file) {
  return open(fmt::format("/proc/{}/fd/{}", process, file).c_str(), O_RDWR | O_CLOEXEC);
}

bool lock_range(int file, std::uint64_t offset, std::uint64_t bytes) {
  struct flock range = range_of(F_RDLCK, offset, bytes);
  return fcntl(file, F_OFD_SETLK, &range) == 0;
}

bool is_range_locked(int file, std::uint64_t offset, std::uint64_t bytes) {
  struct flock range = range_of(F_WRLCK, offset, bytes);
  return fcntl(file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

std::optional<std::uint64_t> locked_bytes(int file, std::uint64_t offset) {
  struct flock range = range_of(F_WRLCK, offset, 1);
  if (fcntl(file, F_OFD_GETLK, &range) != 0 || range.l_type == F_UNLCK) return std::nullopt;
  if (static_cast<std::uint64_t>(range.l_start) != offset || range.l_len <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(range.l_len);
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::string memory_file_name(int file) {
  constexpr std::string_view prefix = "/memfd:";
  constexpr std::string_view suffix = " (deleted)";
  std::array<char, 256> text{};
  const auto length = readlink(fmt::format("/proc/self/fd/{}", file).c_str(), text.data(), text.size());
  std::string_view name(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return {};
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::string(name);
}

}  // namespace reprieve::simgpu
