#include "standin/kernel_effects.hpp"

namespace reprieve::standin {

MakeWork find_effect(std::string_view) { return nullptr; }

}  // namespace reprieve::standin
