// The seam to the CUDA driver: everything the layers above ask of a GPU, and nothing else.
//
// Contract, for every implementation (the conformance suite in tests/device checks it):
// - Thread-safe: any call from any thread, also concurrently. No call changes the caller's current context.
// - A failing call changes nothing and reports what the driver said. Errc::out_of_memory only where device or pinned
//   memory is exhausted; a caller's mistake is invalid_argument; what the driver cannot do is not_supported; all else
//   is device_error. Status::driver keeps the driver's own code.
// - Every call of the table below is counted and timed by the base class (calls(), driver_ns()).
//
// "Blocks" says whether the call may wait for the GPU. "Capture" says whether it may be made while the calling thread
// or another one captures a graph (source: table 'What is legal while a stream captures' of docs/driver.md); the
// implementations make the queries legal by exchanging the thread's capture mode for the time of the call.
//
// | call            | blocks | capture | precondition
// | reserve         | no     | yes     | bytes a multiple of the granularity, alignment a power of two or 0
// | unreserve       | no     | yes     | exactly a range from reserve, nothing mapped in it
// | create          | no     | yes     | bytes a multiple of the granularity
// | release         | no     | yes     | handle from create; memory goes back when its last mapping is gone
// | map             | no     | yes     | whole handle, inside a reservation, on addresses with nothing mapped; may be
// |                 |        |         | mapped elsewhere at the same time; unusable until set_access
// | set_access      | no     | yes     | range covers whole mappings, no gap; peers: ordinals of other devices that may
// |                 |        |         | use the range from now on as well
// | unmap           | no     | yes     | exactly one mapping; no queued work may still touch these addresses
// | memory_info     | no     | yes     |
// | event_create    | no     | yes     |
// | event_destroy   | no     | yes     |
// | event_record    | no     | no*     | *on a capturing stream it would become part of the graph: ask is_capturing first
// | event_record_all| no     | no      | waits for all earlier work of every stream; not_supported before CUDA 12.5
// | event_query     | no     | yes     | recorded at least once
// | event_wait      | yes    | yes     | recorded at least once; polls until done or the timeout has passed
// | stream_*        | no, synchronize: yes | no |
// | copy, fill      | no     | no      | mapped, accessible; queued on the stream
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"

namespace reprieve::device {

using Address = std::uint64_t;          // a device address; on every supported platform also a host pointer's value
enum class Stream : std::uintptr_t {};  // a CUstream's value
enum class Event : std::uintptr_t {};   // a CUevent's value
enum class Handle : std::uint64_t {};   // a CUmemGenericAllocationHandle

inline constexpr Stream legacy_stream{0};      // also CU_STREAM_LEGACY (1): normalize() makes them one
inline constexpr Stream per_thread_stream{2};  // CU_STREAM_PER_THREAD: another stream in every thread
constexpr Stream normalize(Stream s) { return s == Stream{1} ? legacy_stream : s; }

enum class Location : std::uint8_t { device, host };

// Every kind of call, for counts, costs and injected failures.
// clang-format off
enum class Call : std::uint8_t {
  reserve, unreserve, create, release, map, set_access, unmap, memory_info, event_create, event_destroy, event_record,
  event_record_all, event_query, event_wait, stream_create, stream_destroy, stream_synchronize, stream_wait,
  is_capturing, copy, fill,
};
// clang-format on
inline constexpr std::size_t call_kinds = static_cast<std::size_t>(Call::fill) + 1;
const char* call_name(Call call);  // "reserve", "create", …

struct Properties {
  int ordinal = 0;
  std::string name;
  std::size_t total_bytes = 0;
  std::size_t granularity = 0;  // of handles and mappings
  bool context_events = false;  // event_record_all works
};

struct CallStats {
  std::array<std::uint64_t, call_kinds> count{};
  std::uint64_t driver_ns = 0;  // by the device's own clock: measured on cuda, the cost model's on sim
  std::uint64_t wall_ns = 0;    // always by the host's clock: what to subtract to see our own code's time
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Properties& properties() const { return properties_; }

  Status reserve(std::size_t bytes, std::size_t alignment, Address& out);
  Status unreserve(Address base, std::size_t bytes);
  Status create(std::size_t bytes, Location where, Handle& out);
  Status release(Handle handle);
  Status map(Address at, std::size_t bytes, Handle handle);
  Status set_access(Address at, std::size_t bytes, std::span<const int> peers = {});
  Status unmap(Address at, std::size_t bytes);
  Status memory_info(std::size_t& free_bytes, std::size_t& total_bytes);

  Status event_create(Event& out);
  Status event_destroy(Event event);
  Status event_record(Event event, Stream stream);
  Status event_record_all(Event event);
  Status event_query(Event event, bool& done);
  Status event_wait(Event event, std::chrono::nanoseconds timeout, bool& done);

  Status stream_create(Stream& out);  // does not synchronize with the legacy default stream
  Status stream_destroy(Stream stream);
  Status stream_synchronize(Stream stream);
  Status stream_wait(Stream stream, Event event);
  Status is_capturing(Stream stream, bool& capturing);

  Status copy(Address to, Address from, std::size_t bytes, Stream stream);
  Status fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream);

  // The driver's name and text for one of its codes, e.g. "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access …".
  virtual std::string describe(std::int32_t driver_code) const = 0;

  CallStats call_stats() const;

 protected:
  explicit Device(Properties properties) : properties_(std::move(properties)) {}

  Properties properties_;

 private:
  virtual Status do_reserve(std::size_t bytes, std::size_t alignment, Address& out) = 0;
  virtual Status do_unreserve(Address base, std::size_t bytes) = 0;
  virtual Status do_create(std::size_t bytes, Location where, Handle& out) = 0;
  virtual Status do_release(Handle handle) = 0;
  virtual Status do_map(Address at, std::size_t bytes, Handle handle) = 0;
  virtual Status do_set_access(Address at, std::size_t bytes, std::span<const int> peers) = 0;
  virtual Status do_unmap(Address at, std::size_t bytes) = 0;
  virtual Status do_memory_info(std::size_t& free_bytes, std::size_t& total_bytes) = 0;
  virtual Status do_event_create(Event& out) = 0;
  virtual Status do_event_destroy(Event event) = 0;
  virtual Status do_event_record(Event event, Stream stream) = 0;
  virtual Status do_event_record_all(Event event) = 0;
  virtual Status do_event_query(Event event, bool& done) = 0;
  virtual Status do_event_wait(Event event, std::chrono::nanoseconds timeout, bool& done) = 0;
  virtual Status do_stream_create(Stream& out) = 0;
  virtual Status do_stream_destroy(Stream stream) = 0;
  virtual Status do_stream_synchronize(Stream stream) = 0;
  virtual Status do_stream_wait(Stream stream, Event event) = 0;
  virtual Status do_is_capturing(Stream stream, bool& capturing) = 0;
  virtual Status do_copy(Address to, Address from, std::size_t bytes, Stream stream) = 0;
  virtual Status do_fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream) = 0;
  // The clock by which driver_ns is counted. cuda: steady_clock. sim: the virtual host clock.
  virtual std::uint64_t clock_ns() const = 0;

  template <typename F>
  Status metered(Call call, F&& body);

  std::array<std::atomic<std::uint64_t>, call_kinds> counts_{};
  std::atomic<std::uint64_t> driver_ns_{0};
  std::atomic<std::uint64_t> wall_ns_{0};
};

// All GPUs that one driver (or one simulated machine) has.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // "cuda" or "sim"
  virtual int device_count() const = 0;
  // ordinal in [0, device_count()). Retains what it needs (on cuda the primary context) until the Device is gone.
  virtual Status open(int ordinal, std::unique_ptr<Device>& out) = 0;
};

}  // namespace reprieve::device
