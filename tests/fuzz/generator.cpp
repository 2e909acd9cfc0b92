#include "generator.hpp"

#include <algorithm>
#include <cmath>

#include "simgpu/failures.hpp"

namespace reprieve::fuzz {
namespace {

using simgpu::Call;
using simgpu::Code;

// What the allocator itself calls.
constexpr std::array failing_calls = {
    Call::reserve,          Call::unreserve,    Call::create,        Call::create,
    Call::create,           Call::release,      Call::map,           Call::map,
    Call::set_access,       Call::set_access,   Call::unmap,         Call::unmap,
    Call::memory_info,      Call::event_create, Call::event_destroy, Call::event_record,
    Call::event_record_all, Call::event_query,  Call::event_wait,    Call::is_capturing};

}  // namespace

Generator::Generator(std::uint64_t seed) : random_(seed) {
  choose_setup();
  choose_character();
}

std::uint64_t Generator::log_uniform(std::uint64_t low, std::uint64_t high) {
  const double span = std::log2(static_cast<double>(high)) - std::log2(static_cast<double>(low));
  const double part = static_cast<double>(below(1'000'000)) / 1e6;
  return static_cast<std::uint64_t>(static_cast<double>(low) * std::exp2(span * part));
}

void Generator::choose_setup() {
  constexpr std::array<std::uint64_t, 4> device_sizes = {64, 128, 256, 512};
  constexpr std::array<double, 4> slacks = {0.01, 0.0, 0.05, 0.5};
  setup_.devices = one_in(6) ? 2 : 1;
  setup_.device_bytes = device_sizes[below(4)] * MiB;
  setup_.chunk_max = one_in(3) ? 2 * MiB : one_in(3) ? 64 * MiB : 2 * MiB * (1 + below(32));
  setup_.growth_slack = slacks[below(4)];
  setup_.limit = one_in(2) ? 0 : setup_.device_bytes / 8 * (1 + below(8));
  setup_.headroom = one_in(2) ? 0 : below(16) * MiB;
  setup_.wait_ms = one_in(4) ? 0 : 10'000;
  setup_.context_events = !one_in(4);
  setup_.settle_at_end = one_in(2);
  if (one_in(150)) {
    setup_.poison_fresh = true;
    setup_.device_bytes = 64 * MiB;
    setup_.devices = 1;
  }
}

void Generator::choose_character() {
  constexpr std::array<std::size_t, 5> fills = {6, 20, 60, 200, 500};
  length_ = 200 + below(1800);
  most_blocks_ = fills[below(fills.size())];
  small_share_ = static_cast<unsigned>(below(4)) * 30;
  // The blocks together shall want about what there is, more or less.
  const std::uint64_t fair = std::max<std::uint64_t>(2 * MiB, setup_.device_bytes * 3 / most_blocks_);
  largest_ = std::min(setup_.device_bytes, fair * (1 + below(4)));
  for (std::uint64_t i = 0; i < 8; ++i) {
    usual_sizes_.push_back(one_in(2) ? log_uniform(1, MiB) : log_uniform(MiB + 1, std::max(2 * MiB, largest_)));
  }
  const auto streams = static_cast<std::uint32_t>(device_streams * static_cast<std::uint32_t>(setup_.devices));
  const std::uint64_t how_many = one_in(4) ? 1 : 1 + below(streams);
  for (std::uint64_t i = 0; i < how_many; ++i) streams_.push_back(static_cast<std::uint32_t>(below(streams)));
  pools_ = one_in(3);

  const auto set = [&](Op op, unsigned weight) { weights_[static_cast<std::size_t>(op)] = weight; };
  set(Op::allocate, 300);
  set(Op::reallocate, 40);
  set(Op::free, one_in(3) ? 180 : 280);
  set(Op::free_on, one_in(2) ? 20 : 0);
  set(Op::free_again, 4);
  set(Op::free_interior, 4);
  set(Op::free_unknown, 2);
  set(Op::record_stream, one_in(2) ? 20 : 0);
  set(Op::write, 120);
  set(Op::read, 80);
  set(Op::order, 20);
  set(Op::advance, one_in(2) ? 10 : 60);
  set(Op::synchronize, 4);
  set(Op::synchronize_stream, 4);
  if (one_in(3)) {
    set(Op::hold, 8);
    set(Op::resume, 10);
  }
  if (one_in(3)) {
    set(Op::fail, 15);
    set(Op::clear_failures, 8);
  }
  set(Op::empty_cache, one_in(2) ? 2 : 10);
  set(Op::trim, one_in(2) ? 0 : 8);
  if (one_in(2)) set(Op::set_limit, 6);
  if (one_in(4)) set(Op::set_capacity, 4);
  if (one_in(4)) set(Op::set_foreign_use, 6);
  if (pools_) {
    set(Op::create_pool, 12);
    set(Op::destroy_pool, 10);
    set(Op::replay_graph, 10);
  }
  if (one_in(4)) set(Op::pin_backing, 3);
  if (one_in(3)) {
    set(Op::begin_capture, 8);
    set(Op::end_capture, 12);
  }
  if (one_in(4)) set(Op::destroy_stream, 4);
  if (one_in(3)) set(Op::switch_thread, 30);
  set(Op::reset_peaks, 4);
  set(Op::reset_accumulated, 2);
  set(Op::check_stats, one_in(2) ? 2 : 20);
  for (const unsigned weight : weights_) weight_sum_ += weight;
}

std::uint64_t Generator::size() {
  if (!one_in(3)) return usual_sizes_[below(usual_sizes_.size())];
  if (one_in(200)) {
    constexpr std::array<std::uint64_t, 6> odd = {0, 1, 1ULL << 45, (1ULL << 45) + 1, ~0ULL, ~0ULL - 511};
    return odd[below(odd.size())];
  }
  if (one_in(100)) return log_uniform(MiB, 2 * setup_.device_bytes);
  if (below(100) < small_share_) return log_uniform(1, MiB + 1);
  const std::uint64_t bytes = log_uniform(MiB + 1, std::max(2 * MiB, largest_));
  return one_in(2) ? bytes : memory::round_up(bytes, memory::page_bytes);
}

std::uint32_t Generator::stream() {
  if (one_in(40)) return static_cast<std::uint32_t>(below(device_streams * static_cast<std::uint64_t>(setup_.devices)));
  return streams_[below(streams_.size())];
}

std::uint32_t Generator::slot(const World& world) {
  if (world.used_slots().empty()) return 0;
  return world.used_slots()[below(world.used_slots().size())];
}

std::uint64_t Generator::limit(const World& world) {
  if (one_in(4)) return 0;
  const std::uint64_t used = world.used_bytes(0);
  if (one_in(2)) return std::max<std::uint64_t>(1, used - std::min(used, below(setup_.device_bytes / 4)));
  return used + below(setup_.device_bytes / 2) + 1;
}

Instruction Generator::allocation(const World& world) {
  Instruction out{Op::allocate};
  if (world.used_slots().size() >= most_blocks_) {
    out.op = Op::free;
    out.slot = slot(world);
    out.n = below(2);
    return out;
  }
  for (int tries = 0; tries < 8; ++tries) {
    out.slot = static_cast<std::uint32_t>(below(slots));
    if (!world.slot_used(out.slot)) break;
  }
  out.stream = stream();
  out.other = pools_ && one_in(3) ? static_cast<std::uint32_t>(1 + below(pool_slots)) : 0;
  out.n = size();
  return out;
}

Instruction Generator::failure() {
  Instruction out{Op::fail};
  const Call call = failing_calls[below(failing_calls.size())];
  out.slot = static_cast<std::uint32_t>(call);
  out.stream = static_cast<std::uint32_t>(one_in(2) ? 0 : below(6));
  out.other = static_cast<std::uint32_t>(one_in(2) ? 1 : 1 + below(5));
  Code code = one_in(2) ? Code::unknown : Code::illegal_address;
  if ((call == Call::create || call == Call::map || call == Call::set_access) && !one_in(3)) code = Code::out_of_memory;
  out.n = static_cast<std::uint64_t>(code);
  return out;
}

Instruction Generator::next(const World& world) {
  std::uint64_t pick = below(weight_sum_);
  std::size_t index = 0;
  while (pick >= weights_[index]) pick -= weights_[index++];
  Instruction out{static_cast<Op>(index)};
  out.stream = stream();
  switch (out.op) {
    case Op::allocate: return allocation(world);
    case Op::fail: return failure();
    case Op::free:
      out.slot = slot(world);
      out.n = below(2);
      return out;
    case Op::reallocate:
    case Op::free_on:
    case Op::record_stream:
    case Op::pin_backing: out.slot = slot(world); return out;
    case Op::free_again: out.slot = static_cast<std::uint32_t>(below(slots)); return out;
    case Op::free_interior:
      out.slot = slot(world);
      out.n = one_in(2) ? memory::block_unit - 1 : random_();
      return out;
    case Op::free_unknown: out.n = one_in(2) ? below(1 << 20) : random_() >> 16; return out;
    case Op::write:
    case Op::read:
      out.slot = slot(world);
      // Mostly where the block belongs.
      if (!one_in(3) && world.slot_used(out.slot)) {
        out.stream = world.home_number(*world.block(out.slot)).value_or(out.stream);
      }
      out.other = static_cast<std::uint32_t>(below(2));
      out.n = one_in(4) ? 0 : below(300'000);
      return out;
    case Op::order: out.other = stream(); return out;
    case Op::advance: out.n = log_uniform(100, 2'000'000); return out;
    case Op::empty_cache:
    case Op::trim:
      out.slot = static_cast<std::uint32_t>(below(2));
      out.n = out.op == Op::trim ? below(setup_.device_bytes) : 0;
      return out;
    case Op::set_limit: out.n = limit(world); return out;
    case Op::set_capacity:
      out.n = one_in(2) ? setup_.device_bytes : setup_.device_bytes / 4 * (1 + below(4));
      return out;
    case Op::set_foreign_use: out.n = one_in(2) ? 0 : below(setup_.device_bytes); return out;
    case Op::create_pool:
    case Op::destroy_pool:
    case Op::replay_graph:
      out.other = static_cast<std::uint32_t>(1 + below(pool_slots));
      out.n = below(2);
      return out;
    case Op::begin_capture:
    case Op::switch_thread: out.n = below(3); return out;
    default: return out;
  }
}

}  // namespace reprieve::fuzz
