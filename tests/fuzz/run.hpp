// Running lists: made up as they go, or given.
#pragma once

#include <cstdint>
#include <optional>

#include "instruction.hpp"
#include "world.hpp"

namespace reprieve::fuzz {

// Kept where another process can read it when this one has crashed.
struct Recording {
  static constexpr std::size_t most = 4096;

  std::uint64_t list_seed = 0;
  std::uint64_t executed = 0;  // instructions of all lists
  Setup setup;
  std::size_t count = 0;
  Instruction instructions[most];
  char kind[64];  // of the first difference; empty where there is none
  char text[512];
};

// A list of its own for each seed. Returns whether all was well; what was run, and the difference, are in `recording`.
bool run_made_up(std::uint64_t list_seed, Workers& workers, Recording& recording);

// With everything looked at after each instruction.
std::optional<Difference> run_given(const Setup& setup, const List& list, Workers& workers);

}  // namespace reprieve::fuzz
