// What an arena counts, cheap enough for every allocation: few plain adds under the pool's lock, the rest derived.
//
// Device peaks, of all blocks and of each kind, are exact without a counter that all threads share. Each pool has an
// allowance for each metric, and the allowances of all pools never add up to more than the device's peak; each arena has
// one too, and those of a kind's arenas never add up to more than the peak of that kind. As long as everybody stays
// within, the device cannot be at a new peak of either sort. What is compared on the path of a block is one ceiling: at
// most the arena's allowance, and with that of the pool's other arena at most the pool's, which the two divide between
// them as they need it. Who would go beyond both takes the slow way, with every pool locked, where the sums are looked
// at and the allowances are dealt anew: first to each what it was seen to need before, so that pools in a steady state
// keep to the quick way. A device's only pool needs none of this: its peaks are the device's.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprieve::memory {

enum Metric : std::size_t {
  requested_bytes,
  allocated_bytes,
  active_bytes,  // allocated, and freed but still in use on another stream
  allocations,
  active_blocks,
  inactive_split_bytes,  // free, in a segment that is partly in use
  inactive_split_blocks,
  metric_count,
};

// A part of a device's peak.
struct Allowance {
  std::int64_t most = 0;
  std::int64_t wish = 0;  // the most that its owner was seen to need

  void note(std::int64_t current) { wish = std::max(wish, current); }
};
using Allowances = std::array<Allowance, metric_count>;

// What an operation may add to each metric at most.
using Needs = std::array<std::int64_t, metric_count>;

// Changed under the pool's lock only. current() may be called without it: growth looks at other pools'.
class Counters {
 public:
  // ---- the path of a block ----

  // Whether an allocation stays within the ceilings.
  bool fits(std::int64_t requested, std::int64_t size) const {
    return requested_.current() + requested <= ceiling_requested_ &&
           allocated_.current() + size <= ceiling_allocated_ && count_.current() + 1 <= ceiling_count_;
  }
  void allocated(std::int64_t requested, std::int64_t size) {
    requested_.rise(requested);
    allocated_.rise(size);
    count_.rise(1);
  }
  void freed(std::int64_t requested, std::int64_t size) {
    requested_.fall(requested);
    allocated_.fall(size);
    count_.fall(1);
  }

  bool split_fits(std::int64_t bytes) const {
    return load(split_bytes_) + bytes <= ceilings_[inactive_split_bytes] &&
           load(split_blocks_) + 1 <= ceilings_[inactive_split_blocks];
  }
  // A block became split memory, or was cut from it. (Each is a rise or a fall of what is derived in risen().)
  void split_freed(std::int64_t size) { add(split_bytes_, size); }
  void split_taken(std::int64_t size) { add(split_bytes_, -size); }
  // The free of a block of `size` bytes made its whole segment free, of which `others` bytes were split memory.
  void segment_freed(std::int64_t size, std::int64_t others) {
    add(split_bytes_, -others);
    split_bytes_beside_ -= size;
  }
  // Any other change.
  void split_changed(std::int64_t bytes) {
    add(split_bytes_, bytes);
    split_bytes_beside_ += std::max<std::int64_t>(bytes, 0);
  }
  void split_blocks_changed(std::int64_t by) {
    add(split_blocks_, by);
    split_blocks_risen_ += std::max<std::int64_t>(by, 0);
  }

  // ---- frees that wait for other streams ----

  void deferred(std::int64_t size) {
    add(deferred_bytes_, size);
    add(deferred_blocks_, 1);
    join_ceilings();
  }
  void deferral_ended(std::int64_t size) {
    add(deferred_bytes_, -size);
    add(deferred_blocks_, -1);
    join_ceilings();
  }

  // ---- totals and allowances ----

  std::int64_t current(Metric m) const {
    switch (m) {
      case requested_bytes: return requested_.current();
      case allocated_bytes: return allocated_.current();
      case active_bytes: return allocated_.current() + load(deferred_bytes_);
      case allocations: return count_.current();
      case active_blocks: return count_.current() + load(deferred_blocks_);
      case inactive_split_bytes: return load(split_bytes_);
      case inactive_split_blocks: return load(split_blocks_);
      case metric_count: break;
    }
    return 0;
  }

  // The sum of all rises since the beginning.
  std::int64_t risen(Metric m) const {
    switch (m) {
      case requested_bytes: return load(requested_.risen);
      case allocated_bytes:
      case active_bytes: return load(allocated_.risen);
      case allocations:
      case active_blocks: return load(count_.risen);
      case inactive_split_bytes: return load(allocated_.fallen) - load(deferred_bytes_) + split_bytes_beside_;
      case inactive_split_blocks: return split_blocks_risen_;
      case metric_count: break;
    }
    return 0;
  }

  // Of the peak of the arena's kind.
  Allowances allowances{};

  std::int64_t ceiling(Metric m) const { return ceilings_[m]; }
  void set_ceiling(Metric m, std::int64_t value) {
    ceilings_[m] = value;
    join_ceilings();
  }

 private:
  using Cell = std::atomic<std::int64_t>;
  static std::int64_t load(const Cell& cell) { return cell.load(std::memory_order_relaxed); }
  // One writer at a time, so no read-modify-write is needed.
  static void add(Cell& cell, std::int64_t by) { cell.store(load(cell) + by, std::memory_order_relaxed); }

  struct Flow {
    Cell risen{0};
    Cell fallen{0};

    std::int64_t current() const { return load(risen) - load(fallen); }
    void rise(std::int64_t by) { add(risen, by); }
    void fall(std::int64_t by) { add(fallen, by); }
  };

  // What is active is what is allocated and what is deferred: one comparison stands for both.
  void join_ceilings() {
    ceiling_requested_ = ceilings_[requested_bytes];
    ceiling_allocated_ = std::min(ceilings_[allocated_bytes], ceilings_[active_bytes] - load(deferred_bytes_));
    ceiling_count_ = std::min(ceilings_[allocations], ceilings_[active_blocks] - load(deferred_blocks_));
  }

  Flow requested_;
  Flow allocated_;
  Flow count_;
  std::int64_t ceiling_requested_ = 0;
  std::int64_t ceiling_allocated_ = 0;
  std::int64_t ceiling_count_ = 0;
  Cell split_bytes_{0};
  Cell split_blocks_{0};
  Cell deferred_bytes_{0};
  Cell deferred_blocks_{0};
  // Every free makes split memory of its block: what did not, and what did without a free, is counted beside.
  std::int64_t split_bytes_beside_ = 0;
  std::int64_t split_blocks_risen_ = 0;
  std::array<std::int64_t, metric_count> ceilings_{};
};

}  // namespace reprieve::memory
