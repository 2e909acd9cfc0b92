#include "world.hpp"

#include <fmt/format.h>

#include <utility>

namespace reprieve::fuzz {
namespace {

constexpr std::uint64_t records_checked_every = 64;
constexpr std::uint64_t totals_checked_every = 16;

simgpu::Config machine_config(const Setup& setup) {
  simgpu::Config config;
  config.devices = setup.devices;
  config.device_bytes = setup.device_bytes;
  config.context_events = setup.context_events;
  config.poison_fresh = setup.poison_fresh;
  return config;
}

}  // namespace

World::World(const Setup& setup, Workers& workers)
    : setup_(setup),
      workers_(workers),
      machine_(machine_config(setup)),
      blocks_(slots),
      freed_at_(slots),
      used_index_(slots),
      pools_(pool_slots + 1) {
  device::SimBackend backend(machine_);
  devices_.resize(static_cast<std::size_t>(setup.devices));
  numbered_.resize(devices_.size() * device_streams);
  for (int d = 0; d < setup.devices; ++d) {
    const auto index = static_cast<std::size_t>(d);
    OneDevice& on = devices_[index];
    if (!backend.open(d, on.device).ok()) fail("open", "a device cannot be opened");
    memory::Settings settings;
    settings.limit = setup.limit;
    settings.headroom = setup.headroom;
    settings.growth_slack = setup.growth_slack;
    settings.chunk_max = setup.chunk_max;
    settings.wait = std::chrono::milliseconds(setup.wait_ms);
    on.allocator = std::make_unique<memory::Allocator>(*on.device, addresses_, settings);
    on.shadow.limit = on.shadow.most_allowed = setup.limit;
    on.shadow.capacity = setup.device_bytes;

    const LaneId legacy = add_lane(d, machine_.resolve(d, simgpu::legacy_stream), device::legacy_stream);
    lanes_[legacy].legacy = true;
    for (std::uint32_t s = 0; s < device_streams; ++s) {
      LaneId lane = legacy;
      if (s >= 3) {
        simgpu::StreamId id = 0;
        if (machine_.stream_create(d, id) != simgpu::Code::success) fail("open", "a stream cannot be made");
        lane = add_lane(d, id, device::Stream{id});
      }
      numbered_[index * device_streams + s] = lane;
    }
  }
  for (int d = 0; d < setup.devices; ++d) {
    for (std::uint32_t t = 0; t < threads; ++t) {
      simgpu::StreamId id = 0;
      workers_.run(t, [&] { id = machine_.resolve(d, simgpu::per_thread_stream); });
      const LaneId lane = add_lane(d, id, device::per_thread_stream);
      lanes_[lane].thread = t;
      per_thread_.push_back(lane);
    }
  }
}

World::~World() = default;

void World::fail(const char* kind, std::string text) {
  if (!failed()) difference_ = Difference{kind, std::move(text)};
}

void World::execute(const Instruction& instruction) {
  if (failed()) return;
  ++executed_;
  dispatch(instruction);
  after_each();
}

void World::check_faults() {
  if (failed()) return;
  if (machine_.fault_count() != 0) {
    const simgpu::Fault fault = machine_.faults().front();
    return fail(simgpu::fault_name(fault.kind), fault.text);
  }
  if (wrong_reads_.load() != 0) fail("contents", "a read found something else than was written before it");
}

void World::after_each() {
  check_faults();
  if (failed()) return;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    DeviceShadow& shadow = devices_[d].shadow;
    const std::uint64_t most = shadow.limit == 0 ? ~std::uint64_t{0} : shadow.limit;
    shadow.most_allowed = std::max({shadow.most_allowed, most, machine_.used_bytes(static_cast<int>(d))});
  }
  if (thorough_ || executed_ % totals_checked_every == 0) {
    for (OneDevice& on : devices_) check_totals(on);
  }
  if (thorough_ || executed_ % records_checked_every == 0) check_records();
}

void World::dispatch(const Instruction& i) {
  const std::uint32_t slot = i.slot % slots;
  const std::optional<Block>& block = blocks_[slot];
  switch (i.op) {
    case Op::allocate:
      if (!block) allocate(slot, lane_of(i.stream), handle_of(i.stream), i.other % (pool_slots + 1), i.n, false);
      return;
    case Op::reallocate: return reallocate(i);
    case Op::free:
      if (block) free_block(slot, i.n != 0);
      return;
    case Op::free_on: return free_on(i);
    case Op::free_again:
      if (freed_at_[slot] != 0) free_wrong(freed_at_[slot]);
      return;
    case Op::free_interior:
      if (block && block->bytes > 1) free_wrong(block->address + 1 + i.n % (block->bytes - 1));
      return;
    case Op::free_unknown: return free_wrong(i.n);
    case Op::record_stream: {
      const LaneId lane = lane_of(i.stream);
      if (block && !block->orphan && lanes_[lane].device == block->device) {
        record(*blocks_[slot], lane, handle_of(i.stream));
      }
      return;
    }
    case Op::write: return use(i, true);
    case Op::read: return use(i, false);
    case Op::order: order(lane_of(i.stream), lane_of(i.other)); return;
    case Op::empty_cache:
    case Op::trim: return trim(i);
    case Op::create_pool:
    case Op::destroy_pool: return pools(i);
    case Op::replay_graph: return replay_graph(i);
    case Op::pin_backing: {
      if (!block) return;
      DeviceShadow& shadow = devices_[static_cast<std::size_t>(block->device)].shadow;
      shadow.pinned = true;
      const Status status = memory::Allocator::pin_backing(addresses_, reinterpret_cast<void*>(block->address));
      if (!status.ok()) fail("pin", fmt::format("pin_backing of a live block: {}", status.what));
      return;
    }
    case Op::begin_capture: return begin_capture(i);
    case Op::end_capture: return end_capture(lane_of(i.stream));
    case Op::destroy_stream: return destroy_stream(i);
    default: return steer(i);
  }
}

// What changes the machine, the allocators' settings, or nothing.
void World::steer(const Instruction& i) {
  OneDevice& on = device_of(i.stream);
  const int ordinal = ordinal_of(i.stream);
  switch (i.op) {
    case Op::advance: return machine_.advance(i.n);
    case Op::synchronize:
    case Op::synchronize_stream: return synchronize(i);
    case Op::hold:
    case Op::resume: {
      Lane& lane = lanes_[lane_of(i.stream)];
      lane.held = i.op == Op::hold;
      lane.held ? machine_.hold(lane.device, lane.id) : machine_.resume(lane.device, lane.id);
      return;
    }
    case Op::fail: {
      // Only of kinds that the allocator may call.
      const auto kind = static_cast<simgpu::Call>(i.slot % (static_cast<std::size_t>(simgpu::Call::launch) + 1));
      injected_codes_.insert(static_cast<std::int32_t>(i.n));
      return machine_.fail(kind, i.stream, i.other, static_cast<simgpu::Code>(i.n));
    }
    case Op::clear_failures: return machine_.clear_failures();
    case Op::set_limit: {
      const std::uint64_t before = machine_.used_bytes(ordinal);
      on.shadow.limit = i.n;
      on.allocator->set_limit(i.n);
      if (machine_.used_bytes(ordinal) > before) fail("limit", "a new limit made reserved memory grow");
      return;
    }
    case Op::set_capacity: on.shadow.capacity = i.n; return machine_.set_capacity(ordinal, i.n);
    case Op::set_foreign_use: on.shadow.foreign_use = i.n; return machine_.set_foreign_use(ordinal, i.n);
    case Op::switch_thread:
      switched_ |= thread_ != i.n % threads;
      thread_ = static_cast<std::uint32_t>(i.n % threads);
      return;
    case Op::reset_peaks: {
      check_totals(on);
      on.allocator->reset_peaks();
      DeviceShadow& shadow = on.shadow;
      shadow.totals.each([](Totals& totals) { totals.reset_peaks(); });
      shadow.reserved_peak = static_cast<std::int64_t>(machine_.used_bytes(ordinal));
      shadow.most_allowed = 0;
      return;
    }
    case Op::reset_accumulated: {
      on.allocator->reset_accumulated();
      on.shadow.totals.each([](Totals& totals) { totals.reset_accumulated(); });
      return;
    }
    case Op::check_stats: return check_totals(on);
    case Op::validate: return check_records();
    default: return;
  }
}

void World::finish() {
  machine_.clear_failures();
  for (LaneId lane = 0; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].capturing) continue;
    workers_.run(lanes_[lane].capture_thread, [&] {
      const std::uint32_t before = std::exchange(thread_, lanes_[lane].capture_thread);
      end_capture(lane);
      thread_ = before;
    });
  }
  for (Lane& lane : lanes_) {
    if (lane.held && !lane.dead) machine_.resume(lane.device, lane.id);
    lane.held = false;
  }
  // Else it is the allocator that waits, for what it knows of and can mark.
  bool settle = setup_.settle_at_end || setup_.wait_ms == 0 || !setup_.context_events;
  for (const std::uint32_t slot : used_slots_) {
    Block& block = *blocks_[slot];
    if (block.holder == block.home || block.all_recorded(nobody)) continue;
    if (order(block.home, block.holder)) {
      block.holder = block.home;
    } else {
      settle = true;
    }
  }
  for (std::size_t d = 0; settle && d < devices_.size(); ++d) {
    if (machine_.synchronize(static_cast<int>(d)) != simgpu::Code::success) fail("settle", "the work never ends");
  }
  workers_.run(thread_, [&] {
    for (OneDevice& on : devices_) {
      if (failed()) return;
      check_totals(on);
      const Status status = on.allocator->trim(0);
      if (!status.ok()) fail("trim", fmt::format("trim at the end: {}", status.what));
      check_totals(on);
      const memory::Stats stats = on.allocator->stats();
      if (!settle || on.shadow.may_be_stuck) continue;
      if (stats.metrics[memory::active_bytes].current != on.shadow.totals.all.allocated.current) {
        fail("deferred",
             fmt::format("all work is done, {} bytes are active and {} allocated",
                         stats.metrics[memory::active_bytes].current, on.shadow.totals.all.allocated.current));
      }
      if (stats.limbo_bytes != 0) fail("limbo", fmt::format("all work is done, {} bytes in limbo", stats.limbo_bytes));
    }
    check_records();
    after_each();
    for (const std::optional<Block>& block : blocks_) {
      if (block && settle && !failed()) check_contents(*block);
    }
    // Half of the blocks are left to the allocator.
    for (std::uint32_t slot = 0; slot < slots && !failed(); slot += 2) {
      if (blocks_[slot]) free_block(slot, slot % 4 == 0);
    }
    after_each();
  });
  if (failed()) return;
  for (OneDevice& on : devices_) on.allocator.reset();
  check_faults();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const std::uint64_t left = machine_.used_bytes(static_cast<int>(d));
    if (left != 0) fail("leak", fmt::format("{} bytes of device {} are in use after the allocator is gone", left, d));
  }
  if (machine_.mapping_count() != 0) fail("leak", fmt::format("{} mappings are left", machine_.mapping_count()));
}

}  // namespace reprieve::fuzz
