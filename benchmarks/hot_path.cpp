// An allocation and a free that need no driver call, on one thread and on several with a stream each. Compared in the
// same run: the host's malloc, the driver's own stream-ordered pool (with a GPU), and the same library behind one lock
// and a hash map, which is what torch puts around a pluggable allocator's functions.
//
// REPRIEVE_DEVICE=sim runs it without a GPU: no driver call is made in the timed part.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "reprieve/reprieve.h"

namespace {

constexpr size_t block_bytes = 1 << 20;
constexpr int most_threads = 8;

void require(reprieve_status status) {
  if (status == REPRIEVE_OK) return;
  std::fprintf(stderr, "%s\n", reprieve_last_error());
  std::exit(1);
}

reprieve_stream stream_of(int thread) {
  static std::vector<reprieve_stream> streams = [] {
    std::vector<reprieve_stream> made(most_threads);
    for (reprieve_stream& stream : made) require(reprieve_stream_create(0, &stream));
    return made;
  }();
  return streams[static_cast<size_t>(thread)];
}

// Every stream has had a block at the same time, as streams of a program in its steady state have: the device's peak is
// the sum of what they need, and no allocation can carry it higher.
void hold_one_on_every_stream() {
  std::vector<void*> blocks(most_threads);
  for (int i = 0; i < most_threads; ++i) {
    require(reprieve_alloc(&blocks[static_cast<size_t>(i)], block_bytes, 0, stream_of(i)));
  }
  for (void* block : blocks) require(reprieve_dealloc(block));
}

void reprieve_pair(benchmark::State& state) {
  reprieve_stream stream = stream_of(state.thread_index());
  if (state.thread_index() == 0) hold_one_on_every_stream();
  for (auto _ : state) {
    void* block = nullptr;
    require(reprieve_alloc(&block, block_bytes, 0, stream));
    benchmark::DoNotOptimize(block);
    require(reprieve_dealloc(block));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(reprieve_pair)->Threads(1)->Threads(most_threads)->UseRealTime();

// The bad case: every allocation may be a new peak of the device, which only a look at all pools can tell.
void reprieve_pair_at_the_peak(benchmark::State& state) {
  reprieve_stream stream = stream_of(state.thread_index());
  for (auto _ : state) {
    if (state.thread_index() == 0) require(reprieve_reset_peak_stats(0));
    void* block = nullptr;
    require(reprieve_alloc(&block, block_bytes, 0, stream));
    benchmark::DoNotOptimize(block);
    require(reprieve_dealloc(block));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(reprieve_pair_at_the_peak)->Threads(most_threads)->UseRealTime();

// Replaces a random one of 256 live blocks of 64 KiB to 16 MiB.
void reprieve_live_blocks(benchmark::State& state) {
  reprieve_stream stream = stream_of(state.thread_index());
  unsigned random = 12345;
  const auto next = [&random] { return random = random * 1664525U + 1013904223U; };
  const auto size = [&] { return size_t{65536} << ((next() >> 16) % 9); };
  std::vector<void*> blocks(256);
  for (void*& block : blocks) require(reprieve_alloc(&block, size(), 0, stream));
  for (auto _ : state) {
    void*& block = blocks[(next() >> 16) % blocks.size()];
    require(reprieve_dealloc(block));
    require(reprieve_alloc(&block, size(), 0, stream));
  }
  for (void* block : blocks) require(reprieve_dealloc(block));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(reprieve_live_blocks)->Threads(1)->UseRealTime();

std::mutex one_lock;
std::unordered_map<void*, size_t> sizes;

void single_lock_pair(benchmark::State& state) {
  reprieve_stream stream = stream_of(state.thread_index());
  for (auto _ : state) {
    void* block = nullptr;
    {
      const std::scoped_lock lock(one_lock);
      require(reprieve_alloc(&block, block_bytes, 0, stream));
      sizes.emplace(block, block_bytes);
    }
    benchmark::DoNotOptimize(block);
    const std::scoped_lock lock(one_lock);
    sizes.erase(block);
    require(reprieve_dealloc(block));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(single_lock_pair)->Threads(1)->Threads(most_threads)->UseRealTime();

void malloc_pair(benchmark::State& state) {
  for (auto _ : state) {
    void* block = std::malloc(1024);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(malloc_pair)->Threads(1)->Threads(most_threads)->UseRealTime();

// cudaMallocAsync's driver functions.
void driver_pool_pair(benchmark::State& state) {
  using Alloc = int (*)(unsigned long long*, size_t, reprieve_stream);
  using Free = int (*)(unsigned long long, reprieve_stream);
  using Retain = int (*)(void**, int);
  using SetCurrent = int (*)(void*);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const char* device = std::getenv("REPRIEVE_DEVICE");
  if (driver == nullptr || (device != nullptr && std::string_view(device) == "sim")) {
    state.SkipWithError("no CUDA driver here");
    return;
  }
  const auto alloc = reinterpret_cast<Alloc>(dlsym(driver, "cuMemAllocAsync"));
  const auto release = reinterpret_cast<Free>(dlsym(driver, "cuMemFreeAsync"));
  void* context = nullptr;
  reinterpret_cast<Retain>(dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
  reinterpret_cast<SetCurrent>(dlsym(driver, "cuCtxSetCurrent"))(context);
  reprieve_stream stream = stream_of(state.thread_index());
  for (auto _ : state) {
    unsigned long long block = 0;
    if (alloc(&block, block_bytes, stream) != 0 || release(block, stream) != 0) {
      state.SkipWithError("the driver refused");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(driver_pool_pair)->Threads(1)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
