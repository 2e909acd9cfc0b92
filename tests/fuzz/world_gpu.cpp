// Streams, work on blocks, and captures.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "world.hpp"

namespace reprieve::fuzz {
namespace {

// The byte that a block which holds `value` has at an offset.
unsigned char byte_of(std::uint64_t value, std::uint64_t offset) {
  return static_cast<unsigned char>(value >> (8 * (offset % 8)));
}

// Only a few bytes are written and read, so that little memory is really touched: the first, the last, and some between.
template <typename F>
void for_each_place(std::uint64_t bytes, F&& visit) {
  const std::uint64_t length = std::min<std::uint64_t>(8, bytes);
  const std::array<std::uint64_t, 3> places = {0, (bytes - length) / 2, bytes - length};
  for (const std::uint64_t place : places) {
    for (std::uint64_t offset = place; offset < place + length; ++offset) visit(offset);
  }
}

void stamp(std::uint64_t address, std::uint64_t bytes, std::uint64_t value) {
  auto* const data = reinterpret_cast<unsigned char*>(address);
  for_each_place(bytes, [&](std::uint64_t offset) { data[offset] = byte_of(value, offset); });
}

bool stamped(std::uint64_t address, std::uint64_t bytes, std::uint64_t value) {
  const auto* const data = reinterpret_cast<const unsigned char*>(address);
  bool same = true;
  for_each_place(bytes, [&](std::uint64_t offset) { same &= data[offset] == byte_of(value, offset); });
  return same;
}

}  // namespace

LaneId World::add_lane(int device, simgpu::StreamId id, device::Stream handle) {
  Lane lane;
  lane.device = device;
  lane.id = id;
  lane.handle = handle;
  // Failures that are on their way may meet it.
  while (machine_.event_create(device, lane.event) != simgpu::Code::success) {
  }
  lanes_.push_back(lane);
  return static_cast<LaneId>(lanes_.size() - 1);
}

LaneId World::lane_of(std::uint32_t stream) const {
  const std::size_t number = stream % numbered_.size();
  if (number % device_streams == 2) return per_thread_[number / device_streams * threads + thread_];
  return numbered_[number];
}

std::optional<std::uint32_t> World::home_number(const Block& block) const {
  const auto first = static_cast<std::uint32_t>(block.device) * device_streams;
  for (std::uint32_t number = first; number < first + device_streams; ++number) {
    if (lane_of(number) == block.home) return number;
  }
  return {};
}

device::Stream World::handle_of(std::uint32_t stream) const {
  return stream % device_streams == 1 ? device::Stream{1} : lanes_[lane_of(stream)].handle;
}

bool World::any_held() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.held; });
}

bool World::any_capturing() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.capturing; });
}

// An event of the whole context spoils a capture on a stream that the allocator has not heard of, or cannot ask about:
// the default stream of another thread. There is no way for it to tell.
bool World::hidden(const Lane& lane) const {
  return !lane.known || lane.capture_hidden || (lane.thread != nobody && switched_);
}

bool World::any_hidden_capture() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return lane.capturing && hidden(lane); });
}

// A correct program queues nothing on the legacy stream while a stream that waits for it is captured.
bool World::enqueueable(const Lane& lane) const {
  if (lane.dead) return false;
  return !lane.legacy || std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    return other.device == lane.device && other.thread != nobody && other.capturing;
  });
}

// Queues a wait on `after` for all that is queued on `before`. False where that cannot be done.
bool World::order(LaneId after, LaneId before) {
  if (after == before) return true;
  const Lane& waiting = lanes_[after];
  const Lane& first = lanes_[before];
  if (waiting.capturing || first.capturing || !enqueueable(waiting) || !enqueueable(first)) return false;
  return machine_.event_record(first.device, first.event, first.id) == simgpu::Code::success &&
         machine_.stream_wait(waiting.device, waiting.id, first.event) == simgpu::Code::success;
}

void World::use(const Instruction& instruction, bool write) {
  std::optional<Block>& slot = blocks_[instruction.slot % slots];
  if (!slot || slot->orphan) return;
  Block& block = *slot;
  const LaneId id = lane_of(instruction.stream);
  const Lane& lane = lanes_[id];
  if (lane.device != block.device || !enqueueable(lane)) return;
  if (id != block.holder) {
    if (!order(id, block.holder)) return;
    if (id != block.home) {
      if (instruction.other == 1 && !record(block, id, handle_of(instruction.stream))) return;
      block.foreign.push_back(id);
      // A graph's later use of this memory would not be ordered with this one; it may know it by other addresses.
      std::erase_if(pools_[block.pool].remembered,
                    [&](const PrivatePool::Remembered& part) { return part.lane == block.home; });
    } else {
      block.foreign.clear();
    }
    block.holder = id;
  }

  simgpu::Work work;
  work.duration_ns = instruction.n;
  (write ? work.writes : work.reads).push_back({block.address, block.bytes});
  const std::uint64_t value = write ? next_value_ * 0x9e3779b97f4a7c15ULL : block.value;
  if (write) {
    work.name = "write";
    work.effect = [address = block.address, bytes = block.bytes, value] { stamp(address, bytes, value); };
  } else {
    work.name = "read";
    work.effect = [this, address = block.address, bytes = block.bytes, value] {
      if (value != 0 && !stamped(address, bytes, value)) ++wrong_reads_;
    };
  }
  const simgpu::Code code = machine_.launch(lane.device, lane.id, std::move(work));
  if (code == simgpu::Code::success && write && !lane.capturing) {
    block.value = value;
    ++next_value_;
  }
}

bool World::record(Block& block, LaneId lane, device::Stream handle) {
  const Status status = memory::Allocator::record_stream(addresses_, reinterpret_cast<void*>(block.address), handle);
  const bool other_thread = lanes_[lane].thread != nobody && lane != block.home;
  if (other_thread && !setup_.context_events) {
    if (!status.is(Errc::not_supported)) fail("record_stream", "a stream that cannot be recorded was");
    return false;
  }
  if (!status.ok()) {
    fail("record_stream", fmt::format("record_stream of a live block: {}", status.what));
    return false;
  }
  block.recorded.push_back(lane);
  return true;
}

void World::synchronize(const Instruction& instruction) {
  if (any_held() || any_capturing()) return;
  const Lane& lane = lanes_[lane_of(instruction.stream)];
  const simgpu::Code code = instruction.op == Op::synchronize ? machine_.synchronize(lane.device)
                                                              : machine_.stream_synchronize(lane.device, lane.id);
  if (code != simgpu::Code::success) fail("synchronize", "a synchronization failed");
}

void World::begin_capture(const Instruction& instruction) {
  Lane& lane = lanes_[lane_of(instruction.stream)];
  if (lane.legacy || lane.capturing || lane.dead) return;
  const auto mode = static_cast<simgpu::CaptureMode>(instruction.n % 3);
  if (machine_.begin_capture(lane.device, lane.id, mode) != simgpu::Code::success) return;
  lane.capturing = true;
  lane.capture_thread = thread_;
  lane.capture_mode = mode;
  lane.capture_hidden = hidden(lane);
}

void World::end_capture(LaneId id) {
  Lane& lane = lanes_[id];
  if (!lane.capturing) return;
  if (lane.capture_mode != simgpu::CaptureMode::relaxed && lane.capture_thread != thread_) return;
  const simgpu::Code code = machine_.end_capture(lane.device, lane.id);
  const bool was_hidden = hidden(lane);
  lane.capturing = false;
  lane.capture_hidden = false;
  if (code != simgpu::Code::success && !was_hidden) {
    fail("capture", fmt::format("a capture ended with {}", simgpu::code_name(static_cast<std::int32_t>(code))));
  }
}

// The program has no more use for a stream; blocks of it, and blocks used on it, may live on.
void World::destroy_stream(const Instruction& instruction) {
  const std::size_t number = instruction.stream % numbered_.size();
  if (number % device_streams < 3) return;
  const LaneId id = numbered_[number];
  if (lanes_[id].capturing) return;
  const int device = lanes_[id].device;
  if (lanes_[id].held) {
    machine_.resume(device, lanes_[id].id);
    lanes_[id].held = false;
  }
  for (const std::uint32_t slot : used_slots_) {
    Block& block = *blocks_[slot];
    const bool used_here = std::find(block.foreign.begin(), block.foreign.end(), id) != block.foreign.end();
    if (block.home != id && !used_here) continue;
    // From here on nothing can be ordered behind the block's uses on this stream, but by the allocator.
    if (used_here) record(block, id, lanes_[id].handle);
    if (!block.all_recorded(nobody)) return;
    block.orphan = true;
  }
  for (PrivatePool& pool : pools_) {
    std::erase_if(pool.remembered, [&](const PrivatePool::Remembered& part) { return part.lane == id; });
  }
  simgpu::StreamId next = 0;
  if (machine_.stream_destroy(device, lanes_[id].id) != simgpu::Code::success ||
      machine_.stream_create(device, next) != simgpu::Code::success) {
    return fail("open", "a stream cannot be replaced");
  }
  lanes_[id].dead = true;
  numbered_[number] = add_lane(device, next, device::Stream{next});
  if (!setup_.context_events) devices_[static_cast<std::size_t>(device)].shadow.may_be_stuck = true;
}

void World::replay_graph(const Instruction& instruction) {
  const PrivatePool& pool = pools_[instruction.other % (pool_slots + 1)];
  if (!pool.live || !pool.graph) return;
  for (const PrivatePool::Remembered& part : pool.remembered) {
    const Lane& lane = lanes_[part.lane];
    if (lane.capturing || !enqueueable(lane)) continue;
    simgpu::Work work;
    work.name = "graph";
    work.reads.push_back({part.address, part.bytes});
    // Not a failure of the machine's: what matters is whether it finds the addresses mapped.
    [[maybe_unused]] const simgpu::Code code = machine_.launch(lane.device, lane.id, std::move(work));
  }
}

void World::check_contents(const Block& block) {
  if (block.value != 0 && !stamped(block.address, block.bytes, block.value)) {
    fail("contents", fmt::format("block {:#x} of {} bytes does not hold what was written", block.address, block.bytes));
  }
}

}  // namespace reprieve::fuzz
