// Makes a Trace of events that come one after another, whatever their source, and says what is wrong with one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/trace.hpp"

namespace reprieve::replay {

inline constexpr std::uint64_t largest_number = std::numeric_limits<std::int64_t>::max();

class TraceBuilder {
 public:
  // Whether an id may name a second block once the first one is freed. `where` below is what an error calls the place
  // of the first one ("line 3"); it is kept for unique ids only.
  enum class Ids : std::uint8_t { unique, reusable };

  TraceBuilder(Trace& trace, Ids ids) : trace_(trace), ids_(ids) {}

  // Each returns false where error() is set. For every event: stream(), then time(), then the event itself.
  bool stream(std::uint64_t id, std::uint16_t& index);
  bool time(std::uint64_t time_us);
  bool allocate(std::uint64_t id, std::uint64_t bytes, std::uint16_t stream, std::uint16_t pool, std::uint64_t line);
  bool free(std::uint64_t id, std::uint64_t bytes, bool sized, std::uint16_t stream);
  bool record(std::uint64_t id, std::uint16_t stream);
  void empty_cache();

  // Before an allocation from it.
  bool pool(std::uint32_t id, bool graph, std::uint16_t& index);

  void finish() { trace_.duration_us = last_us_ - first_us_; }

  const std::string& error() const { return error_; }

 private:
  struct Block {
    std::uint64_t bytes;
    std::uint64_t line;  // of its allocation
    std::uint32_t slot;
    std::uint16_t stream;
    bool live;
  };

  bool fail(std::string text);
  Block* live_block(std::uint64_t id, const char* verb);
  void add(Op op, std::uint32_t slot, std::uint64_t bytes, std::uint16_t stream, std::uint16_t pool);

  Trace& trace_;
  Ids ids_;
  std::string error_;
  std::uint64_t first_us_ = 0, last_us_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::unordered_map<std::uint64_t, Block> blocks_;  // with unique ids also those that are freed
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::unordered_map<std::uint32_t, std::uint16_t> pools_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace reprieve::replay
