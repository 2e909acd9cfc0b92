// Makes a failing list short: leaves out what it fails without.
#pragma once

#include <chrono>
#include <functional>

#include "instruction.hpp"

namespace reprieve::fuzz {

// `fails`: whether a list still fails in the way that matters. The result does; it is as short as could be found before
// the deadline by leaving out instructions and, then, by simplifying numbers.
List shrink(List list, const std::function<bool(const List&)>& fails, std::chrono::steady_clock::time_point deadline);

}  // namespace reprieve::fuzz
