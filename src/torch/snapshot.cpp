// What torch.cuda.memory_snapshot() shows, and what else asks where memory lies.
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "torch/adapter.hpp"

namespace reprieve::torch_adapter {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

struct Seen {
  std::vector<reprieve_segment_info> segments;
  std::vector<reprieve_block_info> blocks;
};

Seen look(int device) {
  Seen seen;
  reprieve_visitor visitor{};
  visitor.size = sizeof visitor;
  visitor.user = &seen;
  visitor.segment = [](void* user, const reprieve_segment_info* segment) {
    static_cast<Seen*>(user)->segments.push_back(*segment);
  };
  visitor.block = [](void* user, const reprieve_block_info* block) {
    static_cast<Seen*>(user)->blocks.push_back(*block);
  };
  check(reprieve_visit(device, &visitor), "looking at memory");
  return seen;
}

}  // namespace

compat::cca::SnapshotInfo Adapter::snapshot(MempoolId_t pool, bool include_traces) {
  compat::cca::SnapshotInfo out;
  const int devices = c10::cuda::device_count();
  // Before this snapshot's own entries: those are for the next.
  if (include_traces) {
    out.device_traces = history_.entries(devices);
    out.external_annotations = history_.annotations();
  }
  for (int device = 0; initialized() && device < devices; ++device) {
    const Seen seen = look(device);
    size_t active = 0;
    auto block = seen.blocks.begin();
    for (const reprieve_segment_info& from : seen.segments) {
      const auto first = block;
      block += static_cast<std::ptrdiff_t>(from.blocks);
      const MempoolId_t owner = pools_.id_of(device, from.pool);
      if (pool != MempoolId_t{0, 0} && owner != pool) continue;
      SegmentInfo segment;
      segment.device = static_cast<DeviceIndex>(device);
      segment.address = reinterpret_cast<size_t>(from.address);
      segment.total_size = from.bytes;
      segment.stream = from.stream;
      segment.is_large = from.large != 0;
      segment.is_expandable = true;
      segment.owner_private_pool_id = owner;
      for (auto each = first; each != block; ++each) {
        BlockInfo info;
        info.size = each->bytes;
        info.requested_size = each->requested;
        info.allocated = each->state == REPRIEVE_BLOCK_LIVE;
        info.active = each->state != REPRIEVE_BLOCK_FREE;
        info.context_when_allocated = history_.context_of(each->address);
        segment.requested_size += info.requested_size;
        segment.allocated_size += info.allocated ? info.size : 0;
        segment.active_size += info.active ? info.size : 0;
        segment.blocks.push_back(std::move(info));
      }
      active += segment.active_size;
      out.segments.push_back(std::move(segment));
    }
    history_.record(c10::CachingDeviceAllocator::TraceEntry::SNAPSHOT, device, 0, active, nullptr, pool, nullptr);
  }
  std::sort(out.segments.begin(), out.segments.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.address < b.address; });

  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  auto& config = out.config_metadata;
  config.garbage_collection_threshold = Config::garbage_collection_threshold();
  config.max_split_size = Config::max_split_size();
  config.pinned_num_register_threads = compat::cca::CUDAAllocatorConfig::pinned_num_register_threads();
  config.expandable_segments = Config::use_expandable_segments();
  config.release_lock_on_malloc = compat::cca::CUDAAllocatorConfig::release_lock_on_cudamalloc();
  config.pinned_use_host_register = compat::cca::CUDAAllocatorConfig::pinned_use_cuda_host_register();
  config.graph_capture_record_stream_reuse = compat::cca::CUDAAllocatorConfig::graph_capture_record_stream_reuse();
  config.last_allocator_settings = c10::CachingAllocator::getAllocatorSettings();
  config.roundup_power2_divisions = Config::roundup_power2_divisions();
  return out;
}

std::vector<compat::cca::StreamSegmentSize> Adapter::getExpandableSegmentSizes(DeviceIndex device) {
  std::vector<compat::cca::StreamSegmentSize> out;
  for (const reprieve_segment_info& segment : look(device).segments) {
    const auto same = [&](const compat::cca::StreamSegmentSize& each) {
      return each.stream == segment.stream && each.is_small_pool == (segment.large == 0);
    };
    const auto found = std::find_if(out.begin(), out.end(), same);
    if (found != out.end()) {
      found->total_size += segment.bytes;
    } else {
      out.emplace_back(segment.stream, segment.large == 0, segment.bytes);
    }
  }
  return out;
}

void Adapter::cacheInfo(DeviceIndex device, size_t* largest_block) {
  if (*largest_block == 0) {
    // What the driver has free can still become one block.
    const c10::cuda::CUDAGuard guard(device);
    size_t free = 0;
    size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    *largest_block = free;
  }
  for (const reprieve_block_info& block : look(device).blocks) {
    if (block.state == REPRIEVE_BLOCK_FREE) *largest_block = std::max(*largest_block, block.bytes);
  }
}

void* Adapter::getBaseAllocation(void* ptr, size_t* bytes) {
  reprieve_block_info block{};
  block.size = sizeof block;
  reprieve_segment_info segment{};
  segment.size = sizeof segment;
  check(reprieve_get_block_info(ptr, &block, &segment), "looking for a block");
  if (bytes != nullptr) *bytes = segment.bytes;
  return segment.address;
}

}  // namespace reprieve::torch_adapter
