#include "standin/gates.hpp"

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "standin/context.hpp"

namespace reprieve::standin {

std::atomic<int> shut_gates{0};

namespace {

using simgpu::Code;

// A stream of its own, held, is what the waiting stream depends on; opening the gate lets it go.
struct Gate {
  int device = 0;
  simgpu::StreamId held = 0;
  std::uint64_t address = 0;
  std::uint64_t value = 0;
  int bytes = 4;
  unsigned flags = 0;

  bool is_open() const {
    void* const at = reinterpret_cast<void*>(address);
    const std::uint64_t now = bytes == 4 ? __atomic_load_n(static_cast<const std::uint32_t*>(at), __ATOMIC_ACQUIRE)
                                         : __atomic_load_n(static_cast<const std::uint64_t*>(at), __ATOMIC_ACQUIRE);
    const std::uint64_t mask = bytes == 4 ? 0xffffffffU : ~std::uint64_t{0};
    switch (flags & 0x3U) {
      case CU_STREAM_WAIT_VALUE_EQ: return now == (value & mask);
      case CU_STREAM_WAIT_VALUE_AND: return (now & value & mask) != 0;
      case CU_STREAM_WAIT_VALUE_NOR: return (~(now | value) & mask) != 0;
      default: break;
    }
    // At least as large, cyclically.
    const std::uint64_t ahead = (now - value) & mask;
    return ahead < (mask >> 1) + 1;
  }
};

struct Gates {
  std::mutex mutex;
  std::vector<Gate> shut;
};

Gates& gates() {
  static auto* const all = new Gates;
  return *all;
}

// On the virtual clock; between two looks at the gates.
constexpr std::uint64_t step_ns = 1'000'000;
constexpr std::chrono::microseconds pause{20};

Code wait(simgpu::EventId event) {
  for (;;) {
    open_gates();
    const Code code = machine()->event_wait(event, step_ns);
    if (code != Code::not_ready) return code;
    std::this_thread::sleep_for(pause);
  }
}

template <typename Record>
Code wait_for_record(int device, Record&& record) {
  simgpu::EventId event = 0;
  if (const Code code = machine()->event_create(device, event); code != Code::success) return code;
  Code code = record(event);
  if (code == Code::success) code = wait(event);
  (void)machine()->event_destroy(event);
  return code;
}

}  // namespace

Code add_gate(int device, simgpu::StreamId stream, std::uint64_t address, std::uint64_t value, int bytes,
              unsigned flags) {
  simgpu::Machine& gpus = *machine();
  Gate gate{device, 0, address, value, bytes, flags};
  simgpu::EventId event = 0;
  if (const Code code = gpus.stream_create(device, gate.held); code != Code::success) return code;
  gpus.hold(device, gate.held);
  Code code = gpus.event_create(device, event);
  if (code == Code::success) code = gpus.event_record(device, event, gate.held);
  if (code == Code::success) code = gpus.stream_wait(device, stream, event);
  if (event != 0) (void)gpus.event_destroy(event);
  if (code != Code::success) {
    gpus.resume(device, gate.held);
    (void)gpus.stream_destroy(device, gate.held);
    return code;
  }
  const std::lock_guard lock(gates().mutex);
  gates().shut.push_back(gate);
  shut_gates.fetch_add(1);
  return Code::success;
}

void open_gates_now() {
  std::vector<Gate> opened;
  {
    const std::lock_guard lock(gates().mutex);
    std::erase_if(gates().shut, [&](const Gate& gate) {
      if (!gate.is_open()) return false;
      opened.push_back(gate);
      return true;
    });
    shut_gates.fetch_sub(static_cast<int>(opened.size()));
  }
  for (const Gate& gate : opened) {
    machine()->resume(gate.device, gate.held);
    (void)machine()->stream_destroy(gate.device, gate.held);
  }
}

Code synchronize_stream(int device, simgpu::StreamId stream) {
  open_gates();
  bool capturing = false;
  // A stream that captures is the machine's to refuse: an event recorded there would become part of the graph.
  if (shut_gates.load() == 0 || machine()->is_capturing(device, stream, capturing) != Code::success || capturing) {
    return machine()->stream_synchronize(device, stream);
  }
  return wait_for_record(device, [&](simgpu::EventId event) { return machine()->event_record(device, event, stream); });
}

Code synchronize_event(simgpu::EventId event) {
  open_gates();
  return shut_gates.load() == 0 ? machine()->event_synchronize(event) : wait(event);
}

Code synchronize_device(int device) {
  open_gates();
  if (shut_gates.load() == 0) return machine()->synchronize(device);
  return wait_for_record(device, [&](simgpu::EventId event) { return machine()->event_record_all(device, event); });
}

}  // namespace reprieve::standin
