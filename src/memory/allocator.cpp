#include "memory/allocator.hpp"

#include <algorithm>
#include <new>

#include "memory/all_pools.hpp"

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

void count_allocation(Counters& counters, std::uint64_t requested, std::uint64_t size) {
  counters.rise(requested_bytes, requested);
  counters.rise(allocated_bytes, size);
  counters.rise_uncounted(active_bytes, size);
  counters.rise(allocations, 1);
  counters.rise_uncounted(active_blocks, 1);
}

void raise_allowances(Counters& counters) {
  for (std::size_t m = 0; m < metric_count; ++m) counters.raise_allowance_to_current(static_cast<Metric>(m));
}

// Whether taking `size` from `range` could carry the device to a new peak. May say so where it does not.
bool may_exceed(const Counters& counters, const Range& range, std::uint64_t requested, std::uint64_t size) {
  const bool blocks = counters.would_exceed(requested_bytes, requested) ||
                      counters.would_exceed(allocated_bytes, size) || counters.would_exceed(active_bytes, size) ||
                      counters.would_exceed(allocations, 1) || counters.would_exceed(active_blocks, 1);
  // The rest of a whole segment becomes a split one.
  return blocks || (range.whole_segment() && (counters.would_exceed(inactive_split_bytes, range.size - size) ||
                                              counters.would_exceed(inactive_split_blocks, 1)));
}

// Whether freeing `range` could: it becomes split memory, unless its whole segment is free then.
bool may_exceed_when_freed(const Counters& counters, const Range& range) {
  const auto is_free = [](const Range* neighbour) {
    return neighbour != nullptr && neighbour->state == RangeState::free;
  };
  const bool before = is_free(range.prev);
  const bool after = is_free(range.next);
  const Range* const left = before ? range.prev->prev : range.prev;
  const Range* const right = after ? range.next->next : range.next;
  if (left == nullptr && right == nullptr) return false;
  return counters.would_exceed(inactive_split_bytes, range.size) ||
         (!before && !after && counters.would_exceed(inactive_split_blocks, 1));
}

}  // namespace

Allocator::Allocator(device::Device& device, AddressMap& addresses, const Settings& settings)
    : device_(device),
      addresses_(addresses),
      settings_(settings),
      id_(next_allocator_id()),
      limit_(settings.limit),
      events_(device) {}

inline void Allocator::commit(Pool& pool, Arena& arena, Range* range, std::uint64_t size, std::uint64_t requested,
                       void** out) {
  arena.take(range, size, requested);
  addresses_.find(range->address)->block_slot(range->address) = range;
  count_allocation(pool.counters, requested, size);
  *out = reinterpret_cast<void*>(range->address);
}

Allocator::~Allocator() {
  for (const auto& pool : pools_) {
    MarkRef marked;
    Status status;
    if (mark(pool->key.stream, marked).ok()) marked->wait(settings_.wait, status);
  }
  retry_failed();
  // Nobody is left to be told of an error.
  [[maybe_unused]] Status status;
  for (const auto* pools : {&pools_, &spare_pools_}) {
    for (const auto& pool : *pools) {
      for (const LimboBatch& batch : pool->limbo) {
        for (const StaleMapping& stale : batch.mappings) status = device_.unmap(stale.at, stale.chunk->bytes);
      }
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

Status Allocator::allocate(Stream stream, PoolId id, std::uint64_t bytes, void** out) {
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
    if (range != nullptr && arena.can_split() && pool->key.id == id &&
        (pool->sole || !may_exceed(pool->counters, *range, bytes, size))) [[likely]] {
      commit(*pool, arena, range, size, bytes, out);
      if (pool->sole) raise_allowances(pool->counters);
      pool->lock.unlock();
      return success();
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

  for (int round = 0;; ++round) {
    MarkRef hurdle;
    Status status;
    {
      const std::scoped_lock lock(mutex_);
      if (closed_pools_ != 0) sweep_closed();
      const std::scoped_lock pool_lock(pool.lock);
      if (pool.key.id != id) return failure(Errc::invalid_argument, "no such pool");
      arena.reserve_records(1);
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
      if (range != nullptr) commit(pool, arena, range, size, requested, out);
      AllPools(*this, &pool).deal();
      if (range != nullptr) return success();
      if (!status.is(Errc::out_of_memory)) return status;
      if (round == 0) continue;
      hurdle = unfinished(&pool);
    }
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    if (hurdle == nullptr || left.count() <= 0 || round == max_rounds) return out_of_memory(status);
    Status waited;
    if (!hurdle->wait(left, waited)) return waited.ok() ? out_of_memory(status) : waited;
  }
}

// ---- freeing ----

namespace {

struct Found {
  Pool* pool = nullptr;  // locked, where a live block was found
  Arena* arena = nullptr;
  Span* span = nullptr;
  Range* range = nullptr;
};

// Locks the pool in whose addresses `ptr` lies and looks for a live block that begins there. Without one, nothing stays
// locked; `owner` is the pool whose addresses they are, null if nobody's.
[[gnu::always_inline]] inline Found lock_live(const AddressMap& addresses, void* ptr, Pool*& owner) {
  const auto at = reinterpret_cast<Address>(ptr);
  Span* const span = addresses.find(at);
  if (span == nullptr || at >= span->base + span->bytes || at < span->base) {
    owner = nullptr;
    return {};
  }
  Arena* const arena = span->arena.load(std::memory_order_acquire);
  Pool& pool = arena->pool();
  owner = &pool;
  pool.lock.lock();
  Range* const range = span->block_slot(at);
  if (range == nullptr || range->address != at || range->state != RangeState::live) {
    pool.lock.unlock();
    return {};
  }
  return {&pool, arena, span, range};
}

}  // namespace

Status Allocator::free(AddressMap& addresses, void* ptr) { return free_checked(addresses, ptr, nullptr); }

Status Allocator::free_on(AddressMap& addresses, void* ptr, Stream stream) {
  const StreamRef after = StreamRef::here(stream);
  return free_checked(addresses, ptr, &after);
}

Status Allocator::free_checked(AddressMap& addresses, void* ptr, const StreamRef* after) {
  Pool* owner = nullptr;
  Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) {
    (owner == nullptr ? addresses.strays : owner->allocator.invalid_frees_).fetch_add(1, std::memory_order_relaxed);
    return failure(Errc::invalid_argument, "not the beginning of a live block");
  }
  auto& [pool, arena, span, range] = found;
  Allocator& allocator = pool->allocator;
  const bool used_elsewhere = range->block.uses != nullptr || (after != nullptr && *after != pool->key.stream);
  Counters& counters = pool->counters;

  if (used_elsewhere) {
    try {
      const std::unique_ptr<Uses> owned(range->block.uses);
      Uses uses;
      if (owned != nullptr) uses = std::move(*owned);
      range->block.uses = nullptr;
      if (after != nullptr && *after != pool->key.stream) uses.push_back(*after);
      range->state = RangeState::deferred;
      span->block_slot(range->address) = nullptr;
      counters.fall(requested_bytes, range->block.requested);
      counters.fall(allocated_bytes, range->size);
      counters.fall(allocations, 1);
      pool->lock.unlock();
      allocator.free_deferred(*pool, *arena, range, std::move(uses));
    } catch (const std::bad_alloc&) {
      return failure(Errc::host_memory, "no host memory for the allocator's records");
    }
    return success();
  }

  const bool at_peak = !pool->sole && may_exceed_when_freed(counters, *range);
  std::unique_lock<std::mutex> growth;
  std::unique_ptr<AllPools> all;
  if (at_peak) [[unlikely]] {
    pool->lock.unlock();
    growth = std::unique_lock(allocator.mutex_);
    all = std::make_unique<AllPools>(allocator, nullptr);
    // Another thread may have freed it meanwhile; that is the program's error, and is told like one.
    if (range->state != RangeState::live || span->block_slot(range->address) != range) {
      allocator.invalid_frees_.fetch_add(1, std::memory_order_relaxed);
      return failure(Errc::invalid_argument, "not the beginning of a live block");
    }
  }
  span->block_slot(range->address) = nullptr;
  counters.fall(requested_bytes, range->block.requested);
  counters.fall(allocated_bytes, range->size);
  counters.fall(active_bytes, range->size);
  counters.fall(allocations, 1);
  counters.fall(active_blocks, 1);
  arena->give(range, ++pool->sequence);
  if (all != nullptr) {
    all->deal();
  } else {
    if (pool->sole) {
      counters.raise_allowance_to_current(inactive_split_bytes);
      counters.raise_allowance_to_current(inactive_split_blocks);
    }
    pool->lock.unlock();
  }
  return success();
}

// The events are recorded without a lock: the block is nobody's by now.
void Allocator::free_deferred(Pool& pool, Arena& arena, Range* range, Uses uses) {
  DeferredFree deferred{range, &arena, {}, {}};
  for (const StreamRef stream : uses) {
    MarkRef marked;
    if (!capturing(stream) && mark(stream, marked).ok()) {
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
    return failure(Errc::not_supported,
                   "recording a per-thread default stream needs a driver for CUDA 12.5 or newer");
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
