#include "torch/mempools.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {

Mempools::Pool& Mempools::create(const Key& key) {
  // Any of torch's pools may be handed to a graph, before or after something was allocated in it.
  reprieve_pool made = 0;
  check(reprieve_pool_create(key.first, REPRIEVE_POOL_GRAPH, &made), "making a memory pool");
  {
    const std::scoped_lock names(ids_mutex_);
    ids_[{key.first, made}] = key.second;
  }
  Pool& pool = pools_[key];
  pool.pool = made;
  return pool;
}

void Mempools::begin(int device, Id id, Filter filter) {
  const std::scoped_lock lock(mutex_);
  const Key key{device, id};
  const auto found = pools_.find(key);
  Pool& pool = found != pools_.end() ? found->second : create(key);
  for (const Route& route : routes_) {
    TORCH_CHECK(route.device != device || route.id != id, "beginAllocateToPool: already recording to mempool_id");
  }
  ++pool.uses;
  routes_.push_back({device, id, std::move(filter)});
  routes_count_.store(static_cast<int>(routes_.size()), std::memory_order_relaxed);
  check(reprieve_capture_begin(device), "beginning to allocate to a pool");
}

void Mempools::end(int device, Id id) {
  const std::scoped_lock lock(mutex_);
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const Route& each) { return each.device == device && each.id == id; });
  TORCH_CHECK(route != routes_.end(), "endAllocatePool: not currently recording to mempool_id");
  routes_.erase(route);
  routes_count_.store(static_cast<int>(routes_.size()), std::memory_order_relaxed);
  check(reprieve_capture_end(device), "ceasing to allocate to a pool");
}

void Mempools::create_or_use(int device, Id id, std::shared_ptr<Allocator> allocator) {
  TORCH_CHECK(allocator == nullptr, "reprieve does not serve a MemPool with an allocator of its own");
  const std::scoped_lock lock(mutex_);
  const Key key{device, id};
  const auto found = pools_.find(key);
  Pool& pool = found != pools_.end() ? found->second : create(key);
  ++pool.uses;
}

void Mempools::release(int device, Id id) {
  const std::scoped_lock lock(mutex_);
  const auto found = pools_.find({device, id});
  TORCH_CHECK(found != pools_.end(), "releasePool: there is no such pool");
  if (--found->second.uses > 0) return;
  const reprieve_pool pool = found->second.pool;
  pools_.erase(found);
  {
    const std::scoped_lock names(ids_mutex_);
    ids_.erase({device, pool});
  }
  check(reprieve_pool_destroy(device, pool), "releasing a memory pool");
}

int Mempools::use_count(int device, Id id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pools_.find({device, id});
  return found == pools_.end() ? 0 : found->second.uses;
}

void Mempools::set_use_on_oom(int device, Id id, bool use) {
  const std::scoped_lock lock(mutex_);
  const auto found = pools_.find({device, id});
  TORCH_CHECK(found != pools_.end(), "setUseOnOOM: there is no such pool");
  found->second.use_on_oom = use;
}

void Mempools::set_no_split(int device, Id id) {
  const std::scoped_lock lock(mutex_);
  TORCH_CHECK(pools_.count({device, id}) != 0, "setNoSplit: there is no such pool");
}

reprieve_pool Mempools::route(int device, cudaStream_t stream) const {
  const std::scoped_lock lock(mutex_);
  // Of nested ones, the innermost.
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->device == device && route->filter(stream)) return pools_.at({device, route->id}).pool;
  }
  return 0;
}

std::vector<reprieve_pool> Mempools::for_oom(int device) const {
  const std::scoped_lock lock(mutex_);
  std::vector<reprieve_pool> out;
  for (const auto& [key, pool] : pools_) {
    if (key.first == device && pool.use_on_oom) out.push_back(pool.pool);
  }
  return out;
}

std::optional<reprieve_pool> Mempools::find(int device, Id id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pools_.find({device, id});
  if (found == pools_.end()) return {};
  return found->second.pool;
}

Mempools::Id Mempools::id_of(int device, reprieve_pool pool) const {
  if (pool == 0) return {0, 0};
  const std::scoped_lock lock(ids_mutex_);
  const auto found = ids_.find({device, pool});
  return found == ids_.end() ? Id{0, 0} : found->second;
}

}  // namespace reprieve::torch_adapter
