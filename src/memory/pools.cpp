// Finding, making, destroying and reusing pools.
#include <algorithm>
#include <array>
#include <atomic>

#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"
#include "memory/pool_cache.hpp"

namespace reprieve::memory {

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last{0};
  [[gnu::tls_model("initial-exec")]] thread_local std::uint64_t mine = 0;
  if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<CachedPool, cached_pools> pool_cache{};

Pool* Allocator::find_pool_slowly(Stream stream, PoolId id, CachedPool& cached) {
  Pool* const pool = lookup_pool({StreamRef::here(stream), id});
  if (pool != nullptr) cached = {id_, stream, id, pool};
  return pool;
}

Pool* Allocator::lookup_pool(const PoolKey& key) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = pool_of_.find(key); found != pool_of_.end()) return found->second;
  bool graph = false;
  if (key.id != 0) {
    const auto found = private_pools_.find(key.id);
    if (found == private_pools_.end()) return nullptr;
    graph = found->second;
  }
  std::unique_ptr<Pool> pool;
  if (!spare_pools_.empty()) {
    pool = std::move(spare_pools_.back());
    spare_pools_.pop_back();
    const std::scoped_lock pool_lock(pool->lock);  // a stray pointer's lookup may be reading the pool
    pool->key = key;
    pool->serving = key.id;
    pool->stream = key.stream;
    pool->graph = graph;
  } else {
    pool = std::make_unique<Pool>(*this, key, graph);
  }
  Pool* const raw = pool.get();
  pool_of_.emplace(key, raw);
  pools_.push_back(std::move(pool));
  AllPools all(*this, nullptr);
  raw->sole = false;
  all.deal();
  return raw;
}

Status Allocator::add_peer(int ordinal) {
  try {
    const std::scoped_lock lock(mutex_);
    if (ordinal == device_.properties().ordinal) return success();
    if (std::find(peers_.begin(), peers_.end(), ordinal) != peers_.end()) return success();
    peers_.push_back(ordinal);
    Status status;
    for (const auto& chunk : chunks_) {
      if (status.ok() && chunk->home != 0) status = device_.set_access(chunk->home, chunk->bytes, peers_);
    }
    for (const auto& pool : pools_) {
      for (const StaleMapping& kept : pool->kept) {
        if (status.ok()) status = device_.set_access(kept.at, kept.chunk->bytes, peers_);
      }
    }
    // A device that can use some of the memory and not the rest is no peer.
    if (!status.ok()) peers_.pop_back();
    return status;
  } catch (const std::bad_alloc&) {
    return failure(Errc::host_memory, "no host memory for the allocator's records");
  }
}

Status Allocator::create_pool(bool graph, PoolId& out) {
  const std::scoped_lock lock(mutex_);
  private_pools_.emplace(next_pool_, graph);
  out = next_pool_++;
  return success();
}

Status Allocator::destroy_pool(PoolId id) {
  const std::scoped_lock lock(mutex_);
  if (private_pools_.erase(id) == 0) return failure(Errc::invalid_argument, "no such pool");
  for (auto entry = pool_of_.begin(); entry != pool_of_.end();) {
    if (entry->first.id != id) {
      ++entry;
      continue;
    }
    Pool& pool = *entry->second;
    entry = pool_of_.erase(entry);
    const std::scoped_lock pool_lock(pool.lock);
    pool.serving = closed_pool;
    ++closed_pools_;
  }
  sweep_closed();
  AllPools(*this, nullptr).deal();  // frees that ended here may have made a new peak of split memory
  return success();
}

void Allocator::recycle(Pool& pool) {
  const auto position =
      std::find_if(pools_.begin(), pools_.end(), [&](const auto& owned) { return owned.get() == &pool; });
  AllPools all(*this, nullptr);
  all.deal();
  spare_pools_.push_back(std::move(*position));
  pools_.erase(position);
  spare_pools_.back()->lock.unlock();
  all.deal();
}

}  // namespace reprieve::memory
