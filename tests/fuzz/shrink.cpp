#include "shrink.hpp"

#include <algorithm>

#include "memory/size_class.hpp"

namespace reprieve::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

List without(const List& list, std::size_t begin, std::size_t end) {
  List out(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(begin));
  out.insert(out.end(), list.begin() + static_cast<std::ptrdiff_t>(end), list.end());
  return out;
}

// Tries 0 for each argument, else round amounts.
void simplify(List& list, std::size_t index, const std::function<bool(const List&)>& fails) {
  const auto attempt = [&](auto member, auto value) {
    const auto before = list[index].*member;
    if (before == value) return true;
    list[index].*member = value;
    if (fails(list)) return true;
    list[index].*member = before;
    return false;
  };
  attempt(&Instruction::slot, 0U);
  attempt(&Instruction::stream, 0U);
  attempt(&Instruction::other, 0U);
  if (attempt(&Instruction::n, std::uint64_t{0})) return;
  for (const std::uint64_t unit : {64 * MiB, 2 * MiB, memory::block_unit}) {
    if (attempt(&Instruction::n, memory::round_up(list[index].n, unit))) return;
  }
}

}  // namespace

List shrink(List list, const std::function<bool(const List&)>& fails, Clock::time_point deadline) {
  const auto in_time = [&] { return Clock::now() < deadline; };
  for (std::size_t piece = std::max<std::size_t>(1, list.size() / 2); in_time();) {
    bool shorter = false;
    // From the end: what comes last before a failure is the least likely to be needed by something else.
    for (std::size_t end = list.size(); end > 0 && in_time();) {
      const std::size_t begin = end > piece ? end - piece : 0;
      List candidate = without(list, begin, end);
      if (fails(candidate)) {
        list = std::move(candidate);
        shorter = true;
      }
      end = begin;
    }
    if (piece == 1 && !shorter) break;
    if (!shorter || piece > list.size()) piece = std::max<std::size_t>(1, piece / 2);
  }
  for (std::size_t i = 0; i < list.size() && in_time(); ++i) simplify(list, i, fails);
  return list;
}

}  // namespace reprieve::fuzz
