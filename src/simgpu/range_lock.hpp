// Which ranges of a memory's file are in use by other processes: each importer holds a read lock on its range through
// an open file description of its own (open file description locks, fcntl(2)), which the system gives up for it when
// the last descriptor is closed, however the process ends. The file that memories are mapped from never holds a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace reprieve::simgpu {

// A new open file description of the same file; -1 where the system gives none. To be closed by the caller.
int open_again(int file);
// The same of a file that another process has open.
int open_of_process(std::int64_t process, int file);

bool lock_range(int file, std::uint64_t offset, std::uint64_t bytes);
bool is_range_locked(int file, std::uint64_t offset, std::uint64_t bytes);
// The bytes of the range that starts at `offset` and is locked by another description.
std::optional<std::uint64_t> locked_bytes(int file, std::uint64_t offset);

// Whether both are the same file.
bool same_file(int a, int b);
// The name that a file in memory was made with; empty where it is none.
std::string memory_file_name(int file);

}  // namespace reprieve::simgpu
