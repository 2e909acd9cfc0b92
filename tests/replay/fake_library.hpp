// A double of libreprieve.so for the replay engine's tests: a bump allocator that keeps a log of the calls it gets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <reprieve/reprieve.h>

namespace fake {

// Memory is reserved in pages of 2 MiB for all live bytes together, plus `overhead_pages`, and kept until it is given
// back; an allocation that would reserve more than the option `limit` fails. Every new page is one "create" that costs
// page_driver_ns, and each page given back one "release" that costs the same.
struct Library {
  static constexpr std::uint64_t page_bytes = 2ULL << 20;
  static constexpr int create_kind = 2, release_kind = 3;
  static constexpr std::int64_t page_driver_ns = 1000;

  // Settings of a test.
  std::uint64_t overhead_pages = 0;
  std::uint64_t memory_bytes = 1ULL << 40;  // of the card
  std::string failing_call;                 // this one returns a device error
  std::uint64_t shrinks_after_starts = 0;   // from the start of this number on, one page more is needed; 0: never

  // What happened.
  std::vector<std::string> log;
  int starts = 0;

  // The library's own state.
  bool started = false;
  std::map<std::string, std::string> options;
  std::map<void*, std::uint64_t> live;
  std::uintptr_t next_address = 0x1000;
  std::uintptr_t next_stream = 0x10;
  reprieve_pool pools = 0;
  std::uint64_t live_bytes = 0, reserved_bytes = 0, peak_reserved_bytes = 0;
  reprieve_stats stats{};
  std::string error;
};

// The one library of the process.
Library& library();

// As if the process began anew.
void reset();

}  // namespace fake
