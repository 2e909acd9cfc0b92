#include "replay/session.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace reprieve::replay {
namespace {

constexpr int ordinal = 0;

}  // namespace

Session::~Session() {
  if (!up_) return;
  release_blocks();
  shutdown();
}

bool Session::check(reprieve_status status, const char* what) {
  if (status == REPRIEVE_OK) return true;
  // The first failure is the one to tell: what fails afterwards, while things are put away, follows from it.
  if (error_.empty()) {
    const char* reason = reprieve_last_error();
    error_ = std::string(what) + ": " + (*reason != '\0' ? reason : reprieve_status_string(status));
  }
  return false;
}

bool Session::set_option(const char* name, const std::string& value) {
  const reprieve_status status = reprieve_set_option(name, value.c_str());
  if (status == REPRIEVE_OK) return true;
  // The library's text for a refused option begins with its name and says what is accepted: nothing to add.
  error_ = reprieve_last_error();
  return !error_.empty() ? false : check(status, name);
}

Session::Start Session::start(const Trace& trace, const char* device, std::uint64_t limit_bytes,
                              std::uint64_t capacity_bytes) {
  trace_ = &trace;
  up_ = true;
  // The limit is always said, so that no REPRIEVE_LIMIT of the caller's environment decides a measurement.
  if (!set_option("device", device) || !set_option("limit", std::to_string(limit_bytes)) ||
      (capacity_bytes != 0 && !set_option("sim_capacity", std::to_string(capacity_bytes)))) {
    return Start::refused;
  }
  if (!check(reprieve_init(), "start")) return Start::failed;
  blocks_.assign(std::max(trace.slots, 1U), nullptr);
  pools_.assign(1, 0);
  streams_.reserve(trace.stream_ids.size());
  for (const std::uint64_t id : trace.stream_ids) {
    reprieve_stream stream = nullptr;
    if (id != 0 && !check(reprieve_stream_create(ordinal, &stream), "stream create")) return Start::failed;
    streams_.push_back(stream);
  }
  for (std::size_t i = 1; i < trace.pools.size(); ++i) {
    const unsigned flags = trace.pools[i].graph ? REPRIEVE_POOL_GRAPH : 0;
    reprieve_pool pool = 0;
    if (!check(reprieve_pool_create(ordinal, flags, &pool), "pool create")) return Start::failed;
    pools_.push_back(pool);
  }
  return Start::up;
}

reprieve_status Session::loop(std::size_t from, std::size_t to, std::size_t& done) {
  const Event* const events = trace_->events.data();
  const reprieve_stream* const streams = streams_.data();
  const reprieve_pool* const pools = pools_.data();
  void** const blocks = blocks_.data();
  reprieve_status status = REPRIEVE_OK;
  std::size_t i = from;
  for (; i < to; ++i) {
    const Event& event = events[i];
    void*& block = blocks[event.slot];
    switch (event.op) {
      case Op::allocate:
        status = reprieve_alloc_in_pool(&block, event.bytes, ordinal, streams[event.stream], pools[event.pool]);
        break;
      case Op::free: status = reprieve_dealloc(std::exchange(block, nullptr)); break;
      case Op::free_on: status = reprieve_dealloc_on(std::exchange(block, nullptr), streams[event.stream]); break;
      case Op::record:
        // A request of 0 bytes has a null pointer, and nothing that a stream could use.
        if (block != nullptr) status = reprieve_record_stream(block, streams[event.stream]);
        break;
      case Op::empty_cache: status = reprieve_empty_cache(ordinal); break;
    }
    if (status != REPRIEVE_OK) [[unlikely]]
      break;
  }
  done = i;
  return status;
}

bool Session::out_of_memory(reprieve_status status, std::size_t at) {
  const Event& failed = trace_->events[at];
  // A failed allocation has no block; what its slot holds is the library's to leave undefined.
  if (failed.op == Op::allocate) blocks_[failed.slot] = nullptr;
  if (status == REPRIEVE_ERROR_OUT_OF_MEMORY) return true;
  std::string event = "event " + std::to_string(at);
  if (trace_->first_event_line != 0) {
    event += " (line " + std::to_string(trace_->first_event_line + at) + " of the trace)";
  }
  return check(status, event.c_str());
}

bool Session::play(Pass& out) {
  using Clock = std::chrono::steady_clock;
  reprieve_stats before{}, after{};
  if (!stats(before)) return false;
  std::size_t done = 0;
  const Clock::time_point begin = Clock::now();
  const reprieve_status status = loop(0, trace_->events.size(), done);
  const Clock::time_point end = Clock::now();
  const bool complete = status == REPRIEVE_OK;
  if (!complete && !out_of_memory(status, done)) return false;
  if (!stats(after)) return false;
  out.failed_at_event = complete ? -1 : static_cast<std::int64_t>(done);
  out.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  out.driver_wall_ns = after.driver_wall_ns - before.driver_wall_ns;
  return true;
}

// The library's peak is not reset for an interval's: how it grows depends on it. So it is looked at after each event,
// and what was reserved for a moment within one shows where the peak of the whole run rises.
bool Session::play(Timeline& out) {
  reprieve_stats now{};
  if (!stats(now)) return false;
  std::int64_t run_peak = now.reserved_bytes.peak;
  std::size_t from = 0;
  while (from < trace_->events.size()) {
    const std::size_t end = out.interval_end(from);
    std::int64_t interval_peak = now.reserved_bytes.current;
    std::size_t done = from;
    reprieve_status status = REPRIEVE_OK;
    while (status == REPRIEVE_OK && done < end) {
      status = loop(done, done + 1, done);
      if (status != REPRIEVE_OK && !out_of_memory(status, done)) return false;
      if (!stats(now)) return false;
      interval_peak = std::max(interval_peak, now.reserved_bytes.current);
    }
    if (now.reserved_bytes.peak > run_peak) interval_peak = run_peak = now.reserved_bytes.peak;
    out.add(from, done, static_cast<std::uint64_t>(interval_peak));
    if (status != REPRIEVE_OK) {
      out.fail(done, static_cast<std::uint64_t>(now.reserved_bytes.current));
      return true;
    }
    from = done;
  }
  return true;
}

bool Session::release_blocks() {
  bool good = true;
  for (void*& block : blocks_) {
    if (block != nullptr) good = check(reprieve_dealloc(std::exchange(block, nullptr)), "free") && good;
  }
  for (const reprieve_stream stream : streams_) {
    good = check(reprieve_stream_synchronize(ordinal, stream), "stream synchronize") && good;
  }
  return good;
}

bool Session::stats(reprieve_stats& out) {
  out.size = sizeof out;
  return check(reprieve_get_stats(ordinal, &out), "stats");
}

bool Session::validate() { return check(reprieve_validate(ordinal), "validate"); }

bool Session::give_back(std::int64_t& driver_ns) {
  reprieve_stats before{}, after{};
  if (!stats(before) || !check(reprieve_empty_cache(-1), "empty cache") || !stats(after)) return false;
  driver_ns = after.driver_ns - before.driver_ns;
  return true;
}

bool Session::shutdown() {
  bool good = true;
  for (const reprieve_pool pool : pools_) {
    if (pool != 0) good = check(reprieve_pool_destroy(ordinal, pool), "pool destroy") && good;
  }
  pools_.clear();
  for (const reprieve_stream stream : streams_) {
    if (stream != nullptr) good = check(reprieve_stream_destroy(ordinal, stream), "stream destroy") && good;
  }
  streams_.clear();
  up_ = false;
  return check(reprieve_shutdown(), "shutdown") && good;
}

}  // namespace reprieve::replay
