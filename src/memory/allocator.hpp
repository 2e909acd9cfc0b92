// The memory of one device: pools, chunks, growth, and what gives memory back. The way of a request:
//
//   allocate  one pool's lock, its bins; done, where a free range fits
//   slow      under the allocator's mutex: finish deferred frees, look again, then grow: new chunks, or chunks of free
//             ranges mapped at a second address (growth.cpp); then what other streams have finished with; then wait
//
// Locks, in the order in which they are taken: the allocator's mutex, pools' locks (several only under the mutex), the
// event cache's. No lock is held while a thread waits for the GPU.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "memory/chunk.hpp"
#include "memory/fair_mutex.hpp"
#include "memory/hooks.hpp"
#include "memory/pool.hpp"
#include "memory/pool_cache.hpp"
#include "memory/span.hpp"
#include "memory/visit.hpp"

namespace reprieve::memory {

struct Settings {
  std::uint64_t limit = 0;     // bytes; 0: none
  std::uint64_t headroom = 0;  // bytes left free in the device where there is no limit
  double growth_slack = 0.01;
  std::uint64_t chunk_max = 64ULL << 20;  // a multiple of page_bytes
  std::chrono::milliseconds wait{10'000};
};

struct Counter {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

struct Totals {
  std::array<Counter, metric_count> metrics;  // by Metric
  Counter reserved_bytes;
  Counter segments;
};

// Something told three times: for all blocks, and for those of each kind.
template <typename T>
struct ByKind {
  T all{};
  std::array<T, block_kinds> kinds{};

  T& of(BlockKind kind) { return kinds[static_cast<std::size_t>(kind)]; }
  const T& of(BlockKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  template <typename F>
  void each(F&& visit) {
    visit(all);
    for (T& one : kinds) visit(one);
  }
};

// A chunk counts as reserved by the kind of the arena that its home is, or last was, in: until it is released, also
// while it is on its way there. Chunks that are given to the other kind are freed by the one, allocated by the other,
// and neither for all.
struct Stats : Totals {
  std::array<Totals, block_kinds> kinds;  // by BlockKind
  std::int64_t alloc_retries = 0;
  std::int64_t ooms = 0;
  std::int64_t invalid_frees = 0;
  std::int64_t harvested_chunks = 0;
  std::int64_t harvested_bytes = 0;
  std::int64_t limbo_bytes = 0;
  std::int64_t address_space_bytes = 0;
};

class AllPools;

class Allocator {
 public:
  // Both must outlive the allocator.
  Allocator(device::Device& device, AddressMap& addresses, const Settings& settings);
  // Gives everything back, live blocks too, after waiting for the work that may touch it.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  device::Device& device() const { return device_; }

  // bytes 0: success and null.
  Status allocate(Stream stream, PoolId pool, std::uint64_t bytes, void** out);
  // These find the block's allocator by its address. A pointer that is not the beginning of a live block:
  // invalid_argument, counted by the allocator whose addresses it lies in, or else by the map.
  static Status free(AddressMap& addresses, void* ptr);
  // The block is free once work now queued on `stream` has ended as well.
  static Status free_on(AddressMap& addresses, void* ptr, Stream stream);
  static Status record_stream(AddressMap& addresses, void* ptr, Stream stream);
  static Status pin_backing(AddressMap& addresses, void* ptr);
  static Status locate(const AddressMap& addresses, void* ptr, BlockPlace& out);

  // A block at exactly `at`, which must be free or, in a graph's pool, have been free memory before it was regrouped:
  // then it is regrouped back. invalid_argument where that cannot be.
  Status allocate_at(Stream stream, PoolId pool, void* at, std::uint64_t bytes);

  // Another device may use all memory of this one, what there is and what there will be. It cannot be taken back.
  Status add_peer(int ordinal);

  // Shows every segment and block of the device.
  void visit(Visitor& visitor);

  // `hooks` must outlive the allocator, or be replaced first; null: none. For calls that begin later.
  void set_hooks(const Hooks* hooks) { hooks_.store(hooks, std::memory_order_release); }

  Status create_pool(bool graph, PoolId& out);
  Status destroy_pool(PoolId pool);

  // Between the two, graphs may be being captured on streams that nothing was allocated for: no event of the whole
  // context is recorded, which would spoil them. Counted.
  void capture_began() { captures_.fetch_add(1, std::memory_order_relaxed); }
  bool capture_ended() {  // false: none had begun
    int before = captures_.load(std::memory_order_relaxed);
    while (before > 0 && !captures_.compare_exchange_weak(before, before - 1, std::memory_order_relaxed)) {
    }
    return before > 0;
  }

  // Waits for the stream and never names it to the driver again, unless another of the same handle is allocated for.
  Status forget_stream(Stream stream);

  // Gives free memory back to the driver until at most keep_bytes are reserved; waits (settings.wait at most) for work
  // that may still touch it. What is then still in use goes back when it is next looked at.
  Status trim(std::uint64_t keep_bytes);

  void set_limit(std::uint64_t bytes);
  std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  std::int64_t live_blocks();
  // allocated and freed since the last reset of each; exact over all threads.
  Stats stats();
  void reset_peaks();
  void reset_accumulated();

  // Recounts everything from scratch. Empty: all agrees; else the first difference.
  std::string validate();

 private:
  friend class Validator;
  friend class AllPools;

  // A part of the memory that a growth maps: a chunk to be created, or one harvested from a free range.
  struct Piece {
    std::uint64_t bytes = 0;
    Chunk* chunk = nullptr;  // null: to be created
    Range* from = nullptr;
    Pool* owner = nullptr;
  };

  // What a growth will do, and the other pools that stay locked until it is done.
  struct Plan;

  // ---- pools.cpp ----
  Pool* find_pool(Stream stream, PoolId id) {
    stream = device::normalize(stream);
    CachedPool& cached = cached_pool(id_, stream, id);
    if (cached.allocator == id_ && cached.stream == stream && cached.id == id) [[likely]]
      return cached.pool;
    return find_pool_slowly(stream, id, cached);
  }
  [[gnu::noinline, gnu::cold]] Pool* find_pool_slowly(Stream stream, PoolId id, CachedPool& cached);
  Pool* lookup_pool(const PoolKey& key);
  void recycle(Pool& pool);

  // ---- allocator.cpp ----
  [[gnu::noinline, gnu::cold]] Status allocate_slow(Pool& pool, PoolId id, std::uint64_t requested, std::uint64_t size,
                                                    void** out);
  void commit(Arena& arena, Range* range, std::uint64_t size, std::uint64_t requested, void** out);
  struct Found {
    Pool* pool = nullptr;  // locked, where a live block was found
    Arena* arena = nullptr;
    Span* span = nullptr;
    Range* range = nullptr;
  };
  static Found lock_live(const AddressMap& addresses, void* ptr, Pool*& owner);
  static void commit_free(Pool& pool, Arena& arena, Span& span, Range* range);
  [[gnu::noinline, gnu::cold]] static Status invalid_free(AddressMap& addresses, Pool* owner);
  [[gnu::noinline, gnu::cold]] static Status free_at_peak(const Found& found);
  [[gnu::noinline, gnu::cold]] static Status free_used(const Found& found, const StreamRef* after);
  void free_deferred(Pool& pool, Arena& arena, Range* range, const Uses& uses);

  // ---- growth.cpp: mutex_ and the pool's lock held ----
  Status grow(Pool& pool, Arena& arena, std::uint64_t size);
  // Whose free chunks a growth may give other addresses.
  enum class Moves : std::uint8_t { none, own, all };
  Status plan_growth(Pool& pool, Arena& arena, std::uint64_t size, std::uint64_t most_new, Moves moves, Plan& plan);
  Status execute(Pool& pool, Arena& arena, Plan& plan);
  Status add_span(Arena& arena, std::uint64_t least_bytes);
  std::uint64_t creatable();
  std::uint64_t chunk_bytes(const Arena& arena) const;

  // ---- reclaim.cpp: mutex_ held; `locked` is a pool whose lock is held already ----
  Status mark(StreamRef stream, MarkRef& out);
  bool anything_captures();
  Status mark_users(const Pool& pool, std::vector<MarkRef>& out);
  bool capturing(StreamRef stream, Status& status);  // needs no lock
  void note(const Status& status);
  void finish_deferred(Pool& pool);  // the pool's lock held
  void finish_limbo(Pool& pool);
  void settle_kept(Pool& pool);
  void refresh_probe(Pool& pool);  // the pool's lock held
  void collect(Pool* locked);
  MarkRef unfinished(Pool* locked);
  void send_back(Pool& pool, std::uint64_t most_bytes);  // the pool's lock held
  void sweep_closed();
  void retire(const StaleMapping& stale);
  void release(Chunk* chunk);
  void retry_failed();

  ByKind<Totals> totals(const AllPools& all) const;
  Chunk* add_chunk(device::Handle handle, std::uint64_t bytes, BlockKind kind);
  void give_to(BlockKind kind, Chunk& chunk);
  void doom(Chunk* chunk);

  // ---- place.cpp: mutex_ and the pool's lock held ----
  bool move_home(Pool& pool, Arena& arena, Span& span, Address page);

  // ---- hooks.cpp ----
  void tell_segment(const Pool& pool, bool backed, Address at, std::uint64_t bytes) const;
  void tell_deferred_free(Address at) const;
  void let_others_collect() const;
  bool wait_for(Mark& mark, std::chrono::nanoseconds timeout, Status& status) const;

  device::Device& device_;
  AddressMap& addresses_;
  const Settings settings_;
  const std::uint64_t id_;  // tells allocators apart in the threads' caches of pools
  std::atomic<std::uint64_t> limit_;
  EventCache events_;

  FairMutex mutex_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<Pool>> spare_pools_;  // destroyed and empty; their spans serve the next pool
  std::map<PoolKey, Pool*> pool_of_;
  std::map<PoolId, bool> private_pools_;  // id to: for graphs
  PoolId next_pool_ = 1;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  Status trouble_;                           // the first device error since something began to look for memory
  std::vector<StaleMapping> failed_unmaps_;  // tried again whenever memory is short
  std::vector<Chunk*> failed_releases_;
  std::vector<int> peers_;  // devices that may use this one's memory
  std::size_t closed_pools_ = 0;

  ByKind<std::array<std::int64_t, metric_count>> peaks_;  // valid while there are several pools
  std::size_t first_dealt_ = 0;
  std::int64_t doomed_bytes_ = 0;  // reserved, but on their way back to the driver
  ByKind<Counter> reserved_;
  ByKind<Counter> segments_;
  ByKind<Totals> accumulated_base_;      // what `allocated` and `freed` had reached when they were last reset
  std::uint64_t driver_free_ = 0;        // what may still be taken where there is no limit, as last asked
  std::int64_t driver_free_left_ = 0;    // taken until the driver is asked again
  std::int64_t peak_before_resets_ = 0;  // of active bytes
  std::int64_t limbo_bytes_ = 0;
  std::int64_t address_space_bytes_ = 0;
  std::atomic<int> captures_{0};
  std::atomic<const Hooks*> hooks_{nullptr};
  std::atomic<std::int64_t> alloc_retries_{0};
  std::atomic<std::int64_t> ooms_{0};
  std::atomic<std::int64_t> invalid_frees_{0};
  std::int64_t harvested_chunks_ = 0;
  std::int64_t harvested_bytes_ = 0;
};

}  // namespace reprieve::memory
