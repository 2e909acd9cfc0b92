// torch's memory pools: graphs' private pools and torch.cuda.MemPool, and which allocations go to which.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "reprieve/reprieve.h"

namespace reprieve::torch_adapter {

class Mempools {
 public:
  using Id = c10::MempoolId_t;
  using Filter = std::function<bool(cudaStream_t)>;
  using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

  // Allocations of the device on streams for which the filter holds go to the pool, until end(). Counts as a use of it.
  void begin(int device, Id id, Filter filter);
  void end(int device, Id id);

  void create_or_use(int device, Id id, std::shared_ptr<Allocator> allocator);
  // One use less; with the last, the pool's memory goes as its blocks are freed.
  void release(int device, Id id);
  int use_count(int device, Id id) const;
  void set_use_on_oom(int device, Id id, bool use);
  void set_no_split(int device, Id id);

  // Whether any allocation may have to go to a pool.
  bool routing() const { return routes_count_.load(std::memory_order_relaxed) != 0; }
  // The pool for an allocation now; 0: the stream's default pool.
  reprieve_pool route(int device, cudaStream_t stream) const;
  // The pools that may be used when everything else has failed.
  std::vector<reprieve_pool> for_oom(int device) const;

  std::optional<reprieve_pool> find(int device, Id id) const;
  // torch's name for a pool of the library's; {0, 0} for its default pools, and for those released meanwhile.
  Id id_of(int device, reprieve_pool pool) const;

 private:
  struct Pool {
    reprieve_pool pool = 0;
    int uses = 0;
    bool use_on_oom = false;
  };
  struct Route {
    int device = 0;
    Id id;
    Filter filter;
  };
  using Key = std::pair<int, Id>;

  Pool& create(const Key& key);

  mutable std::mutex mutex_;  // taken before the library's locks
  std::map<Key, Pool> pools_;
  std::vector<Route> routes_;
  mutable std::mutex ids_mutex_;  // taken after them: segment hooks ask for names
  std::map<std::pair<int, reprieve_pool>, Id> ids_;
  std::atomic<int> routes_count_{0};
};

}  // namespace reprieve::torch_adapter
