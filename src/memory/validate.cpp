// Recounts every record of an allocator from scratch.
#include <fmt/format.h>

#include <unordered_map>

#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"

namespace reprieve::memory {

// Precondition for check(): the allocator's mutex and all pools' locks are held.
class Validator {
 public:
  explicit Validator(const Allocator& allocator) : allocator_(allocator) {}

  std::string check() {
    for (const auto& pool : allocator_.pools_) check_pool(*pool);
    for (const auto& pool : allocator_.spare_pools_) {
      expect(pool->small.segments() == 0 && pool->large.segments() == 0 && pool->kept.empty(),
             "a spare pool has memory");
    }
    for (const StaleMapping& stale : allocator_.failed_unmaps_) ++stale_mappings_[stale.chunk];
    check_chunks();
    check_allowances();
    return first_;
  }

 private:
  template <typename... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds && first_.empty()) first_ = fmt::format(format, std::forward<Args>(args)...);
  }

  void check_pool(const Pool& pool) {
    for (const Arena* arena : {&pool.small, &pool.large}) check_arena(*arena);
    for (const LimboBatch& batch : pool.limbo) {
      for (const StaleMapping& stale : batch.mappings) {
        ++stale_mappings_[stale.chunk];
        limbo_bytes_ += static_cast<std::int64_t>(stale.chunk->bytes);
        expect(!stale.span->holes.contains(stale.at), "addresses {:#x} in limbo are taken for free", stale.at);
      }
    }
    for (const StaleMapping& stale : pool.kept) {
      ++stale_mappings_[stale.chunk];
      expect(!stale.span->holes.contains(stale.at), "addresses {:#x} that are kept are taken for free", stale.at);
    }
  }

  void check_arena(const Arena& arena) {
    std::array<std::int64_t, metric_count> counted{};
    std::int64_t segments = 0;
    std::int64_t free_ranges = 0;
    std::uint64_t range_bytes = 0;
    arena.store().for_each([&](const Range& range) {
      check_range(arena, range, counted);
      segments += range.prev == nullptr ? 1 : 0;
      free_ranges += range.state == RangeState::free ? 1 : 0;
      range_bytes += range.size;
    });
    for (std::size_t m = 0; m < metric_count; ++m) {
      const std::int64_t kept = arena.counters.current(static_cast<Metric>(m));
      expect(kept == counted[m], "metric {} of an arena says {}, its ranges {}", m, kept, counted[m]);
    }
    segments_.of(arena.kind()) += segments;
    expect(segments == arena.segments(), "an arena counts {} segments and has {}", arena.segments(), segments);
    std::int64_t binned = 0;
    arena.bins().for_each_from_largest(0, [&](const Range& range) {
      ++binned;
      expect(range.state == RangeState::free, "range {:#x} is in a bin and not free", range.address);
      return binned <= free_ranges;
    });
    expect(binned == free_ranges, "{} free ranges, {} in bins", free_ranges, binned);

    std::uint64_t backed_bytes = 0;
    for (const auto& span : arena.spans()) {
      expect(span->arena.load(std::memory_order_relaxed) == &arena, "span {:#x} is another arena's", span->base);
      for (Address at = span->base; at < span->base + span->bytes;) {
        const Chunk* chunk = span->page(at);
        if (chunk == nullptr) {
          at += page_bytes;
          continue;
        }
        expect(chunk->home == at, "the chunk at page {:#x} has its home at {:#x}", at, chunk->home);
        expect(!span->holes.contains(at), "backed addresses {:#x} are taken for free", at);
        expect(chunk->kind == arena.kind(), "the chunk at page {:#x} counts as the other kind's", at);
        backed_bytes += chunk->bytes;
        ++homes_[chunk];
        at += chunk->bytes;
      }
    }
    expect(backed_bytes == range_bytes, "an arena's chunks have {} bytes, its ranges {}", backed_bytes, range_bytes);
  }

  void check_range(const Arena& arena, const Range& range, std::array<std::int64_t, metric_count>& counted) {
    expect(range.size > 0 && range.size % block_unit == 0 && range.address % block_unit == 0,
           "range {:#x} of {} bytes is misaligned", range.address, range.size);
    if (range.prev != nullptr) {
      expect(range.prev->end() == range.address && range.prev->next == &range, "range {:#x} has a wrong neighbour",
             range.address);
      expect(range.state != RangeState::free || range.prev->state != RangeState::free,
             "free ranges at {:#x} are not one", range.address);
    }
    if (range.next != nullptr) {
      expect(range.next->address == range.end() && range.next->prev == &range, "range {:#x} has a wrong neighbour",
             range.address);
    }
    Span& span = arena.span_of(range.address);
    for (Address at = round_down(range.address, page_bytes); at < range.end(); at += page_bytes) {
      expect(span.page(at) != nullptr, "range {:#x} has no backing at {:#x}", range.address, at);
    }
    const auto size = static_cast<std::int64_t>(range.size);
    if (range.state == RangeState::live) {
      expect(span.block_slot(range.address) == &range, "block {:#x} is not in the table", range.address);
      expect(range.block.requested <= range.size, "block {:#x} is smaller than was asked for", range.address);
      counted[requested_bytes] += static_cast<std::int64_t>(range.block.requested);
      counted[allocated_bytes] += size;
      counted[allocations] += 1;
    }
    if (range.state != RangeState::free) {
      counted[active_bytes] += size;
      counted[active_blocks] += 1;
    } else if (!range.whole_segment()) {
      counted[inactive_split_bytes] += size;
      counted[inactive_split_blocks] += 1;
    }
  }

  void check_chunks() {
    ByKind<std::int64_t> reserved;
    std::int64_t doomed = 0;
    for (std::size_t i = 0; i < allocator_.chunks_.size(); ++i) {
      const Chunk& chunk = *allocator_.chunks_[i];
      expect(chunk.index == i, "chunk {} is listed at {}", chunk.index, i);
      const std::uint32_t homes = count(homes_, chunk);
      const std::uint32_t stale = count(stale_mappings_, chunk);
      expect(homes == (chunk.home != 0 ? 1U : 0U), "a chunk of {} bytes has {} homes", chunk.bytes, homes);
      expect(chunk.mappings == homes + stale, "a chunk counts {} mappings and has {}", chunk.mappings, homes + stale);
      expect(chunk.doomed == (chunk.home == 0), "a chunk without a home does not leave, or one with a home does");
      reserved.all += static_cast<std::int64_t>(chunk.bytes);
      reserved.of(chunk.kind) += static_cast<std::int64_t>(chunk.bytes);
      doomed += chunk.doomed ? static_cast<std::int64_t>(chunk.bytes) : 0;
    }
    expect(reserved.all == allocator_.reserved_.all.current, "{} bytes are reserved, chunks have {}",
           allocator_.reserved_.all.current, reserved.all);
    for (const BlockKind kind : both_kinds) {
      const std::int64_t kept = allocator_.reserved_.of(kind).current;
      expect(reserved.of(kind) == kept, "{} bytes are reserved by kind {}, chunks have {}", kept,
             static_cast<int>(kind), reserved.of(kind));
      const std::int64_t segments = allocator_.segments_.of(kind).current;
      expect(segments_.of(kind) == segments, "{} segments of kind {}, arenas have {}", segments, static_cast<int>(kind),
             segments_.of(kind));
    }
    expect(doomed == allocator_.doomed_bytes_, "{} bytes are leaving, chunks say {}", allocator_.doomed_bytes_, doomed);
    expect(limbo_bytes_ == allocator_.limbo_bytes_, "{} bytes are in limbo, batches say {}", allocator_.limbo_bytes_,
           limbo_bytes_);
  }

  void check_allowances() {
    for (std::size_t m = 0; m < metric_count; ++m) {
      const auto metric = static_cast<Metric>(m);
      ByKind<std::int64_t> dealt;
      for (const auto& pool : allocator_.pools_) {
        std::int64_t ceilings = 0;
        for (const Arena* arena : {&pool->small, &pool->large}) {
          const Counters& counters = arena->counters;
          const std::int64_t ceiling = counters.ceiling(metric);
          expect(counters.current(metric) <= ceiling, "an arena is beyond its ceiling of metric {}", m);
          expect(ceiling <= counters.allowances[m].most, "a ceiling of metric {} is beyond its allowance", m);
          ceilings += ceiling;
          dealt.of(arena->kind()) += counters.allowances[m].most;
        }
        expect(ceilings <= pool->allowances[m].most, "the ceilings of metric {} are beyond their pool's allowance", m);
        dealt.all += pool->allowances[m].most;
      }
      check_dealt(m, dealt.all, allocator_.peaks_.all[m]);
      for (const BlockKind kind : both_kinds) check_dealt(m, dealt.of(kind), allocator_.peaks_.of(kind)[m]);
    }
  }

  void check_dealt(std::size_t m, std::int64_t dealt, std::int64_t peak) {
    expect(dealt <= peak, "allowances of metric {} add up to {}, the peak is {}", m, dealt, peak);
  }

  static std::uint32_t count(const std::unordered_map<const Chunk*, std::uint32_t>& map, const Chunk& chunk) {
    const auto found = map.find(&chunk);
    return found == map.end() ? 0 : found->second;
  }

  const Allocator& allocator_;
  std::unordered_map<const Chunk*, std::uint32_t> homes_;
  std::unordered_map<const Chunk*, std::uint32_t> stale_mappings_;
  ByKind<std::int64_t> segments_;
  std::int64_t limbo_bytes_ = 0;
  std::string first_;
};

std::string Allocator::validate() {
  const std::scoped_lock lock(mutex_);
  AllPools all(*this, nullptr);
  all.deal();
  return Validator(*this).check();
}

}  // namespace reprieve::memory
