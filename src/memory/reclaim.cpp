// What makes memory free again: deferred frees, limbo, other streams' progress, and the way back to the driver.
#include <algorithm>

#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"
#include "memory/free_chunks.hpp"

namespace reprieve::memory {

Status Allocator::mark(StreamRef stream, MarkRef& out) {
  if (stream == idle_stream) {
    out = events_.passed_mark();
    return success();
  }
  if (stream.reachable()) {
    const Status status = events_.mark(stream.stream, out);
    // A stream that its program has destroyed: its work ends before that of the whole context does.
    if (!status.is(Errc::invalid_argument)) return status;
  }
  if (anything_captures()) return failure(Errc::not_supported, "a stream is being captured");
  return events_.mark_all(out);
}

// Whether an event of the whole context, or one on each stream, would spoil a capture.
bool Allocator::anything_captures() {
  if (captures_.load(std::memory_order_relaxed) != 0) return true;
  return std::any_of(pools_.begin(), pools_.end(), [&](const auto& pool) {
    Status status;
    return capturing(pool->stream, status);
  });
}

// Marks all that may use the pool's free memory now. A graph is replayed on any stream.
Status Allocator::mark_users(const Pool& pool, std::vector<MarkRef>& out) {
  const auto mark_one = [&](auto&& how) {
    MarkRef marked;
    const Status status = how(marked);
    if (status.ok()) out.push_back(std::move(marked));
    return status;
  };
  if (!pool.graph) return mark_one([&](MarkRef& marked) { return mark(pool.stream, marked); });
  if (anything_captures()) return failure(Errc::not_supported, "a stream is being captured");
  if (device_.properties().context_events) {
    return mark_one([&](MarkRef& marked) { return events_.mark_all(marked); });
  }
  // An older driver: every stream that anything was ever allocated for.
  Uses streams;
  for (const auto& other : pools_) {
    if (std::find(streams.begin(), streams.end(), other->stream) == streams.end()) streams.push_back(other->stream);
  }
  for (const StreamRef stream : streams) {
    const Status status = mark_one([&](MarkRef& marked) { return mark(stream, marked); });
    if (!status.ok()) return status;
  }
  return success();
}

bool Allocator::capturing(StreamRef stream, Status& status) {
  bool result = false;
  if (stream == idle_stream) return false;
  if (!stream.reachable()) return false;  // another thread's own: none that this thread captures
  status = device_.is_capturing(stream.stream, result);
  if (status.ok()) return result;
  if (status.is(Errc::invalid_argument)) return false;  // a destroyed stream captures nothing
  // While a blocking stream captures, the legacy stream answers with an error, and to record an event on it would spoil
  // that capture (CUDA's documentation of cuStreamIsCapturing). Nothing is wrong then.
  if (stream.stream == device::legacy_stream) status = success();
  return true;
}

void Allocator::note(const Status& status) {
  if (status.is(Errc::device_error) && trouble_.ok()) trouble_ = status;
}

void Allocator::finish_deferred(Pool& pool) {
  Uses behind;  // streams found not to have got there: what was marked later has not either
  const auto finished = [&](DeferredFree& entry) {
    std::erase_if(entry.unmarked, [&](StreamRef stream) {
      MarkRef marked;
      Status status;
      if (!capturing(stream, status)) status = mark(stream, marked);
      note(status);
      if (marked == nullptr) return false;
      entry.marks.emplace_back(stream, std::move(marked));
      return true;
    });
    std::erase_if(entry.marks, [&](const auto& use) {
      if (std::find(behind.begin(), behind.end(), use.first) != behind.end()) return false;
      Status status;
      if (use.second->passed(status)) return true;
      note(status);
      behind.push_back(use.first);
      return false;
    });
    if (!entry.unmarked.empty() || !entry.marks.empty()) return false;
    entry.arena->counters.deferral_ended(static_cast<std::int64_t>(entry.range->size));
    tell_deferred_free(entry.range->address);
    entry.arena->give(entry.range, ++pool.sequence);
    return true;
  };
  std::erase_if(pool.deferred, finished);
}

// What was kept for graphs goes with their pool, what was kept because of a capture goes after it.
void Allocator::settle_kept(Pool& pool) {
  if (pool.kept.empty() || (pool.graph && !pool.closed())) return;
  Status asked;
  if (capturing(pool.stream, asked)) return;
  LimboBatch batch;
  pool.limbo.emplace_back();  // what needs memory comes first
  if (const Status marked = mark_users(pool, batch.marks); !marked.ok()) {
    note(marked);
    pool.limbo.pop_back();
    return;
  }
  batch.mappings.swap(pool.kept);
  for (const StaleMapping& stale : batch.mappings) limbo_bytes_ += static_cast<std::int64_t>(stale.chunk->bytes);
  pool.limbo.back() = std::move(batch);
}

void Allocator::finish_limbo(Pool& pool) {
  settle_kept(pool);
  while (!pool.limbo.empty()) {
    Status status;
    if (!pool.limbo.front().passed(status)) {
      note(status);
      return;
    }
    for (const StaleMapping& stale : pool.limbo.front().mappings) {
      limbo_bytes_ -= static_cast<std::int64_t>(stale.chunk->bytes);
      retire(stale);
    }
    pool.limbo.pop_front();
  }
}

// Learns which of the pool's frees the GPU has got past, and asks anew where it does not know of all.
void Allocator::refresh_probe(Pool& pool) {
  Status status;
  if (pool.probe != nullptr && pool.probe->passed(status)) {
    pool.finished = pool.probe_sequence;
    pool.probe = nullptr;
  }
  note(status);
  if (pool.probe != nullptr || pool.finished == pool.sequence) return;
  MarkRef marked;
  if (!capturing(pool.stream, status)) status = mark(pool.stream, marked);
  note(status);
  if (marked == nullptr) return;
  pool.probe_sequence = pool.sequence;
  if (marked->passed(status)) {
    pool.finished = pool.sequence;
  } else {
    pool.probe = std::move(marked);
  }
}

void Allocator::collect(Pool* locked) {
  driver_free_left_ = 0;  // others may have given memory back since
  retry_failed();
  for (const auto& pool : pools_) {
    std::unique_lock<PoolLock> lock(pool->lock, std::defer_lock);
    if (pool.get() != locked) lock.lock();
    finish_deferred(*pool);
    finish_limbo(*pool);
    if (pool.get() != locked && !pool->is_private()) refresh_probe(*pool);
  }
}

// Something whose end would make memory free; null if there is nothing to wait for.
MarkRef Allocator::unfinished(Pool* locked) {
  for (const auto& pool : pools_) {
    for (const LimboBatch& batch : pool->limbo) {
      const bool returns = std::any_of(batch.mappings.begin(), batch.mappings.end(),
                                       [](const StaleMapping& stale) { return stale.chunk->doomed; });
      if (returns) return batch.hurdle();
    }
    std::unique_lock<PoolLock> lock(pool->lock, std::defer_lock);
    if (pool.get() != locked) lock.lock();
    for (const DeferredFree& entry : pool->deferred) {
      if (!entry.marks.empty()) return entry.marks.front().second;
    }
    if (pool.get() != locked && pool->probe != nullptr) return pool->probe;
  }
  return nullptr;
}

// Sends wholly free chunks, the largest first, on their way back to the driver: at most most_bytes of them, and one
// more if what is then left is less than any chunk.
void Allocator::send_back(Pool& pool, std::uint64_t most_bytes) {
  if (most_bytes == 0) return;
  Status asked;
  const bool busy = capturing(pool.stream, asked);
  note(asked);
  if (busy) return;
  struct Leaving {
    Range* range;
    Chunk* chunk;
    Arena* arena;
  };
  std::vector<Leaving> leaving;
  for (Arena* arena : {&pool.large, &pool.small}) {
    for_each_free_chunk(*arena, [&](Range& range, Chunk& chunk) { leaving.push_back({&range, &chunk, arena}); });
  }
  std::sort(leaving.begin(), leaving.end(),
            [](const Leaving& a, const Leaving& b) { return a.chunk->bytes > b.chunk->bytes; });
  std::vector<Leaving> chosen;
  std::vector<Leaving> too_large;
  for (const Leaving& each : leaving) {
    if (each.chunk->bytes <= most_bytes) {
      chosen.push_back(each);
      most_bytes -= each.chunk->bytes;
    } else {
      too_large.push_back(each);
    }
  }
  if (most_bytes > 0 && !too_large.empty()) chosen.push_back(too_large.back());
  if (chosen.empty()) return;

  LimboBatch batch;
  batch.mappings.reserve(chosen.size());
  pool.small.reserve_records(chosen.size());
  pool.large.reserve_records(chosen.size());
  if (const Status marked = mark_users(pool, batch.marks); !marked.ok()) {
    note(marked);
    return;
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Leaving& a, const Leaving& b) { return a.chunk->home > b.chunk->home; });
  for (const Leaving& each : chosen) {
    Span& span = *addresses_.find(each.chunk->home);
    each.arena->detach(each.range, *each.chunk, span);
    tell_segment(pool, false, each.chunk->home, each.chunk->bytes);
    batch.mappings.push_back({each.chunk, each.chunk->home, &span});
    limbo_bytes_ += static_cast<std::int64_t>(each.chunk->bytes);
    doom(each.chunk);
  }
  pool.limbo.push_back(std::move(batch));
}

Status Allocator::trim(std::uint64_t keep_bytes) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + settings_.wait;
  Status trouble;
  try {
    {
      const std::scoped_lock lock(mutex_);
      trouble_ = success();
      collect(nullptr);
      for (const auto& pool : pools_) {
        if (pool->graph && !pool->closed()) continue;
        const std::scoped_lock pool_lock(pool->lock);
        const std::int64_t staying = reserved_.all.current - doomed_bytes_;
        const auto keep = static_cast<std::int64_t>(std::min<std::uint64_t>(keep_bytes, INT64_MAX));
        if (staying > keep) send_back(*pool, static_cast<std::uint64_t>(staying - keep));
        finish_limbo(*pool);
      }
      AllPools(*this, nullptr).deal();
      trouble = trouble_;
    }
    for (;;) {
      MarkRef hurdle;
      {
        const std::scoped_lock lock(mutex_);
        for (const auto& pool : pools_) {
          finish_limbo(*pool);
          if (hurdle == nullptr && !pool->limbo.empty()) hurdle = pool->limbo.front().hurdle();
        }
        retry_failed();
        if (doomed_bytes_ == 0 || hurdle == nullptr) break;
      }
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
      Status status;
      if (left.count() <= 0 || !wait_for(*hurdle, left, status)) return status;
    }
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
  return trouble;
}

Status Allocator::forget_stream(Stream handle) {
  const StreamRef gone = StreamRef::here(handle);
  if (const Status status = device_.stream_synchronize(gone.stream); !status.ok()) return status;
  const std::scoped_lock lock(mutex_);
  const auto forget = [&](Uses& uses) { std::erase(uses, gone); };
  for (const auto& pool : pools_) {
    const std::scoped_lock pool_lock(pool->lock);
    if (pool->stream == gone) {
      pool->stream = idle_stream;
      if (!pool->closed()) pool->serving = dormant_pool;
    }
    for (DeferredFree& entry : pool->deferred) forget(entry.unmarked);
    for (const Arena* arena : {&pool->small, &pool->large}) {
      arena->store().for_each([&](Range& range) {
        if (range.state == RangeState::live && range.block.uses != nullptr) forget(*range.block.uses);
      });
    }
  }
  return success();
}

void Allocator::set_limit(std::uint64_t bytes) {
  limit_.store(bytes, std::memory_order_relaxed);
  if (bytes == 0) return;
  const std::scoped_lock lock(mutex_);
  for (const auto& pool : pools_) {
    if (pool->graph && !pool->closed()) continue;
    const std::scoped_lock pool_lock(pool->lock);
    const std::int64_t excess = reserved_.all.current - doomed_bytes_ - static_cast<std::int64_t>(bytes);
    if (excess > 0) send_back(*pool, static_cast<std::uint64_t>(excess));
    finish_limbo(*pool);
  }
  AllPools(*this, nullptr).deal();
}

// The free memory of destroyed pools goes back; a pool with nothing left serves another owner.
void Allocator::sweep_closed() {
  for (std::size_t i = 0; i < pools_.size();) {
    Pool& pool = *pools_[i];
    bool empty = false;
    if (pool.closed()) {
      const std::scoped_lock pool_lock(pool.lock);
      finish_deferred(pool);
      send_back(pool, INT64_MAX);
      finish_limbo(pool);
      empty = pool.limbo.empty() && pool.kept.empty() && pool.deferred.empty() && pool.small.segments() == 0 &&
              pool.large.segments() == 0;
    }
    if (empty) {
      recycle(pool);
      --closed_pools_;
    } else {
      ++i;
    }
  }
}

// Unmaps what nothing can touch any more. What the driver refuses is kept, and tried again later.
void Allocator::retire(const StaleMapping& stale) {
  if (!device_.unmap(stale.at, stale.chunk->bytes).ok()) {
    failed_unmaps_.push_back(stale);
    return;
  }
  stale.span->holes.add(stale.at, stale.chunk->bytes);
  --stale.chunk->mappings;
  if (stale.chunk->doomed && stale.chunk->mappings == 0) release(stale.chunk);
}

void Allocator::release(Chunk* chunk) {
  if (!device_.release(chunk->handle).ok()) {
    failed_releases_.push_back(chunk);
    return;
  }
  const auto bytes = static_cast<std::int64_t>(chunk->bytes);
  for (Counter* counter : {&reserved_.all, &reserved_.of(chunk->kind)}) {
    counter->current -= bytes;
    counter->freed += bytes;
  }
  driver_free_left_ = 0;
  doomed_bytes_ -= bytes;
  chunks_.back()->index = chunk->index;
  std::swap(chunks_[chunk->index], chunks_.back());
  chunks_.pop_back();
}

void Allocator::retry_failed() {
  const auto unmaps = std::exchange(failed_unmaps_, {});
  for (const StaleMapping& stale : unmaps) retire(stale);
  const auto releases = std::exchange(failed_releases_, {});
  for (Chunk* chunk : releases) release(chunk);
}

Chunk* Allocator::add_chunk(device::Handle handle, std::uint64_t bytes, BlockKind kind) {
  auto chunk = std::make_unique<Chunk>();
  chunk->handle = handle;
  chunk->bytes = bytes;
  chunk->kind = kind;
  chunk->index = chunks_.size();
  chunks_.push_back(std::move(chunk));
  for (Counter* counter : {&reserved_.all, &reserved_.of(kind)}) {
    counter->current += static_cast<std::int64_t>(bytes);
    counter->allocated += static_cast<std::int64_t>(bytes);
    counter->peak = std::max(counter->peak, counter->current);
  }
  driver_free_ -= std::min(driver_free_, bytes);
  driver_free_left_ -= static_cast<std::int64_t>(bytes);
  return chunks_.back().get();
}

// The chunk's next home is in an arena of that kind.
void Allocator::give_to(BlockKind kind, Chunk& chunk) {
  if (chunk.kind == kind) return;
  const auto bytes = static_cast<std::int64_t>(chunk.bytes);
  Counter& from = reserved_.of(chunk.kind);
  from.current -= bytes;
  from.freed += bytes;
  Counter& to = reserved_.of(kind);
  to.current += bytes;
  to.allocated += bytes;
  to.peak = std::max(to.peak, to.current);
  chunk.kind = kind;
}

// From now on the chunk only waits for its last mapping to go.
void Allocator::doom(Chunk* chunk) {
  chunk->home = 0;
  chunk->doomed = true;
  doomed_bytes_ += static_cast<std::int64_t>(chunk->bytes);
  if (chunk->mappings == 0) release(chunk);
}

}  // namespace reprieve::memory
