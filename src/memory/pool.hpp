// A pool: the memory of one (device, stream, mempool). Its lock guards its arenas, counters and deferred frees; what
// changes backing is done under the allocator's mutex as well, which is taken first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "memory/arena.hpp"
#include "memory/counters.hpp"
#include "memory/events.hpp"
#include "memory/pool_lock.hpp"

namespace reprieve::memory {

class Allocator;
using PoolId = std::uint64_t;  // 0: the default pool of a stream

// What a pool serves instead of its own id while no allocation may take the quick way.
inline constexpr PoolId closed_pool = ~PoolId{0};   // destroyed
inline constexpr PoolId dormant_pool = ~PoolId{1};  // its stream was forgotten

struct PoolKey {
  StreamRef stream;
  PoolId id;

  auto operator<=>(const PoolKey&) const = default;
};

// A mapping that is no longer wanted, but that queued work may still go through.
struct StaleMapping {
  Chunk* chunk;
  Address at;
  Span* span;
};

// Stale mappings that hang on the same marks.
struct LimboBatch {
  std::vector<MarkRef> marks;  // at least one
  std::vector<StaleMapping> mappings;

  bool passed(Status& status) const {
    return std::all_of(marks.begin(), marks.end(), [&](const MarkRef& mark) { return mark->passed(status); });
  }
  // One to wait for.
  MarkRef hurdle() const {
    const auto found = std::find_if(marks.begin(), marks.end(), [](const MarkRef& mark) {
      Status status;
      return !mark->passed(status);
    });
    return found == marks.end() ? marks.back() : *found;
  }
};

// A block that its caller freed while other streams may still use it.
struct DeferredFree {
  Range* range;
  Arena* arena;
  Uses unmarked;  // streams that could not be marked yet: they were capturing
  std::vector<std::pair<StreamRef, MarkRef>> marks;
};

struct alignas(64) Pool {
  Pool(Allocator& owner, PoolKey pool_key, bool is_graph)
      : allocator(owner),
        key(pool_key),
        serving(pool_key.id),
        stream(pool_key.stream),
        graph(is_graph),
        small(*this, Arena::Kind::small),
        large(*this, Arena::Kind::large) {}

  Arena& arena_for(std::uint64_t size) { return kind_of(size) == BlockKind::small ? small : large; }
  Arena& arena(BlockKind kind) { return kind == BlockKind::small ? small : large; }
  bool is_private() const { return key.id != 0; }
  // Destroyed by its owner; blocks of it may live on.
  bool closed() const { return serving == closed_pool; }

  // ---- counters: under the pool's lock, but for current() ----
  std::int64_t current(Metric m) const { return small.counters.current(m) + large.counters.current(m); }
  std::int64_t risen(Metric m) const { return small.counters.risen(m) + large.counters.risen(m); }
  // Divides the pool's allowance between its arenas so that `needs` stays within the ceilings of `of`. False: there is
  // not so much.
  [[gnu::noinline]] bool make_room(Arena& of, const Needs& needs);
  // Divides what was dealt to the pool anew.
  void divide();
  // Of a sole pool, whose allowances are the device's peaks: takes in what there is now.
  [[gnu::noinline]] void raise_allowances();

  PoolLock lock;
  bool sole = false;  // the device's only pool; changed with all pools locked
  Allocator& allocator;
  PoolKey key;
  PoolId serving;    // key.id, or one of the above
  StreamRef stream;  // what is marked for the pool: key.stream, or idle_stream while that is forgotten
  bool graph;
  Allowances allowances{};     // of the peak of all blocks
  std::uint64_t sequence = 0;  // counts frees; a mark taken at n covers every free up to n
  Arena small;
  Arena large;
  std::deque<DeferredFree> deferred;

  // Under the allocator's mutex alone:
  std::deque<LimboBatch> limbo;  // in the order of the stream
  // Old mappings of chunks that have another home by now, which captured graphs may go through whenever they are
  // replayed; or which could not be marked, because the stream captured.
  std::vector<StaleMapping> kept;
  std::uint64_t finished = 0;  // frees up to here are over on the GPU as well
  MarkRef probe;               // marks the frees up to probe_sequence
  std::uint64_t probe_sequence = 0;
};

}  // namespace reprieve::memory
