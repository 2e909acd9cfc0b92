// All pools of a device locked at once: where totals are looked at, and where the pools' allowances are dealt.
#pragma once

#include "memory/allocator.hpp"

namespace reprieve::memory {

// Precondition: the allocator's mutex is held, and of the pools' locks at most that of `locked`, which stays locked.
class AllPools {
 public:
  AllPools(Allocator& allocator, Pool* locked) : allocator_(allocator), locked_(locked) {
    for (const auto& pool : allocator_.pools_) {
      if (pool.get() != locked_) pool->lock.lock();
    }
  }
  ~AllPools() {
    for (const auto& pool : allocator_.pools_) {
      if (pool.get() != locked_) pool->lock.unlock();
    }
  }
  AllPools(const AllPools&) = delete;
  AllPools& operator=(const AllPools&) = delete;

  std::int64_t sum(Metric metric) const;
  std::int64_t sum(Metric metric, BlockKind kind) const;

  // Takes the totals into the peaks and deals what is left below each peak to the pools and their arenas.
  void deal();

  // Forgets the peaks: they are now the totals.
  void reset_peaks();

 private:
  template <typename CurrentOf, typename AllowanceOf>
  void deal_out(std::int64_t slack, CurrentOf&& current_of, AllowanceOf&& allowance_of);
  void count_segments();

  Allocator& allocator_;
  Pool* locked_;
};

}  // namespace reprieve::memory
