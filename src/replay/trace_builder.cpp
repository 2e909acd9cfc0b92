#include "replay/trace_builder.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::replay {
namespace {

constexpr std::size_t largest_index = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint32_t largest_slot_count = 1U << 29;

}  // namespace

bool TraceBuilder::fail(std::string text) {
  error_ = std::move(text);
  return false;
}

void TraceBuilder::add(Op op, std::uint32_t slot, std::uint64_t bytes, std::uint16_t stream, std::uint16_t pool) {
  Event& event = trace_.events.emplace_back();
  event.bytes = bytes;
  event.slot = slot & (largest_slot_count - 1);
  event.op = op;
  event.stream = stream;
  event.pool = pool;
  trace_.times_us.push_back(last_us_ - first_us_);
}

bool TraceBuilder::stream(std::uint64_t id, std::uint16_t& index) {
  if (const auto known = streams_.find(id); known != streams_.end()) {
    index = known->second;
    return true;
  }
  if (trace_.stream_ids.size() == largest_index) {
    return fail("stream '" + std::to_string(id) + "' is one too many, accepted are " + std::to_string(largest_index) +
                " different ones");
  }
  index = static_cast<std::uint16_t>(trace_.stream_ids.size());
  streams_.emplace(id, index);
  trace_.stream_ids.push_back(id);
  return true;
}

bool TraceBuilder::pool(std::uint32_t id, bool graph, std::uint16_t& index) {
  if (id == 0) {
    index = 0;
    return !graph || fail("pool 0 is marked as a graph's, it is the default pool");
  }
  if (const auto known = pools_.find(id); known != pools_.end()) {
    index = known->second;
    if (trace_.pools[index].graph == graph) return true;
    return fail("pool " + std::to_string(id) +
                " is a graph's in one event and none in another, it must be the same in all");
  }
  if (trace_.pools.size() > largest_index) {
    return fail("pool " + std::to_string(id) + " is one too many, accepted are " + std::to_string(largest_index) +
                " different ones");
  }
  index = static_cast<std::uint16_t>(trace_.pools.size());
  pools_.emplace(id, index);
  trace_.pools.push_back({id, graph});
  return true;
}

bool TraceBuilder::time(std::uint64_t time_us) {
  if (trace_.events.empty()) {
    first_us_ = time_us;
  } else if (time_us < last_us_) {
    return fail("time_us " + std::to_string(time_us) + " is before the " +
                (ids_ == Ids::unique ? "line above's " : "last event's ") + std::to_string(last_us_) +
                ", times must not go back");
  }
  last_us_ = time_us;
  return true;
}

bool TraceBuilder::allocate(std::uint64_t id, std::uint64_t bytes, std::uint16_t stream, std::uint16_t pool,
                            std::uint64_t line) {
  if (bytes > largest_number - live_bytes_) return fail("more than " + std::to_string(largest_number) + " bytes live");
  const auto [place, is_new] = blocks_.try_emplace(id, Block{bytes, line, 0, stream, true});
  if (!is_new) {
    if (ids_ == Ids::reusable) {
      return fail("id " + std::to_string(id) +
                  " is allocated while a block of that id is live, it must be freed first");
    }
    return fail("id " + std::to_string(id) + " is allocated again (first on line " +
                std::to_string(place->second.line) + "), each id may be allocated once");
  }
  std::uint32_t slot = trace_.slots;
  if (free_slots_.empty()) {
    if (slot == largest_slot_count) return fail("more than " + std::to_string(largest_slot_count) + " blocks live");
    ++trace_.slots;
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  place->second.slot = slot;
  live_bytes_ += bytes;
  trace_.peak_requested_bytes = std::max(trace_.peak_requested_bytes, live_bytes_);
  add(Op::allocate, slot, bytes, stream, pool);
  return true;
}

TraceBuilder::Block* TraceBuilder::live_block(std::uint64_t id, const char* verb) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) {
    fail("id " + std::to_string(id) + " is " + verb + " but " +
         (ids_ == Ids::unique ? "was never allocated" : "is not allocated") + ", it must be a live block's");
    return nullptr;
  }
  if (!found->second.live) {
    fail("id " + std::to_string(id) + " is " + verb + " but was freed before, it must be a live block's");
    return nullptr;
  }
  return &found->second;
}

bool TraceBuilder::free(std::uint64_t id, std::uint64_t bytes, bool sized, std::uint16_t stream) {
  Block* const block = live_block(id, "freed");
  if (block == nullptr) return false;
  if (sized && bytes != block->bytes) {
    return fail("id " + std::to_string(id) + " is freed with " + std::to_string(bytes) + " bytes, accepted are its " +
                std::to_string(block->bytes) + " and nothing");
  }
  block->live = false;
  live_bytes_ -= block->bytes;
  free_slots_.push_back(block->slot);
  add(stream == block->stream ? Op::free : Op::free_on, block->slot, 0, stream, 0);
  if (ids_ == Ids::reusable) blocks_.erase(id);
  return true;
}

void TraceBuilder::empty_cache() { add(Op::empty_cache, 0, 0, 0, 0); }

bool TraceBuilder::record(std::uint64_t id, std::uint16_t stream) {
  const Block* const block = live_block(id, "recorded");
  if (block == nullptr) return false;
  add(Op::record, block->slot, 0, stream, 0);
  return true;
}

}  // namespace reprieve::replay
