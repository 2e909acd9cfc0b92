// What a few kernels of torch do to memory, known by their names: filling, adding, multiplying, copying, concatenating.
// All others take their time and leave memory as it was.
#pragma once

#include <string_view>

#include "simgpu/work.hpp"

namespace reprieve::standin {

// Reads a launch's arguments, and adds to the work what it reads, writes and does. Where the arguments are not as
// expected (a shape that is not simulated), the work is left as it is.
using MakeWork = void (*)(void** arguments, simgpu::Work& work);

// By the kernel's mangled name; null where nothing is known of it.
MakeWork find_effect(std::string_view kernel);

}  // namespace reprieve::standin
