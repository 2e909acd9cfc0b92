// Plays a trace through a model: what the C interface's Session is to the library.
#pragma once

#include <cstdint>
#include <string>

#include "replay/models/torch_model.hpp"
#include "replay/timeline.hpp"
#include "replay/trace.hpp"

namespace reprieve::replay::models {

struct Setting {
  AllocConf conf;
  Segments segments = Segments::plain;
  std::uint64_t capacity = 0;  // of the card
};

struct Played {
  std::int64_t failed_at_event = -1;  // -1: the whole trace
  std::uint64_t peak_reserved = 0;
  std::uint64_t retries = 0;
  Card::Costs costs;
  std::uint64_t teardown_ns = 0;  // freeing what is live and releasing all that is cached, private pools' apart
};

// `limit` 0: none. `timeline`, where it is not null, is filled.
Played play(const Trace& trace, const Setting& setting, std::uint64_t limit, Timeline* timeline);

}  // namespace reprieve::replay::models
