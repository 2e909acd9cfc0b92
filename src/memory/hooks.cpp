#include "memory/hooks.hpp"

#include "memory/allocator.hpp"

namespace reprieve::memory {

void Allocator::tell_segment(const Pool& pool, bool backed, Address at, std::uint64_t bytes) const {
  const Hooks* const hooks = hooks_.load(std::memory_order_acquire);
  if (hooks == nullptr || hooks->segment == nullptr) return;
  hooks->segment(hooks->user, device_.properties().ordinal, backed, at, bytes, pool.key.stream.stream, pool.key.id);
}

void Allocator::tell_deferred_free(Address at) const {
  const Hooks* const hooks = hooks_.load(std::memory_order_acquire);
  if (hooks == nullptr || hooks->deferred_free == nullptr) return;
  hooks->deferred_free(hooks->user, device_.properties().ordinal, at);
}

void Allocator::let_others_collect() const {
  thread_local bool collecting = false;
  const Hooks* const hooks = hooks_.load(std::memory_order_acquire);
  if (hooks == nullptr || hooks->collect == nullptr || collecting) return;
  struct Guard {
    Guard() { collecting = true; }
    ~Guard() { collecting = false; }
  };
  const Guard guard;
  hooks->collect(hooks->user, device_.properties().ordinal);
}

bool Allocator::wait_for(Mark& mark, std::chrono::nanoseconds timeout, Status& status) const {
  const Hooks* const hooks = hooks_.load(std::memory_order_acquire);
  if (hooks == nullptr || hooks->wait_begin == nullptr || hooks->wait_end == nullptr) return mark.wait(timeout, status);
  void* const token = hooks->wait_begin(hooks->user);
  const bool passed = mark.wait(timeout, status);
  hooks->wait_end(hooks->user, token);
  return passed;
}

}  // namespace reprieve::memory
