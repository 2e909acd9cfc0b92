#include "standin/kernel_effects.hpp"

namespace reprieve::standin {

std::unique_ptr<const KernelEffect> find_effect(std::string_view kernel) {
  if (auto effect = elementwise_effect(kernel)) return effect;
  return concatenation_effect(kernel);
}

}  // namespace reprieve::standin
