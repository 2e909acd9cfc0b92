#include "memory/visit.hpp"

#include "memory/all_pools.hpp"
#include "memory/block_path.hpp"

namespace reprieve::memory {
namespace {

BlockView view_of(const Range& range) {
  const bool live = range.state == RangeState::live;
  const std::size_t others = live && range.block.uses != nullptr ? range.block.uses->size() : 0;
  return {range.address, range.size, range.state == RangeState::free ? 0 : range.block.requested, range.state, others};
}

SegmentView segment_from(const Pool& pool, const Arena& arena, const Range& first) {
  SegmentView segment{first.address, 0, pool.key.stream, pool.key.id, arena.kind(), 0};
  for (const Range* range = &first; range != nullptr; range = range->next) {
    segment.bytes += range->size;
    ++segment.blocks;
  }
  return segment;
}

}  // namespace

void Allocator::visit(Visitor& visitor) {
  const std::scoped_lock lock(mutex_);
  const AllPools all(*this, nullptr);
  for (const auto& pool : pools_) {
    for (const Arena* arena : {&pool->small, &pool->large}) {
      arena->store().for_each([&](const Range& range) {
        if (range.prev != nullptr) return;
        visitor.segment(segment_from(*pool, *arena, range));
        for (const Range* each = &range; each != nullptr; each = each->next) visitor.block(view_of(*each));
      });
    }
  }
}

Status Allocator::locate(const AddressMap& addresses, void* ptr, BlockPlace& out) {
  Pool* owner = nullptr;
  const Found found = lock_live(addresses, ptr, owner);
  if (found.range == nullptr) return failure(Errc::invalid_argument, "not the beginning of a live block");
  const std::unique_lock<PoolLock> lock(found.pool->lock, std::adopt_lock);
  const Range* first = found.range;
  while (first->prev != nullptr) first = first->prev;
  out.block = view_of(*found.range);
  out.segment = segment_from(*found.pool, *found.arena, *first);
  out.device = owner->allocator.device().properties().ordinal;
  return success();
}

}  // namespace reprieve::memory
