#include "replay/models/player.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace reprieve::replay::models {
namespace {

class Player {
 public:
  Player(const Trace& trace, TorchModel& model)
      : trace_(trace), model_(model), blocks_(std::max(trace.slots, 1U), nullptr) {}

  // Plays [from, to) and returns where it stopped: at `to`, or at the event that found no memory.
  std::size_t play(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const Event& event = trace_.events[i];
      Block*& block = blocks_[event.slot];
      switch (event.op) {
        case Op::allocate:
          block = event.bytes == 0 ? nullptr : model_.allocate(event.bytes, event.stream, event.pool);
          if (block == nullptr && event.bytes != 0) return i;
          break;
        // PyTorch knows no free on another stream; its callers record the use of that stream before they free.
        case Op::free_on:
          if (block != nullptr) model_.record_use(*block, event.stream);
          [[fallthrough]];
        case Op::free:
          if (block != nullptr) model_.free(*std::exchange(block, nullptr));
          break;
        case Op::record:
          if (block != nullptr) model_.record_use(*block, event.stream);
          break;
        case Op::empty_cache: model_.empty_cache(); break;
      }
    }
    return to;
  }

  void release_blocks() {
    for (Block*& block : blocks_) {
      if (block != nullptr) model_.free(*std::exchange(block, nullptr));
    }
  }

 private:
  const Trace& trace_;
  TorchModel& model_;
  std::vector<Block*> blocks_;  // by Event::slot
};

}  // namespace

Played play(const Trace& trace, const Setting& setting, std::uint64_t limit, Timeline* timeline) {
  Card card(setting.capacity);
  TorchModel model(setting.conf, setting.segments, card, limit, trace.pools.size());
  Player player(trace, model);
  Played played;
  const std::size_t count = trace.events.size();
  std::size_t done = 0;
  while (done < count) {
    const std::size_t end = timeline == nullptr ? count : timeline->interval_end(done);
    model.reset_peak();
    const std::size_t stopped = player.play(done, end);
    played.peak_reserved = std::max(played.peak_reserved, model.peak_reserved());
    if (timeline != nullptr) timeline->add(done, stopped, model.peak_reserved());
    done = stopped;
    if (stopped == end) continue;
    if (timeline != nullptr) timeline->fail(stopped, model.reserved());
    played.failed_at_event = static_cast<std::int64_t>(stopped);
    break;
  }
  played.retries = model.retries();
  played.costs = card.costs();
  player.release_blocks();
  model.empty_cache();
  played.teardown_ns = card.costs().ns - played.costs.ns;
  return played;
}

}  // namespace reprieve::replay::models
