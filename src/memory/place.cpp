// Blocks at given addresses: what a graph's pool is put back to when its tree of graphs goes back to an earlier state.
#include <algorithm>

#include "memory/all_pools.hpp"
#include "memory/block_path.hpp"

namespace reprieve::memory {

// Gives the chunk that was mapped at `page` before its home there again, where it lies in free memory now. Both
// mappings exist already, so no driver call is needed.
bool Allocator::move_home(Pool& pool, Arena& arena, Span& span, Address page) {
  const auto kept = std::find_if(pool.kept.begin(), pool.kept.end(), [&](const StaleMapping& stale) {
    return stale.at <= page && page < stale.at + stale.chunk->bytes;
  });
  if (kept == pool.kept.end()) return false;
  Chunk& chunk = *kept->chunk;
  if (chunk.doomed) return false;
  Span& other_span = *addresses_.find(chunk.home);
  Arena& other = *other_span.arena.load(std::memory_order_relaxed);
  Range* const from = other.free_range_at(chunk.home, chunk.bytes);
  if (from == nullptr) return false;
  arena.reserve_records(4);
  other.reserve_records(4);

  const StaleMapping back = *kept;
  other.detach(from, chunk, other_span);
  tell_segment(pool, false, chunk.home, chunk.bytes);
  *kept = {&chunk, chunk.home, &other_span};
  chunk.home = back.at;
  give_to(arena.kind(), chunk);
  span.set_pages(back.at, chunk.bytes, &chunk);
  arena.reattach(span, back.at, chunk.bytes, pool.sequence);
  tell_segment(pool, true, back.at, chunk.bytes);
  return true;
}

Status Allocator::allocate_at(Stream stream, PoolId id, void* ptr, std::uint64_t bytes) {
  const Status refused = failure(Errc::invalid_argument, "these addresses are not free in this pool");
  const auto at = reinterpret_cast<Address>(ptr);
  if (bytes == 0 || at % block_unit != 0 || bytes > device_.properties().total_bytes) return refused;
  const std::uint64_t size = round_up(bytes, block_unit);
  try {
    Pool* const pool = lookup_pool({StreamRef::here(stream), id});
    if (pool == nullptr) return failure(Errc::invalid_argument, "no such pool");
    const std::scoped_lock lock(mutex_);
    const std::scoped_lock pool_lock(pool->lock);
    Arena& arena = pool->arena_for(size);
    Span* const span = addresses_.find(at);
    if (pool->closed() || span == nullptr || at < span->base || at + size > span->base + span->bytes ||
        span->arena.load(std::memory_order_relaxed) != &arena) {
      return refused;
    }
    finish_deferred(*pool);
    for (Address page = round_down(at, page_bytes); page < at + size; page += page_bytes) {
      if (span->page(page) == nullptr && !move_home(*pool, arena, *span, page)) return refused;
    }
    Range* range = arena.free_range_at(at, size);
    if (range == nullptr) return refused;
    arena.reserve_records(2);
    range = arena.cut_front(range, at);
    void* out = nullptr;
    commit(arena, range, size, bytes, &out);
    AllPools(*this, pool).deal();
    return success();
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
}

}  // namespace reprieve::memory
