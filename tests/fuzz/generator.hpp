// Makes up instructions. Each list has a character (which kinds of instruction, sizes and streams occur in it, how full
// the device is kept), because a mixture of everything seldom gets anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "instruction.hpp"
#include "world.hpp"

namespace reprieve::fuzz {

class Generator {
 public:
  explicit Generator(std::uint64_t seed);

  const Setup& setup() const { return setup_; }
  std::size_t length() const { return length_; }
  Instruction next(const World& world);

 private:
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t log_uniform(std::uint64_t low, std::uint64_t high);
  std::uint64_t size();
  std::uint32_t stream();
  std::uint32_t slot(const World& world);
  std::uint64_t limit(const World& world);
  void choose_setup();
  void choose_character();
  Instruction allocation(const World& world);
  Instruction failure();

  std::mt19937_64 random_;
  Setup setup_;
  std::size_t length_ = 0;
  std::array<unsigned, op_count> weights_{};
  unsigned weight_sum_ = 0;
  std::size_t most_blocks_ = 0;
  std::uint64_t largest_ = 0;
  unsigned small_share_ = 0;                // of sizes, in percent
  std::vector<std::uint64_t> usual_sizes_;  // from which most are taken
  std::vector<std::uint32_t> streams_;
  bool pools_ = false;
};

}  // namespace reprieve::fuzz
