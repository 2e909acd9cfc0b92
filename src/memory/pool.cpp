// How the two arenas of a pool divide its allowances: see counters.hpp.
#include "memory/pool.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::memory {
namespace {

// body.template operator()<m>() for each metric until one says false; a metric that is known when this is compiled costs
// no look at which it is.
template <typename F>
bool all_metrics(F&& body) {
  return [&]<std::size_t... m>(std::index_sequence<m...>) {
    return (body.template operator()<static_cast<Metric>(m)>() && ...);
  }
  (std::make_index_sequence<metric_count>{});
}

// Gives both arenas of a pool what they have and `mine` also `need`; what is left of the pool's allowance, in equal
// parts, as far as the arenas' own go.
template <Metric m>
[[gnu::always_inline]] inline void divide_between(std::int64_t pool_most, Counters& mine, Counters& others,
                                                  std::int64_t need) {
  const std::int64_t others_current = others.current(m);
  const std::int64_t others_room = std::max<std::int64_t>(0, others.allowances[m].most - others_current);
  const std::int64_t left = pool_most - mine.current(m) - others_current - need;
  const std::int64_t others_part = others_current + std::min(left / 2, others_room);
  mine.set_ceiling(m, std::min(mine.allowances[m].most, pool_most - others_part));
  others.set_ceiling(m, std::min(others.allowances[m].most, pool_most - mine.ceiling(m)));
}

}  // namespace

bool Pool::make_room(Arena& of, const Needs& needs) {
  Counters& mine = of.counters;
  Counters& others = (&of == &small ? large : small).counters;
  return all_metrics([&]<Metric m>() {
    const std::int64_t needed = mine.current(m) + needs[m];
    if (needs[m] == 0 || needed <= mine.ceiling(m)) return true;
    if (needed > mine.allowances[m].most || needed + others.current(m) > allowances[m].most) return false;
    divide_between<m>(allowances[m].most, mine, others, needs[m]);
    return true;
  });
}

void Pool::divide() {
  all_metrics([&]<Metric m>() {
    divide_between<m>(allowances[m].most, small.counters, large.counters, 0);
    return true;
  });
}

void Pool::raise_allowances() {
  all_metrics([&]<Metric m>() {
    bool beyond = false;
    for (Arena* arena : {&small, &large}) {
      Counters& counters = arena->counters;
      const std::int64_t now = counters.current(m);
      beyond |= now > counters.ceiling(m);
      counters.allowances[m].most = std::max(counters.allowances[m].most, now);
    }
    allowances[m].most = std::max(allowances[m].most, current(m));
    if (beyond) divide_between<m>(allowances[m].most, small.counters, large.counters, 0);
    return true;
  });
}

}  // namespace reprieve::memory
