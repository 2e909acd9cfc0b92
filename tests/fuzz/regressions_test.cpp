// Lists that once showed a mistake, as the fuzzer printed them. The line above each says what was wrong.
#include <gtest/gtest.h>

#include "run.hpp"

namespace reprieve::fuzz {
namespace {

void expect_clean(const Setup& setup, const List& list) {
  Workers workers(threads);
  const std::optional<Difference> difference = run_given(setup, list, workers);
  if (difference) ADD_FAILURE() << difference->kind << ": " << difference->text;
}

// No find, but each kind of instruction once.
TEST(FuzzRegressions, EveryInstruction) {
  expect_clean({}, {
      {Op::allocate, 0, 3, 0, 3 * MiB},
  });
}

}  // namespace
}  // namespace reprieve::fuzz
