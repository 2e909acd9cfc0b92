// Pools of memory in stream order.
#include <algorithm>
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

StreamPool* Machine::find_pool(PoolId pool) {
  const auto found = pools_.find(pool);
  return found != pools_.end() && !found->second->destroyed ? found->second.get() : nullptr;
}

StreamPool* Machine::pool_of(std::uint64_t address) {
  for (const auto& [id, pool] : pools_) {
    if (pool->holds(address)) return pool.get();
  }
  return nullptr;
}

Code Machine::pool_create(int device, PoolId& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  if (!is_device(device)) return Code::invalid_device;
  out = next_pool_++;
  pools_.emplace(out, std::make_unique<StreamPool>(device));
  return Code::success;
}

Code Machine::pool_destroy(PoolId id) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  StreamPool* pool = find_pool(id);
  if (pool == nullptr || id == default_pool(pool->device)) return Code::invalid_value;
  pool->destroyed = true;
  pool->stats.release_threshold_bytes = 0;
  trim(*pool, 0);
  return Code::success;
}

Code Machine::pool_stats(PoolId id, PoolStats& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  const StreamPool* pool = find_pool(id);
  if (pool == nullptr) return Code::invalid_value;
  out = pool->stats;
  return Code::success;
}

Code Machine::pool_set_release_threshold(PoolId id, std::uint64_t bytes) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  StreamPool* pool = find_pool(id);
  if (pool == nullptr) return Code::invalid_value;
  pool->stats.release_threshold_bytes = bytes;
  return Code::success;
}

Code Machine::pool_reset_high(PoolId id, bool reserved, bool used) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  StreamPool* pool = find_pool(id);
  if (pool == nullptr) return Code::invalid_value;
  if (reserved) pool->stats.reserved_high_bytes = pool->stats.reserved_bytes;
  if (used) pool->stats.used_high_bytes = pool->stats.used_bytes;
  return Code::success;
}

Code Machine::pool_trim(PoolId id, std::uint64_t keep_bytes) {
  Turn turn(*this);
  if (const Code code = turn.begin(); code != Code::success) return code;
  StreamPool* pool = find_pool(id);
  if (pool == nullptr) return Code::invalid_value;
  if (const Code code = check_unsafe_call(); code != Code::success) return code;
  trim(*pool, keep_bytes);
  return Code::success;
}

void Machine::trim(StreamPool& pool, std::uint64_t keep_bytes) {
  for (const std::uint64_t base : pool.release_segments(keep_bytes)) {
    const auto mapping = space_.find_mapping(base);
    spend(costs::free_ns(mapping->bytes));
    space_.free(mapping);
  }
}

void Machine::trim_at_synchronization(int device) {
  for (const auto& [id, pool] : pools_) {
    if (pool->device != device || pool->stats.reserved_bytes <= pool->stats.release_threshold_bytes) continue;
    trim(*pool, pool->stats.release_threshold_bytes);
  }
  std::erase_if(pools_,
                [](const auto& entry) { return entry.second->destroyed && entry.second->stats.reserved_bytes == 0; });
}

// A segment for the pool; where the device is full, out of what all its pools have free.
Code Machine::grow_pool(StreamPool& pool, std::uint64_t bytes) {
  std::uint64_t address = 0;
  const auto take = [&](std::uint64_t unit) {
    const std::uint64_t whole = round_up(bytes, unit);
    const Code code = space_.allocate(PointerKind::pooled, pool.device, whole, address);
    if (code == Code::success) pool.add_segment(address, whole);
    return code;
  };
  spend(costs::malloc_ns(bytes));
  if (bytes > space_.device_memory(pool.device).capacity) return Code::out_of_memory;
  Code code = take(StreamPool::segment_unit);
  if (code == Code::success) return code;
  for (const auto& [id, other] : pools_) {
    if (other->device == pool.device) trim(*other, 0);
  }
  code = take(StreamPool::segment_unit);
  return code == Code::success ? code : take(granularity);
}

Code Machine::take_pooled(StreamPool& pool, std::uint64_t bytes, Queue& queue, std::uint64_t& out) {
  auto block = pool.take(bytes, queue, StreamPool::Reuse::ordered);
  if (!block) block = pool.take(bytes, queue, StreamPool::Reuse::completed);
  if (!block && grow_pool(pool, bytes) == Code::success) block = pool.take(bytes, queue, StreamPool::Reuse::completed);
  if (!block) {
    block = pool.take(bytes, queue, StreamPool::Reuse::waiting);
    if (!block) return Code::out_of_memory;
    if (!block->fence.passed()) enqueue_marker(queue, {block->fence.operation});
  }
  queue.clock.join(block->fence.clock);
  out = block->address;
  return Code::success;
}

// Its own mapping, so that it comes and goes apart from the pool.
Code Machine::take_for_graph(StreamPool& pool, std::uint64_t bytes, Queue& queue, std::uint64_t& out) {
  if (const Code code = space_.allocate(PointerKind::pooled, pool.device, bytes, out); code != Code::success) {
    return code;
  }
  queue.capture->graph->memory.emplace_back(nullptr, [this, address = out](std::nullptr_t) {
    if (const auto mapping = space_.find_mapping(address); mapping != nullptr) space_.free(mapping);
  });
  Node node;
  node.kind = NodeKind::malloc;
  add_node(queue, std::move(node));
  return Code::success;
}

Code Machine::malloc_async(PoolId id, std::uint64_t bytes, StreamId stream, std::uint64_t& out) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::malloc_async); code != Code::success) return code;
  spend(costs::pool_call_ns);
  StreamPool* pool = find_pool(id);
  if (pool == nullptr) return Code::invalid_value;
  Queue* queue = find_queue(pool->device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (queue->capture == nullptr) {
    if (const Code code = check_unsafe_call(); code != Code::success) return code;
  }
  if (const Code code = admit(*queue); code != Code::success) return code;
  if (bytes == 0) {
    out = 0;
    return Code::success;
  }
  return queue->capture != nullptr ? take_for_graph(*pool, bytes, *queue, out) : take_pooled(*pool, bytes, *queue, out);
}

// Memory of a graph stays the graph's: a free only ends its use.
Code Machine::free_pooled(std::uint64_t address, StreamPool::Fence fence) {
  StreamPool* pool = pool_of(address);
  if (pool == nullptr) {
    const auto mapping = space_.find_mapping(address);
    return mapping != nullptr && mapping->at == address ? Code::success : Code::invalid_value;
  }
  const auto block = pool->find_used(address);
  if (!block || block->address != address) return Code::invalid_value;
  pool->give_back(address, std::move(fence));
  return Code::success;
}

Code Machine::free_async(std::uint64_t address, int device, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::free_async); code != Code::success) return code;
  spend(costs::pool_call_ns);
  if (address == 0) return Code::success;
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (const Code code = admit(*queue); code != Code::success) return code;
  const auto mapping = space_.find_mapping(address);
  if (mapping == nullptr) return Code::invalid_value;
  if (queue->capture != nullptr) {
    if (mapping->kind != PointerKind::pooled || pool_of(address) != nullptr || mapping->at != address) {
      return Code::invalid_value;  // only what the capture itself allocated
    }
    Node node;
    node.kind = NodeKind::free;
    add_node(*queue, std::move(node));
    return Code::success;
  }
  if (mapping->kind != PointerKind::pooled) {
    if (const Code code = check_unsafe_call(); code != Code::success) return code;
    return free_waiting(turn, address);
  }
  const StreamPool* pool = pool_of(address);
  if (pool != nullptr) {
    const auto block = pool->find_used(address);
    if (!block || block->address != address) return Code::invalid_value;
  }
  StreamPool::Fence fence;
  fence.operation = enqueue_marker(*queue);
  queue->clock.set(queue->index, ++queue->uses);
  fence.queue = queue;
  fence.tick = queue->uses;
  fence.clock = queue->clock;
  return free_pooled(address, std::move(fence));
}

}  // namespace reprieve::simgpu
