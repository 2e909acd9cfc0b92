// What it costs to give a request of 1 GiB the chunks of free memory that lies in pieces, while the GPU works through
// those pieces: the time of the call, how much of it is the driver's, whether anything was waited for, and whether all
// data is right. One line for each chunk size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "device/cuda.hpp"
#include "memory/allocator.hpp"

namespace {

using namespace reprieve;  // NOLINT(google-build-using-namespace): one program, one file

constexpr std::uint64_t wanted = 1ULL << 30;
constexpr int busy_fills = 120;
constexpr std::uint64_t busy_bytes = 8ULL << 30;

void require(const Status& status, const char* what) {
  if (status.ok()) return;
  fmt::print(stderr, "{}: {} ({})\n", what, status.what, status.driver);
  std::exit(1);
}

device::Address address(void* block) { return reinterpret_cast<device::Address>(block); }

bool holds(device::Device& device, void* block, std::uint64_t bytes, unsigned char value, device::Stream stream) {
  std::vector<unsigned char> seen(bytes);
  require(device.copy(address(seen.data()), address(block), bytes, stream), "copy");
  require(device.stream_synchronize(stream), "synchronize");
  for (const unsigned char byte : seen) {
    if (byte != value) return false;
  }
  return true;
}

// Blocks of one chunk each, every other one freed after work on it was queued behind hundreds of milliseconds of other
// work; then one block of 1 GiB, which must be made of the freed ones.
bool run(device::Device& device, std::uint64_t chunk, device::Stream stream) {
  memory::AddressMap addresses;
  memory::Settings settings;
  settings.chunk_max = chunk;
  memory::Allocator allocator(device, addresses, settings);
  void* busy = nullptr;
  require(allocator.allocate(device::legacy_stream, 0, busy_bytes, &busy), "allocate");

  std::size_t kept_and_filled = 256;
  std::vector<void*> kept;
  std::vector<void*> freed;
  for (std::uint64_t i = 0; i < 2 * wanted / chunk; ++i) {
    void* block = nullptr;
    require(allocator.allocate(stream, 0, chunk, &block), "allocate");
    (i % 2 == 0 ? kept : freed).push_back(block);
  }
  const std::int64_t reserved = allocator.stats().reserved_bytes.current;
  for (int i = 0; i < busy_fills; ++i) require(device.fill(address(busy), 1, busy_bytes, stream), "fill");
  // The driver takes about a thousand launches ahead of the GPU, and then waits itself.
  kept_and_filled = std::min(kept_and_filled, kept.size());
  for (std::size_t i = 0; i < kept_and_filled; ++i) {
    require(device.fill(address(kept[i]), 2, chunk, stream), "fill");
    require(device.fill(address(freed[i]), 3, chunk, stream), "fill");
  }
  for (void* block : freed) require(memory::Allocator::free(addresses, block), "free");

  const device::CallStats before = device.call_stats();
  const auto start = std::chrono::steady_clock::now();
  void* block = nullptr;
  require(allocator.allocate(stream, 0, wanted, &block), "allocate");
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  const device::CallStats after = device.call_stats();

  device::Event event{};
  bool idle = true;
  require(device.event_create(event), "event");
  require(device.event_record(event, stream), "event");
  require(device.event_query(event, idle), "event");
  require(device.fill(address(block), 4, wanted, stream), "fill");
  bool right = holds(device, block, wanted, 4, stream);
  for (std::size_t i = 0; i < kept_and_filled; ++i) right = right && holds(device, kept[i], chunk, 2, stream);

  const memory::Stats stats = allocator.stats();
  const bool grew = stats.reserved_bytes.current != reserved;
  const auto waits = after.count[static_cast<std::size_t>(device::Call::event_wait)] -
                     before.count[static_cast<std::size_t>(device::Call::event_wait)];
  fmt::print("| {:>3} MiB | {:>4} | {:>7.0f} us | {:>7.0f} us | {} | {} | {} |\n", chunk >> 20, stats.harvested_chunks,
             took.count(), static_cast<double>(after.driver_ns - before.driver_ns) / 1e3,
             waits == 0 && !idle ? "none" : "WAITED", grew ? "GREW" : "no", right ? "right" : "WRONG");
  require(memory::Allocator::free(addresses, block), "free");
  for (void* each : kept) require(memory::Allocator::free(addresses, each), "free");
  require(memory::Allocator::free(addresses, busy), "free");
  const auto trim_start = std::chrono::steady_clock::now();
  require(allocator.trim(0), "trim");
  const std::chrono::duration<double, std::milli> trim_took = std::chrono::steady_clock::now() - trim_start;
  const std::string difference = allocator.validate();
  if (!difference.empty()) fmt::print("inconsistent: {}\n", difference);
  fmt::print(stderr, "{} MiB chunks: everything given back in {:.1f} ms\n", chunk >> 20, trim_took.count());
  require(device.event_destroy(event), "event");
  return right && !grew && waits == 0 && !idle && difference.empty();
}

}  // namespace

int main() {
  std::unique_ptr<device::Backend> backend;
  std::string reason;
  if (!device::open_cuda(backend, reason).ok()) {
    fmt::print(stderr, "{}\n", reason);
    return 2;
  }
  std::unique_ptr<device::Device> device;
  require(backend->open(0, device), "open");
  fmt::print("{}: 1 GiB regrouped while the GPU is busy\n\n", device->properties().name);
  fmt::print("| chunks | moved | call | in the driver | waits | growth | data |\n|---|---|---|---|---|---|---|\n");
  bool good = true;
  device::Stream stream{};  // must outlive the allocators: they mark it when they end
  require(device->stream_create(stream), "stream");
  for (const std::uint64_t chunk : {64U, 64U, 64U, 64U, 64U, 32U, 16U, 8U, 2U})
    good = run(*device, chunk << 20, stream) && good;
  return good ? 0 : 1;
}
