// What a few kernels of torch do to memory, known by their names: filling, adding, multiplying, copying, concatenating.
// All others take their time and leave memory as it was. The layouts of the kernels' arguments are torch's (2.11); where
// arguments do not look as expected, nothing is simulated rather than something wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "simgpu/work.hpp"

namespace reprieve::standin {

class KernelEffect {
 public:
  virtual ~KernelEffect() = default;

  // Reads a launch's arguments, and adds to the work what it reads, writes and does, or leaves it as it is. Any thread.
  // `grid_y`: the launch's number of blocks in y.
  virtual void describe(void** arguments, std::uint32_t grid_y, simgpu::Work& work) const = 0;
};

// By the kernel's mangled name; null where nothing is known of it.
std::unique_ptr<const KernelEffect> find_effect(std::string_view kernel);

// Each kind's own; the two above are what others use.
std::unique_ptr<const KernelEffect> elementwise_effect(std::string_view kernel);
std::unique_ptr<const KernelEffect> concatenation_effect(std::string_view kernel);

}  // namespace reprieve::standin
