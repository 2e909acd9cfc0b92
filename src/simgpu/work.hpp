// What can be queued on a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reprieve::simgpu {

struct Range {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// Names of kernels under small numbers, process-wide and for ever, so that a launch need not carry a string. Any
// thread. The same name has the same number.
enum class KernelId : std::uint32_t { none = 0 };
KernelId kernel_id(std::string_view name);
const std::string& kernel_name(KernelId kernel);  // "" for none; the reference stays valid

// A kernel, as far as memory is concerned.
struct Work {
  std::string name = "kernel";
  // What it touches, as far as that is known: looked up when it is queued, and again when it runs. Bytes that are not
  // named here are neither checked for faults nor poisoned.
  std::vector<Range> reads;
  std::vector<Range> writes;
  std::uint64_t duration_ns = 1'000;
  // On the bytes, when the work ends; under the machine's lock: it must not call the machine. All ranges are mapped
  // then (it is left out where they are not). May run any number of times where the work is part of a graph.
  std::function<void()> effect = {};
  KernelId kernel = KernelId::none;  // where set, the name: reports show it, and launches are counted under it
  bool overwrites = false;  // the effect writes every byte of `writes`, so that fresh memory needs no poison first
  bool any_device = false;  // memory that another device may use will do, as for copies between devices
};

// A copy of `rows` rows of `bytes` each; the rows of a side are `pitch` bytes apart (not used where there is one row).
struct Transfer {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::uint64_t to_pitch = 0;
  std::uint64_t from_pitch = 0;
  std::uint64_t rows = 1;
};

// `rows` rows of `bytes` each are filled with the lowest `element_bytes` (1, 2 or 4) bytes of `value`, over and over.
struct Fill {
  std::uint64_t to = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;
  std::uint64_t bytes = 0;
  std::uint64_t pitch = 0;
  std::uint64_t rows = 1;
};

// Runs without the machine's lock, on whichever thread makes time pass; calls from inside it that would queue, wait,
// allocate or free fail with Code::not_permitted, as CUDA has it. It must not throw.
using HostFunction = std::function<void()>;

}  // namespace reprieve::simgpu
