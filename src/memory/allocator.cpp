#include "memory/allocator.hpp"

#include <algorithm>
#include <new>

#include "memory/all_pools.hpp"
#include "memory/block_path.hpp"

namespace reprieve::memory {
namespace {

// Beyond what a size class and any device can hold; also keeps roundings from overflowing.
constexpr std::uint64_t absurd_bytes = 1ULL << 45;

// A wait that brings nothing must end even where events keep being recorded by other threads.
constexpr int max_rounds = 64;

std::uint64_t next_allocator_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Whether taking `size` from `range` stays within the arena's ceilings.
bool within_ceilings(const Counters& counters, const Range& range, std::uint64_t requested, std::uint64_t size) {
  // The rest of a whole segment becomes a split one.
  return counters.fits(static_cast<std::int64_t>(requested), static_cast<std::int64_t>(size)) &&
         (!range.whole_segment() || counters.split_fits(static_cast<std::int64_t>(range.size - size)));
}

Needs needs_of(const Range& range, std::uint64_t requested, std::uint64_t size) {
  const auto bytes = static_cast<std::int64_t>(size);
  Needs needs{static_cast<std::int64_t>(requested), bytes, bytes, 1, 1};
  if (range.whole_segment()) {
    needs[inactive_split_bytes] = static_cast<std::int64_t>(range.size - size);
    needs[inactive_split_blocks] = 1;
  }
  return needs;
}

// Whether the free of a block makes its whole segment free, so that it does not become split memory.
bool frees_segment(const Range& range) {
  const auto is_free = [](const Range* neighbour) {
    return neighbour != nullptr && neighbour->state == RangeState::free;
  };
  const Range* const left = is_free(range.prev) ? range.prev->prev : range.prev;
  const Range* const right = is_free(range.next) ? range.next->next : range.next;
  return left == nullptr && right == nullptr;
}

Needs needs_of_free(const Range& range) {
  Needs needs{};
  needs[inactive_split_bytes] = static_cast<std::int64_t>(range.size);
  needs[inactive_split_blocks] = 1;
  return needs;
}

}  // namespace

Allocator::Allocator(device::Device& device, AddressMap& addresses, const Settings& settings)
    : device_(device),
      addresses_(addresses),
      settings_(settings),
      id_(next_allocator_id()),
      limit_(settings.limit),
      events_(device) {}

Allocator::~Allocator() {
  const auto wait_for = [&](StreamRef stream) {
    MarkRef marked;
    Status status;
    if (mark(stream, marked).ok()) marked->wait(settings_.wait, status);
  };
  for (const auto& pool : pools_) {
    wait_for(pool->stream);
    for (const DeferredFree& entry : pool->deferred) {
      Status status;
      for (const auto& use : entry.marks) use.second->wait(settings_.wait, status);
      for (const StreamRef stream : entry.unmarked) wait_for(stream);
    }
    for (const Arena* arena : {&pool->small, &pool->large}) {
      arena->store().for_each([&](const Range& range) {
        if (range.state != RangeState::live || range.block.uses == nullptr) return;
        for (const StreamRef stream : *range.block.uses) wait_for(stream);
      });
    }
  }
  retry_failed();
  // Nobody is left to be told of an error.
  [[maybe_unused]] Status status;
  for (const auto* pools : {&pools_, &spare_pools_}) {
    for (const auto& pool : *pools) {
      for (const LimboBatch& batch : pool->limbo) {
        for (const StaleMapping& stale : batch.mappings) status = device_.unmap(stale.at, stale.chunk->bytes);
      }
      for (const StaleMapping& stale : pool->kept) status = device_.unmap(stale.at, stale.chunk->bytes);
      for (const Arena* arena : {&pool->small, &pool->large}) {
        arena->store().for_each([](const Range& range) {
          if (range.state == RangeState::live) delete range.block.uses;
        });
      }
    }
  }
  for (const auto& chunk : chunks_) {
    if (chunk->home != 0) status = device_.unmap(chunk->home, chunk->bytes);
    status = device_.release(chunk->handle);
  }
  for (const auto* pools : {&pools_, &spare_pools_}) {
    for (const auto& pool : *pools) {
      for (const Arena* arena : {&pool->small, &pool->large}) {
        for (const auto& span : arena->spans()) {
          addresses_.set(*span, nullptr);
          status = device_.unreserve(span->reserved_base, span->reserved_bytes);
        }
      }
      pool->deferred.clear();
      pool->limbo.clear();
      pool->probe.reset();
    }
  }
}

// Flattened, as free() is: what they call on the quick way is part of them, what they call off it is marked cold.
[[gnu::flatten]] Status Allocator::allocate(Stream stream, PoolId id, std::uint64_t bytes, void** out) {
  if (bytes == 0) {
    *out = nullptr;
    return success();
  }
  if (bytes > absurd_bytes) {
    ooms_.fetch_add(1, std::memory_order_relaxed);
    return failure(Errc::out_of_memory, "more than any device has");
  }
  try {
    Pool* const pool = find_pool(stream, id);
    if (pool == nullptr) return failure(Errc::invalid_argument, "no such pool");
    const std::uint64_t size = round_up(bytes, block_unit);
    Arena& arena = pool->arena_for(size);

    pool->lock.lock();
    Range* const range = arena.find(size);
    if (range != nullptr && arena.can_split() && pool->serving == id) [[likely]] {
      const bool within =
          within_ceilings(arena.counters, *range, bytes, size) || pool->make_room(arena, needs_of(*range, bytes, size));
      if (within || pool->sole) [[likely]] {
        commit(arena, range, size, bytes, out);
        if (!within) pool->raise_allowances();
        pool->lock.unlock();
        return success();
      }
    }
    pool->lock.unlock();
    return allocate_slow(*pool, id, bytes, size, out);
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
}

Status Allocator::allocate_slow(Pool& pool, PoolId id, std::uint64_t requested, std::uint64_t size, void** out) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + settings_.wait;
  Arena& arena = pool.arena_for(size);
  const auto out_of_memory = [&](Status status) {
    ooms_.fetch_add(1, std::memory_order_relaxed);
    return status;
  };
  if (size > device_.properties().total_bytes) {
    return out_of_memory(failure(Errc::out_of_memory, "more than the device has"));
  }

  let_others_collect();
  for (int round = 0;; ++round) {
    MarkRef hurdle;
    Status status;
    {
      const std::scoped_lock lock(mutex_);
      if (closed_pools_ != 0) sweep_closed();
      const std::scoped_lock pool_lock(pool.lock);
      if (pool.key.id != id || pool.closed()) return failure(Errc::invalid_argument, "no such pool");
      pool.serving = id;
      pool.stream = pool.key.stream;
      arena.reserve_records(1);
      trouble_ = success();
      if (round == 0) {
        finish_deferred(pool);
        finish_limbo(pool);
      } else {
        if (round == 1) alloc_retries_.fetch_add(1, std::memory_order_relaxed);
        collect(&pool);
      }
      Range* range = arena.find(size);
      if (range == nullptr) {
        status = grow(pool, arena, size);
        if (status.ok()) range = arena.find(size);
      }
      if (range != nullptr) commit(arena, range, size, requested, out);
      AllPools(*this, &pool).deal();
      if (range != nullptr) return success();
      if (!status.is(Errc::out_of_memory)) return status;
      if (round == 0) continue;
      // A device that is broken shows no memory to be free: that is not to be taken for a full one.
      if (!trouble_.ok()) return trouble_;
      hurdle = unfinished(&pool);
    }
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    if (hurdle == nullptr || left.count() <= 0 || round == max_rounds) return out_of_memory(status);
    Status waited;
    if (!wait_for(*hurdle, left, waited)) return waited.ok() ? out_of_memory(status) : waited;
  }
}

// ---- freeing ----

// Precondition: the pool's lock is held, the range is live.
inline void Allocator::commit_free(Pool& pool, Arena& arena, Span& span, Range* range) {
  span.block_slot(range->address) = nullptr;
  arena.counters.freed(static_cast<std::int64_t>(range->block.requested), static_cast<std::int64_t>(range->size));
  arena.give(range, ++pool.sequence);
}

[[gnu::flatten]] Status Allocator::free(AddressMap& addresses, void* ptr) {
  Pool* owner = nullptr;
  const Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) [[unlikely]]
    return invalid_free(addresses, owner);
  Pool& pool = *found.pool;
  if (found.range->block.uses != nullptr) [[unlikely]]
    return free_used(found, nullptr);
  Arena& arena = *found.arena;
  const bool within = arena.counters.split_fits(static_cast<std::int64_t>(found.range->size)) ||
                      frees_segment(*found.range) || pool.make_room(arena, needs_of_free(*found.range));
  if (!within && !pool.sole) [[unlikely]]
    return free_at_peak(found);
  commit_free(pool, arena, *found.span, found.range);
  if (!within) pool.raise_allowances();
  pool.lock.unlock();
  return success();
}

Status Allocator::free_on(AddressMap& addresses, void* ptr, Stream stream) {
  const StreamRef after = StreamRef::here(stream);
  Pool* owner = nullptr;
  const Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) return invalid_free(addresses, owner);
  if (after != found.pool->key.stream) return free_used(found, &after);
  found.pool->lock.unlock();
  return free(addresses, ptr);
}

Status Allocator::invalid_free(AddressMap& addresses, Pool* owner) {
  (owner == nullptr ? addresses.strays : owner->allocator.invalid_frees_).fetch_add(1, std::memory_order_relaxed);
  return failure(Errc::invalid_argument, "not the beginning of a live block");
}

// The free may carry the device to a new peak of split memory: it is made with every pool locked.
Status Allocator::free_at_peak(const Found& found) {
  Allocator& allocator = found.pool->allocator;
  found.pool->lock.unlock();
  const std::scoped_lock growth(allocator.mutex_);
  AllPools all(allocator, nullptr);
  // Another thread may have freed it meanwhile; that is the program's error, and is told like one.
  if (found.range->state != RangeState::live || found.span->block_slot(found.range->address) != found.range) {
    allocator.invalid_frees_.fetch_add(1, std::memory_order_relaxed);
    return failure(Errc::invalid_argument, "not the beginning of a live block");
  }
  commit_free(*found.pool, *found.arena, *found.span, found.range);
  all.deal();
  return success();
}

// The block is used on other streams, and on `after` where that is not null. The pool's lock is held.
Status Allocator::free_used(const Found& found, const StreamRef* after) {
  auto& [pool, arena, span, range] = found;
  std::unique_lock<PoolLock> lock(pool->lock, std::adopt_lock);
  try {
    Uses uses;
    if (after != nullptr) uses.push_back(*after);
    if (const std::unique_ptr<Uses> owned(range->block.uses); owned != nullptr) {
      uses.insert(uses.end(), owned->begin(), owned->end());
      range->block.uses = nullptr;
    }
    range->state = RangeState::deferred;
    span->block_slot(range->address) = nullptr;
    arena->counters.freed(static_cast<std::int64_t>(range->block.requested), static_cast<std::int64_t>(range->size));
    arena->counters.deferred(static_cast<std::int64_t>(range->size));
    lock.unlock();
    pool->allocator.free_deferred(*pool, *arena, range, uses);
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
  return success();
}

// The events are recorded without a lock: the block is nobody's by now.
void Allocator::free_deferred(Pool& pool, Arena& arena, Range* range, const Uses& uses) {
  DeferredFree deferred{range, &arena, {}, {}};
  for (const StreamRef stream : uses) {
    MarkRef marked;
    Status asked;
    // What only an event of the whole context can mark is left for later: that is asked for under the mutex.
    if (stream.reachable() && !capturing(stream, asked) && events_.mark(stream.stream, marked).ok()) {
      deferred.marks.emplace_back(stream, std::move(marked));
    } else {
      deferred.unmarked.push_back(stream);
    }
  }
  const std::scoped_lock pool_lock(pool.lock);
  pool.deferred.push_back(std::move(deferred));
}

Status Allocator::record_stream(AddressMap& addresses, void* ptr, Stream stream) {
  Pool* owner = nullptr;
  const StreamRef use = StreamRef::here(stream);
  const Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) return failure(Errc::invalid_argument, "not the beginning of a live block");
  const std::unique_lock<PoolLock> lock(found.pool->lock, std::adopt_lock);
  if (use == found.pool->key.stream) return success();
  if (use.thread != 0 && !owner->allocator.device_.properties().context_events) {
    return failure(Errc::not_supported, "recording a per-thread default stream needs a driver for CUDA 12.5 or newer");
  }
  try {
    if (found.range->block.uses == nullptr) found.range->block.uses = new Uses;
    Uses& uses = *found.range->block.uses;
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
  return success();
}

Status Allocator::pin_backing(AddressMap& addresses, void* ptr) {
  Pool* owner = nullptr;
  const Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) return failure(Errc::invalid_argument, "not the beginning of a live block");
  found.pool->lock.unlock();
  // The chunks change only under the mutex; the block lives, so its chunks stay.
  const std::scoped_lock growth(owner->allocator.mutex_);
  const std::scoped_lock pool_lock(owner->lock);
  for (Address at = round_down(found.range->address, page_bytes); at < found.range->end(); at += page_bytes) {
    found.span->page(at)->pinned = true;
  }
  return success();
}

}  // namespace reprieve::memory
