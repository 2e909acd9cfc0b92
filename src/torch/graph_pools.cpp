// Graphs' private pools: routing while a graph is captured, and states that a tree of graphs goes back to.
#include <c10/cuda/CUDAFunctions.h>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {
namespace {

struct Block {
  void* ptr = nullptr;
  size_t requested = 0;
  reprieve_stream stream = nullptr;
};

// The live blocks of a pool.
std::vector<Block> live_blocks(int device, reprieve_pool pool) {
  struct Looking {
    reprieve_pool pool;
    bool inside = false;
    reprieve_stream stream = nullptr;
    std::vector<Block> found{};
  } looking{pool};
  reprieve_visitor visitor{};
  visitor.size = sizeof visitor;
  visitor.user = &looking;
  visitor.segment = [](void* user, const reprieve_segment_info* segment) {
    auto& state = *static_cast<Looking*>(user);
    state.inside = segment->pool == state.pool;
    state.stream = segment->stream;
  };
  visitor.block = [](void* user, const reprieve_block_info* block) {
    auto& state = *static_cast<Looking*>(user);
    if (state.inside && block->state == REPRIEVE_BLOCK_LIVE) {
      state.found.push_back({block->address, block->requested, state.stream});
    }
  };
  check(reprieve_visit(device, &visitor), "looking at a pool");
  return looking.found;
}

struct PoolState final : compat::cca::AllocatorState {
  MempoolId_t id;
  std::vector<Block> blocks;
};

}  // namespace

void Adapter::beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) {
  pools_.begin(device, pool, std::move(filter));
  watch();
}

void Adapter::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
  pools_.end(device, pool);
  watch();
}

void Adapter::releasePool(DeviceIndex device, MempoolId_t pool) { pools_.release(device, pool); }
int Adapter::getPoolUseCount(DeviceIndex device, MempoolId_t pool) { return pools_.use_count(device, pool); }
void Adapter::createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) {
  pools_.create_or_use(device, pool, std::move(allocator));
}
void Adapter::setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use_on_oom) {
  pools_.set_use_on_oom(device, pool, use_on_oom);
}
void Adapter::setNoSplit(DeviceIndex device, MempoolId_t pool) { pools_.set_no_split(device, pool); }

// Told from 2.13 on around a capture; the route to its pool has said as much.
void Adapter::markCaptureBegin(DeviceIndex) {}
void Adapter::markCaptureEnd(DeviceIndex) {}

bool Adapter::checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id, const std::unordered_set<void*>& expected) {
  const auto pool = pools_.find(device, id);
  TORCH_CHECK(pool.has_value(), "Could not find pool of id");
  const std::vector<Block> live = live_blocks(device, *pool);
  if (live.size() != expected.size()) return false;
  for (const Block& block : live) {
    if (expected.count(block.ptr) == 0) return false;
  }
  return true;
}

std::shared_ptr<compat::cca::AllocatorState> Adapter::getCheckpointState(DeviceIndex device, MempoolId_t id) {
  const auto pool = pools_.find(device, id);
  TORCH_CHECK(pool.has_value(), "Could not find pool of id");
  auto state = std::make_shared<PoolState>();
  state->id = id;
  state->blocks = live_blocks(device, *pool);
  return state;
}

compat::cca::CheckpointDelta Adapter::setCheckpointPoolState(DeviceIndex device,
                                                             std::shared_ptr<compat::cca::AllocatorState> state) {
  const auto wanted = std::dynamic_pointer_cast<PoolState>(state);
  TORCH_CHECK(wanted != nullptr, "the checkpoint is another allocator's");
  const auto pool = pools_.find(device, wanted->id);
  TORCH_CHECK(pool.has_value(), "the checkpoint's pool has been released");
  compat::cca::CheckpointDelta delta;
  for (const Block& block : live_blocks(device, *pool)) {
    delete_block(block.ptr);
    delta.ptrs_freed.push_back(block.ptr);
  }
  for (const Block& block : wanted->blocks) {
    check(reprieve_alloc_at(block.ptr, block.requested, device, block.stream, *pool), "restoring a graph's pool");
    delta.dataptrs_allocd.emplace_back(block.ptr, block.ptr, &delete_block, c10::Device(c10::kCUDA, device));
  }
  return delta;
}

}  // namespace reprieve::torch_adapter
