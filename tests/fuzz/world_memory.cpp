// What is asked of the allocators, and what they may answer.
#include <fmt/format.h>

#include <algorithm>

#include "world.hpp"

namespace reprieve::fuzz {

using memory::page_bytes;
using memory::round_down;
using memory::round_up;

namespace {

constexpr std::size_t remembered_most = 32;

}  // namespace

template <typename F>
World::Outcome World::call(F&& body) {
  const std::uint64_t before = machine_.pending_failures();
  Outcome outcome;
  outcome.status = body();
  outcome.injected = before - machine_.pending_failures();
  const Status& status = outcome.status;
  // Asked for an event of the whole context while a capture goes on that it cannot know of (end_capture says which).
  if (status.driver == static_cast<std::int32_t>(simgpu::Code::capture_unsupported) && any_hidden_capture()) {
    outcome.injected = 1;
    return outcome;
  }
  if (status.driver != 0 && outcome.injected == 0 && !status.is(Errc::out_of_memory)) {
    fail("driver", fmt::format("{} failed with {} by itself", status.what, simgpu::code_name(status.driver)));
  }
  if (status.driver != 0 && outcome.injected != 0 && !injected_codes_.contains(status.driver) &&
      !status.is(Errc::out_of_memory)) {
    fail("driver", fmt::format("{} failed with {}, which is not what the driver said", status.what,
                               simgpu::code_name(status.driver)));
  }
  return outcome;
}

void World::allocate(std::uint32_t slot, LaneId lane, device::Stream handle, std::uint32_t pool_slot,
                     std::uint64_t bytes, bool must_succeed) {
  const PrivatePool& pool = pools_[pool_slot];
  const int ordinal = lanes_[lane].device;
  OneDevice& on = devices_[static_cast<std::size_t>(ordinal)];
  if (pool_slot != 0 && (!pool.made || pool.device != ordinal)) return;
  if (pool_slot != 0) on.shadow.private_used = true;
  void* out = nullptr;
  const std::uint64_t reserved_before = machine_.used_bytes(ordinal);
  const Outcome outcome = call([&] { return on.allocator->allocate(handle, pool.id, bytes, &out); });
  const std::uint64_t reserved = machine_.used_bytes(ordinal);
  if (reserved > reserved_before && on.shadow.limit != 0 && reserved > on.shadow.limit) {
    fail("limit", fmt::format("{} bytes reserved, the limit is {}", reserved, on.shadow.limit));
  }
  if (!outcome.status.ok()) {
    if (outcome.status.is(Errc::out_of_memory)) ++on.shadow.ooms;
    if (must_succeed) {
      return fail("reallocate", fmt::format("{} bytes that were free: {}", bytes, outcome.status.what));
    }
    return check_refusal(on, bytes, outcome, pool_slot == 0 || pool.live);
  }
  if (bytes == 0) {
    if (out != nullptr) fail("null", "a block of no bytes has an address");
    return;
  }
  if (pool_slot != 0 && !pool.live) return fail("pool", "a destroyed pool gave a block");
  // A private pool is forgotten, and its stream with it, once it is destroyed and empty.
  if (pool_slot == 0) lanes_[lane].known = true;
  Block block;
  block.address = reinterpret_cast<std::uint64_t>(out);
  block.bytes = bytes;
  block.device = ordinal;
  block.home = block.holder = lane;
  block.pool = pool_slot;
  block.pool_serial = pool.serial;
  take_block(slot, std::move(block));
}

void World::take_block(std::uint32_t slot, Block block) {
  if (block.address == 0 || block.address % memory::block_unit != 0) {
    return fail("alignment", fmt::format("a block at {:#x}", block.address));
  }
  const std::uint64_t end = block.address + block.size();
  for (const OneDevice& on : devices_) {
    const auto next = on.shadow.live.lower_bound({block.address, 0});
    const bool after = next != on.shadow.live.end() && next->first < end;
    const bool before = next != on.shadow.live.begin() && std::prev(next)->second > block.address;
    if (after || before) {
      return fail("overlap", fmt::format("block {:#x} of {} bytes lies in another", block.address, block.bytes));
    }
  }
  DeviceShadow& shadow = devices_[static_cast<std::size_t>(block.device)].shadow;
  shadow.live.emplace(block.address, end);
  shadow.totals.all.rise(block.bytes, block.size());
  shadow.totals.of(memory::kind_of(block.size())).rise(block.bytes, block.size());
  blocks_[slot] = std::move(block);
  used_index_[slot] = static_cast<std::uint32_t>(used_slots_.size());
  used_slots_.push_back(slot);
}

void World::check_refusal(OneDevice& on, std::uint64_t bytes, const Outcome& outcome, bool pool_exists) {
  const Status& status = outcome.status;
  if (!pool_exists && (status.is(Errc::invalid_argument) || bytes > (1ULL << 45))) return;
  if (!status.is(Errc::out_of_memory)) {
    if (outcome.injected == 0) fail("refusal", fmt::format("{} bytes were refused: {}", bytes, status.what));
    return;
  }
  if (outcome.injected == 0 && must_fit(on, bytes)) {
    fail("early oom",
         fmt::format("{} bytes were refused ({}), with {} reserved, of which blocks lie on {}", bytes, status.what,
                     machine_.used_bytes(on.device->properties().ordinal), on.shadow.live_page_bytes()));
  }
}

// Whether a request for so many bytes of a default pool must find memory, once all work has been waited for. Says no
// where that cannot be told from outside.
bool World::must_fit(const OneDevice& on, std::uint64_t bytes) {
  const DeviceShadow& shadow = on.shadow;
  // Where chunks are single pages, those without a block are known. Else they are known where there are no blocks.
  if (setup_.chunk_max != page_bytes && !shadow.live.empty()) return false;
  if (setup_.wait_ms == 0 || any_held() || any_capturing() || !setup_.context_events) return false;
  if (shadow.pinned || shadow.private_used || shadow.may_be_stuck) return false;
  if (bytes > on.device->properties().total_bytes) return false;
  const std::uint64_t reserved = machine_.used_bytes(on.device->properties().ordinal);
  const std::uint64_t taken = shadow.foreign_use + reserved;
  std::uint64_t creatable = shadow.capacity > taken ? shadow.capacity - taken : 0;
  if (shadow.limit != 0) {
    creatable = std::min(creatable, shadow.limit > reserved ? shadow.limit - reserved : 0);
  } else {
    creatable = creatable > setup_.headroom ? creatable - setup_.headroom : 0;
  }
  const std::uint64_t free_pages = reserved - std::min(reserved, shadow.live_page_bytes());
  return round_up(bytes, page_bytes) <= free_pages + round_down(creatable, page_bytes);
}

void World::drop(std::uint32_t slot) {
  const Block& block = *blocks_[slot];
  DeviceShadow& shadow = devices_[static_cast<std::size_t>(block.device)].shadow;
  shadow.live.erase({block.address, block.address + block.size()});
  shadow.totals.all.fall(block.bytes, block.size());
  shadow.totals.of(memory::kind_of(block.size())).fall(block.bytes, block.size());
  PrivatePool& pool = pools_[block.pool];
  const bool plain = block.foreign.empty() && block.recorded.empty() && !block.orphan;
  if (block.pool != 0 && pool.live && pool.graph && pool.serial == block.pool_serial && plain &&
      pool.remembered.size() < remembered_most) {
    pool.remembered.push_back({block.address, block.bytes, block.home});
  }
  freed_at_[slot] = block.address;
  blocks_[slot].reset();
  used_slots_[used_index_[slot]] = used_slots_.back();
  used_index_[used_slots_.back()] = used_index_[slot];
  used_slots_.pop_back();
}

bool World::free_block(std::uint32_t slot, bool prefer_recorded) {
  Block& block = *blocks_[slot];
  if (block.holder != block.home) {
    const bool recorded = block.all_recorded(nobody);
    if (!(recorded && prefer_recorded)) {
      if (!block.orphan && order(block.home, block.holder)) {
        block.holder = block.home;
      } else if (!recorded) {
        return false;
      }
    }
  }
  const Outcome outcome =
      call([&] { return memory::Allocator::free(addresses_, reinterpret_cast<void*>(block.address)); });
  if (!outcome.status.ok()) {
    fail("free", fmt::format("free of the live block {:#x}: {}", block.address, outcome.status.what));
    return false;
  }
  drop(slot);
  return true;
}

void World::free_on(const Instruction& instruction) {
  const std::uint32_t slot = instruction.slot % slots;
  if (!blocks_[slot]) return;
  Block& block = *blocks_[slot];
  const LaneId lane = lane_of(instruction.stream);
  if (lanes_[lane].device != block.device) return;
  if (block.holder != block.home && block.holder != lane && !block.all_recorded(lane)) return;
  const device::Stream handle = handle_of(instruction.stream);
  const Outcome outcome =
      call([&] { return memory::Allocator::free_on(addresses_, reinterpret_cast<void*>(block.address), handle); });
  if (!outcome.status.ok()) {
    return fail("free", fmt::format("free_on of the live block {:#x}: {}", block.address, outcome.status.what));
  }
  if (lane != block.home) {
    if (!setup_.context_events && lanes_[lane].thread != nobody) {
      devices_[static_cast<std::size_t>(block.device)].shadow.may_be_stuck = true;
    }
    block.recorded.push_back(lane);
  }
  drop(slot);
}

void World::reallocate(const Instruction& instruction) {
  const std::uint32_t slot = instruction.slot % slots;
  if (!blocks_[slot]) return;
  const Block block = *blocks_[slot];
  const Lane& lane = lanes_[block.home];
  const PrivatePool& pool = pools_[block.pool];
  if (lane.dead || (lane.thread != nobody && lane.thread != thread_) || block.holder != block.home) return;
  if (!block.recorded.empty() || block.orphan) return;
  if (block.pool != 0 && (!pool.live || pool.serial != block.pool_serial)) return;
  if (free_block(slot, false)) allocate(slot, block.home, lane.handle, block.pool, block.bytes, true);
}

void World::free_wrong(std::uint64_t address) {
  for (const OneDevice& on : devices_) {
    const auto block = on.shadow.live.lower_bound({address, 0});
    if (block != on.shadow.live.end() && block->first == address) return;
  }
  ++wrong_frees_;
  const Status status = memory::Allocator::free(addresses_, reinterpret_cast<void*>(address));
  if (!status.is(Errc::invalid_argument)) fail("wrong free", fmt::format("free of {:#x} was not refused", address));
}

void World::trim(const Instruction& instruction) {
  OneDevice& on = device_of(instruction.stream);
  const std::uint64_t keep = instruction.op == Op::trim ? instruction.n : 0;
  const bool settled = instruction.slot % 2 == 1 && !any_held() && !any_capturing();
  for (std::size_t d = 0; settled && d < devices_.size(); ++d) {
    if (machine_.synchronize(static_cast<int>(d)) != simgpu::Code::success) fail("settle", "the work never ends");
  }
  const std::uint64_t before = machine_.used_bytes(ordinal_of(instruction.stream));
  const Outcome outcome = call([&] { return on.allocator->trim(keep); });
  const std::uint64_t left = machine_.used_bytes(ordinal_of(instruction.stream));
  if (left > before) fail("trim", "memory grew");
  if (!outcome.status.ok() && outcome.injected == 0) fail("trim", fmt::format("trim: {}", outcome.status.what));
  const DeviceShadow& shadow = on.shadow;
  const bool known = settled && outcome.injected == 0 && !shadow.pinned && !shadow.private_used && !shadow.may_be_stuck;
  if (!known || !setup_.context_events || setup_.wait_ms == 0) return;
  if (setup_.chunk_max != page_bytes && !shadow.live.empty()) return;
  if (left > std::max(keep, shadow.live_page_bytes())) {
    fail("trim", fmt::format("{} bytes stay reserved, {} were to be kept and blocks lie on {}", left, keep,
                             shadow.live_page_bytes()));
  }
}

void World::pools(const Instruction& instruction) {
  PrivatePool& pool = pools_[instruction.other % (pool_slots + 1)];
  if (&pool == &pools_.front()) return;
  if (instruction.op == Op::create_pool) {
    if (pool.live) return;
    pool = {};
    pool.made = pool.live = true;
    pool.graph = instruction.n == 1;
    pool.device = ordinal_of(instruction.stream);
    pool.serial = next_serial_++;
    if (!device_of(instruction.stream).allocator->create_pool(pool.graph, pool.id).ok()) fail("pool", "no pool made");
    return;
  }
  if (!pool.made) return;
  const Outcome outcome =
      call([&] { return devices_[static_cast<std::size_t>(pool.device)].allocator->destroy_pool(pool.id); });
  if (pool.live != outcome.status.ok()) fail("pool", fmt::format("destroying a pool: {}", outcome.status.what));
  if (!pool.live && !outcome.status.is(Errc::invalid_argument)) fail("pool", "a pool that is gone was destroyed");
  pool.live = false;
  pool.remembered.clear();
}

}  // namespace reprieve::fuzz
