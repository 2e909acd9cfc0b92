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

// Every kind of instruction in one list; it shows nothing but that each of them runs.
TEST(FuzzRegressions, EveryInstruction) {
  expect_clean({.limit = 200 * MiB}, {
                                         {Op::allocate, 0, 3, 0, 3 * MiB},
                                         {Op::write, 0, 3, 0, 1000},
                                         {Op::write, 0, 4, 1, 1000},
                                         {Op::order, 0, 3, 4, 0},
                                         {Op::read, 0, 3, 0, 1000},
                                         {Op::record_stream, 0, 5, 0, 0},
                                         {Op::pin_backing, 0, 0, 0, 0},
                                         {Op::free_interior, 0, 0, 0, 511},
                                         {Op::free, 0, 0, 0, 1},
                                         {Op::free_again, 0, 0, 0, 0},
                                         {Op::free_unknown, 0, 0, 0, 4096},
                                         {Op::create_pool, 0, 0, 1, 1},
                                         {Op::begin_capture, 0, 3, 0, 1},
                                         {Op::allocate, 1, 3, 1, 2000},
                                         {Op::write, 1, 3, 0, 0},
                                         {Op::reallocate, 1, 0, 0, 0},
                                         {Op::free, 1, 0, 0, 0},
                                         {Op::end_capture, 0, 3, 0, 0},
                                         {Op::replay_graph, 0, 0, 1, 0},
                                         {Op::fail, 2, 0, 1, 2},  // the next create: out of memory
                                         {Op::allocate, 2, 3, 0, 70 * MiB},
                                         {Op::clear_failures, 0, 0, 0, 0},
                                         {Op::hold, 0, 4, 0, 0},
                                         {Op::allocate, 3, 4, 0, 5 * MiB},
                                         {Op::write, 3, 4, 0, 100},
                                         {Op::free_on, 3, 5, 0, 0},
                                         {Op::resume, 0, 4, 0, 0},
                                         {Op::advance, 0, 0, 0, 1'000'000},
                                         {Op::synchronize_stream, 0, 4, 0, 0},
                                         {Op::synchronize, 0, 0, 0, 0},
                                         {Op::empty_cache, 1, 0, 0, 0},
                                         {Op::trim, 1, 0, 0, 4 * MiB},
                                         {Op::set_limit, 0, 0, 0, 64 * MiB},
                                         {Op::set_capacity, 0, 0, 0, 128 * MiB},
                                         {Op::set_foreign_use, 0, 0, 0, 64 * MiB},
                                         {Op::switch_thread, 0, 0, 0, 1},
                                         {Op::allocate, 4, 2, 0, 100},
                                         {Op::destroy_pool, 0, 0, 1, 0},
                                         {Op::destroy_stream, 0, 3, 0, 0},
                                         {Op::reset_peaks, 0, 0, 0, 0},
                                         {Op::reset_accumulated, 0, 0, 0, 0},
                                         {Op::check_stats, 0, 0, 0, 0},
                                         {Op::validate, 0, 0, 0, 0},
                                     });
}

// An event of the whole context was recorded, for a stream that had been destroyed, while another stream was captured.
TEST(FuzzRegressions, ContextEventSpoilsCapture) {
  expect_clean({.device_bytes = 128 * MiB}, {
                                                {Op::allocate, 67, 4, 0, 64 * MiB},
                                                {Op::allocate, 0, 3, 0, 512},
                                                {Op::destroy_stream, 0, 4, 0, 0},
                                                {Op::free, 67, 0, 0, 0},
                                                {Op::begin_capture, 0, 3, 0, 0},
                                                {Op::trim, 0, 0, 0, 0},
                                                {Op::end_capture, 0, 3, 0, 0},
                                            });
}

// The legacy stream was marked while a stream that it waits for was captured.
TEST(FuzzRegressions, LegacyStreamSpoilsCapture) {
  expect_clean({.device_bytes = 64 * MiB, .limit = 24 * MiB}, {
                                                                  {Op::allocate, 15, 0, 0, 2 * MiB},
                                                                  {Op::allocate, 1, 2, 0, 512},
                                                                  {Op::free, 15, 0, 0, 0},
                                                                  {Op::begin_capture, 0, 2, 0, 0},
                                                                  {Op::allocate, 2, 0, 0, 64 * MiB},
                                                                  {Op::end_capture, 0, 2, 0, 0},
                                                              });
}

// Where a limit lies beyond what the device has left, a request that needs both new memory and other free memory failed.
TEST(FuzzRegressions, LimitBeyondTheDevice) {
  expect_clean({.device_bytes = 256 * MiB, .chunk_max = 2 * MiB, .growth_slack = 0.5, .limit = 192 * MiB},
               {
                   {Op::allocate, 0, 0, 0, 2 * MiB},
                   {Op::allocate, 1, 0, 0, 6 * MiB},
                   {Op::set_foreign_use, 0, 0, 0, 218 * MiB},
                   {Op::free, 0, 0, 0, 0},
                   {Op::allocate, 2, 3, 0, 32 * MiB},
               });
}

// Without a limit, what the driver had free was remembered too long: others had given memory back since.
TEST(FuzzRegressions, OthersGaveMemoryBack) {
  expect_clean({.device_bytes = 512 * MiB}, {
                                                {Op::set_foreign_use, 0, 0, 0, 400 * MiB},
                                                {Op::allocate, 0, 0, 0, 8 * MiB},
                                                {Op::set_foreign_use, 0, 0, 0, 0},
                                                {Op::free, 0, 0, 0, 0},
                                                {Op::allocate, 1, 0, 0, 200 * MiB},
                                            });
}

}  // namespace
}  // namespace reprieve::fuzz
