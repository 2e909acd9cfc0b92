// How often this process was forked, as seen from the last child: what was made before the last fork is the parent's.
#pragma once

#include <cstdint>

namespace reprieve::simgpu {

std::uint64_t forks_of_process();

}  // namespace reprieve::simgpu
