// One GPU behind the device contract. Streams, events and handles are the driver's own values.
#pragma once

#include <atomic>
#include <memory>

#include "device/device.hpp"
#include "device/driver_api.hpp"

namespace reprieve::device {

class CudaDevice final : public Device {
 public:
  // Takes over one reference to the device's primary context.
  CudaDevice(std::shared_ptr<const driver::Api> api, driver::Ordinal device, driver::Context context,
             Properties properties);
  ~CudaDevice() override;

  // Reserves, creates, maps and unmaps one granule, uncounted. not_supported where the driver refuses one of these calls
  // although the device has virtual memory management (seen under WSL): better known before the first allocation.
  Status try_memory_calls();

  std::string describe(std::int32_t driver_code) const override;

 private:
  Status do_reserve(std::size_t bytes, std::size_t alignment, Address& out) override;
  Status do_unreserve(Address base, std::size_t bytes) override;
  Status do_create(std::size_t bytes, Location where, Handle& out) override;
  Status do_release(Handle handle) override;
  Status do_map(Address at, std::size_t bytes, Handle handle) override;
  Status do_set_access(Address at, std::size_t bytes, std::span<const int> peers) override;
  Status do_unmap(Address at, std::size_t bytes) override;
  Status do_memory_info(std::size_t& free_bytes, std::size_t& total_bytes) override;
  Status do_event_create(Event& out) override;
  Status do_event_destroy(Event event) override;
  Status do_event_record(Event event, Stream stream) override;
  Status do_event_record_all(Event event) override;
  Status do_event_query(Event event, bool& done) override;
  Status do_event_wait(Event event, std::chrono::nanoseconds timeout, bool& done) override;
  Status do_stream_create(Stream& out) override;
  Status do_stream_destroy(Stream stream) override;
  Status do_stream_synchronize(Stream stream) override;
  Status do_stream_wait(Stream stream, Event event) override;
  Status do_is_capturing(Stream stream, bool& capturing) override;
  Status do_copy(Address to, Address from, std::size_t bytes, Stream stream) override;
  Status do_fill(Address to, std::uint8_t value, std::size_t bytes, Stream stream) override;
  std::uint64_t clock_ns() const override;

  Status create_on_device(std::size_t bytes, Handle& out);
  Status create_on_host(std::size_t bytes, Handle& out);

  const std::shared_ptr<const driver::Api> api_;
  const driver::Ordinal device_;
  const driver::Context context_;
  const int numa_node_;  // of the host memory next to the device; below 0: the machine has no such nodes

  // What the driver has once refused is not asked for again. Threads that race here each learn it for themselves.
  std::atomic<bool> ask_for_rdma_;
  std::atomic<bool> ask_for_fd_;
  std::atomic<bool> ask_for_numa_;
};

}  // namespace reprieve::device
