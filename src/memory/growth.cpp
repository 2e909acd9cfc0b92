// Growth: backing for a request that no free range can hold.
//
// In this order: new chunks, while reserved memory stays within growth_slack of the peak of active memory; chunks
// harvested out of other free ranges, of this stream at once (they are mapped a second time, the old mapping goes to
// limbo), of other streams where those have finished with them; new chunks up to the limit. Private pools harvest only
// themselves; in a graph's pool both mappings stay, since a replay goes through the old one. Policies tried, and their
// figures: docs/memory.md.
#include <algorithm>

#include "memory/all_pools.hpp"
#include "memory/allocator.hpp"
#include "memory/free_chunks.hpp"

namespace reprieve::memory {

struct Allocator::Plan {
  ~Plan() {
    for (Pool* pool : locked) pool->lock.unlock();
  }

  Arena::Site site;
  std::uint64_t bytes = 0;
  std::vector<Piece> pieces;
  std::vector<Pool*> locked;  // other pools, whose free ranges the pieces lie in
};

namespace {

// How far beyond the growth slack memory may grow before that of other streams is taken.
constexpr double stream_slack = 1.1;

constexpr std::uint64_t small_chunk = page_bytes;  // what the small arena is made of
constexpr unsigned graph_fineness = 5;             // as the limit's below

// How fine the chunks of the large arena are cut: chunk_max shifted right by so many bits. Small chunks leave less memory
// unused between blocks, large ones cost less time in the driver, where every chunk costs the same. So they are small
// where memory is short: where a limit is set, and the more so the nearer it is; and where time is not: when a run has
// gone on so long that it has made many allocations for each chunk that was made or moved.
unsigned fineness(std::uint64_t reserved, std::uint64_t limit, std::int64_t allocations_per_chunk) {
  if (limit != 0 && reserved > limit / 8 * 7) return 4;
  if (limit != 0 && reserved > limit / 4 * 3) return 3;
  if (limit != 0 || allocations_per_chunk >= 200) return 2;
  return allocations_per_chunk >= 50 ? 1 : 0;
}

}  // namespace

// How many bytes may still be taken from the driver.
std::uint64_t Allocator::creatable() {
  const auto reserved = static_cast<std::uint64_t>(reserved_.all.current);
  const std::uint64_t cap = limit();
  if (cap != 0) return cap > reserved ? cap - reserved : 0;
  // Asked anew before an eighth of what was free has been taken, and for each GiB: others take memory as well.
  if (driver_free_left_ <= 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    // Where the driver does not answer, let the creation itself say what is wrong.
    if (!device_.memory_info(free_bytes, total_bytes).ok()) return device_.properties().total_bytes;
    driver_free_ = free_bytes > settings_.headroom ? free_bytes - settings_.headroom : 0;
    driver_free_left_ = static_cast<std::int64_t>(std::min<std::uint64_t>(driver_free_ / 8, 1ULL << 30));
  }
  return driver_free_;
}

std::uint64_t Allocator::chunk_bytes(const Arena& arena) const {
  if (arena.kind() == Arena::Kind::small) return small_chunk;
  // A graph's pool grows while it is captured, once, and is the only use of what is left unused in it.
  if (arena.pool().graph) return std::max(page_bytes, round_down(settings_.chunk_max >> graph_fineness, page_bytes));
  const std::int64_t chunks = static_cast<std::int64_t>(chunks_.size()) + harvested_chunks_;
  const std::int64_t made = arena.pool().risen(allocations);
  const unsigned shift = fineness(static_cast<std::uint64_t>(reserved_.all.current), limit(), made / (chunks + 1));
  return std::max(page_bytes, round_down(settings_.chunk_max >> shift, page_bytes));
}

Status Allocator::grow(Pool& pool, Arena& arena, std::uint64_t size) {
  // A stream that captures cannot be marked, so its free memory cannot be given other addresses, unless the old ones
  // stay mapped as well, as in private pools: those share with nobody.
  Status asked;
  const bool captures = capturing(pool.stream, asked);
  const Moves moves = pool.is_private() ? Moves::own : captures ? Moves::none : Moves::all;
  note(asked);
  std::uint64_t most_new = creatable();
  for (int attempt = 0;; ++attempt) {
    Plan plan;
    if (const Status status = plan_growth(pool, arena, size, most_new, moves, plan); !status.ok()) return status;
    const Status status = execute(pool, arena, plan);
    if (!status.is(Errc::out_of_memory) || most_new == 0 || moves == Moves::none) return status;
    // The driver has less than was thought: others take memory as well, and a limit may lie beyond what there is. Then
    // what it says it has; and in the end, only what is there already.
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    const bool answered = attempt == 0 && device_.memory_info(free_bytes, total_bytes).ok();
    most_new = answered ? std::min<std::uint64_t>(creatable(), free_bytes) : 0;
  }
}

Status Allocator::plan_growth(Pool& pool, Arena& arena, std::uint64_t size, std::uint64_t most_new, Moves moves,
                              Plan& plan) {
  plan.site = arena.find_site(size, 2 * settings_.chunk_max);
  if (plan.site.span == nullptr) {
    if (const Status status = add_span(arena, size + 2 * settings_.chunk_max); !status.ok()) return status;
    plan.site = arena.find_site(size, 2 * settings_.chunk_max);
  }
  std::uint64_t missing = round_up(size - plan.site.have(), page_bytes);
  const auto create = [&](std::uint64_t bytes) {
    const std::uint64_t piece = chunk_bytes(arena);
    // A short rest does not become a chunk of its own.
    const std::uint64_t last = arena.kind() == Arena::Kind::small ? piece : piece + piece / 8;
    for (; bytes > 0; bytes -= plan.pieces.back().bytes) plan.pieces.push_back({bytes <= last ? bytes : piece});
  };

  std::int64_t active = static_cast<std::int64_t>(size);
  for (const auto& each : pools_) active += each->current(active_bytes);
  const std::int64_t counted = pool.sole ? pool.allowances[active_bytes].most : peaks_.all[active_bytes];
  const std::int64_t peak = std::max({active, counted, peak_before_resets_});
  const auto soft_cap = static_cast<std::int64_t>(static_cast<double>(peak) * (1 + settings_.growth_slack));
  const bool within_slack = reserved_.all.current + static_cast<std::int64_t>(missing) <= soft_cap;
  plan.bytes = missing;
  // What is free in a graph's pool is of use to nothing else.
  if (((within_slack && !pool.graph) || moves == Moves::none) && missing <= most_new) {
    create(missing);
    return success();
  }
  if (moves == Moves::none) return failure(Errc::out_of_memory, "the limit is reached");

  std::vector<Piece> candidates;
  for (Arena* each : {&pool.large, &pool.small}) {
    for_each_free_chunk(*each, [&](Range& range, Chunk& chunk) {
      if (&range != plan.site.tail) candidates.push_back({chunk.bytes, &chunk, &range, &pool});
    });
  }
  const std::size_t own = candidates.size();
  // Streams that take turns would take the same memory from each other again and again: while there is more to be had,
  // each may keep some of its own.
  const auto shared_cap = static_cast<std::int64_t>(static_cast<double>(soft_cap) * stream_slack);
  const bool keep_apart =
      moves == Moves::own ||
      (limit() == 0 && missing <= most_new && reserved_.all.current + static_cast<std::int64_t>(missing) <= shared_cap);
  for (const auto& other : pools_) {
    if (keep_apart || other.get() == &pool || other->is_private()) continue;
    other->lock.lock();
    plan.locked.push_back(other.get());
    finish_deferred(*other);
    refresh_probe(*other);
    for (Arena* each : {&other->large, &other->small}) {
      for_each_free_chunk(*each, [&](Range& range, Chunk& chunk) {
        if (range.freed_at <= other->finished) candidates.push_back({chunk.bytes, &chunk, &range, other.get()});
      });
    }
  }
  // A whole large chunk for a few small blocks only where there is no other way.
  if (arena.kind() == Arena::Kind::small && missing <= most_new) {
    std::erase_if(candidates, [](const Piece& piece) { return piece.bytes > 2 * small_chunk; });
  }

  // This stream's before others', large before small (the cost is per chunk), out of small ranges before large ones.
  const auto own_end = candidates.begin() + static_cast<std::ptrdiff_t>(std::min(own, candidates.size()));
  const auto better = [](const Piece& a, const Piece& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.from->size < b.from->size;
  };
  std::sort(candidates.begin(), own_end, better);
  std::sort(own_end, candidates.end(), better);
  std::vector<Piece> rest;
  for (const Piece& piece : candidates) {
    if (piece.bytes <= missing) {
      plan.pieces.push_back(piece);
      missing -= piece.bytes;
    } else {
      rest.push_back(piece);
    }
  }
  if (missing > 0 && missing <= most_new && reserved_.all.current + static_cast<std::int64_t>(missing) <= soft_cap) {
    create(missing);
    missing = 0;
  }
  if (missing > 0) {
    const auto smallest = [&](const Piece& a, const Piece& b) { return a.bytes < b.bytes; };
    std::erase_if(rest, [&](const Piece& piece) { return piece.bytes < missing; });
    if (const auto fit = std::min_element(rest.begin(), rest.end(), smallest); fit != rest.end()) {
      std::uint64_t beyond = fit->bytes - missing;
      plan.pieces.push_back(*fit);
      missing = 0;
      // What the large chunk makes superfluous stays where it is.
      std::erase_if(plan.pieces, [&](const Piece& piece) {
        if (piece.bytes > beyond) return false;
        beyond -= piece.bytes;
        return true;
      });
      plan.bytes += beyond;
    }
  }
  if (missing == 0) return success();
  if (missing > most_new) return failure(Errc::out_of_memory, "the limit is reached");
  create(missing);
  return success();
}

Status Allocator::execute(Pool& pool, Arena& arena, Plan& plan) {
  Span& span = *plan.site.span;
  chunks_.reserve(chunks_.size() + plan.pieces.size());
  // One for each chunk that leaves a range of this arena, one for the new segment, one for the block's rest.
  arena.reserve_records(plan.pieces.size() + 2);
  std::vector<StaleMapping> made;
  LimboBatch batch;
  made.reserve(plan.pieces.size());
  batch.mappings.reserve(plan.pieces.size());
  pool.kept.reserve(pool.kept.size() + plan.pieces.size());
  for (const Piece& piece : plan.pieces) {
    if (piece.owner == nullptr) continue;
    piece.owner->small.reserve_records(plan.pieces.size());
    piece.owner->large.reserve_records(plan.pieces.size());
  }
  const Address begin = plan.site.at;
  span.holes.remove(begin, plan.bytes);

  // Everything that can fail, before anything that the ranges know of is changed.
  Status status;
  Address at = begin;
  for (Piece& piece : plan.pieces) {
    const bool created = piece.chunk == nullptr;
    if (created) {
      device::Handle handle{};
      status = device_.create(piece.bytes, device::Location::device, handle);
      if (!status.ok()) break;
      piece.chunk = add_chunk(handle, piece.bytes, arena.kind());
    }
    status = device_.map(at, piece.bytes, piece.chunk->handle);
    if (!status.ok()) {
      if (created) doom(piece.chunk);
      break;
    }
    ++piece.chunk->mappings;
    made.push_back({piece.chunk, at, &span});
    at += piece.bytes;
  }
  if (status.ok()) status = device_.set_access(begin, plan.bytes, peers_);
  const bool moves_own =
      std::any_of(plan.pieces.begin(), plan.pieces.end(), [&](const Piece& piece) { return piece.owner == &pool; });
  Status asked;
  const bool keeps = pool.graph || (pool.is_private() && capturing(pool.stream, asked));
  if (status.ok() && moves_own && !keeps) status = mark_users(pool, batch.marks);
  if (!status.ok()) {
    if (at < begin + plan.bytes) span.holes.add(at, begin + plan.bytes - at);
    for (const StaleMapping& mapping : made) {
      if (mapping.chunk->home == 0) doom(mapping.chunk);
      retire(mapping);
    }
    return status;
  }

  // Highest address first: several chunks may leave one range.
  std::vector<const Piece*> moved;
  for (const Piece& piece : plan.pieces) {
    if (piece.owner != nullptr) moved.push_back(&piece);
  }
  std::sort(moved.begin(), moved.end(), [](const Piece* a, const Piece* b) { return a->chunk->home > b->chunk->home; });
  for (const Piece* piece : moved) {
    Span& old_span = *addresses_.find(piece->chunk->home);
    old_span.arena.load(std::memory_order_relaxed)->detach(piece->from, *piece->chunk, old_span);
    tell_segment(*piece->owner, false, piece->chunk->home, piece->chunk->bytes);
    const StaleMapping stale{piece->chunk, piece->chunk->home, &old_span};
    if (piece->owner == &pool && keeps) {
      pool.kept.push_back(stale);
    } else if (piece->owner == &pool) {
      batch.mappings.push_back(stale);
      limbo_bytes_ += static_cast<std::int64_t>(stale.chunk->bytes);
    } else {
      retire(stale);  // its stream has finished with it
    }
    ++harvested_chunks_;
    harvested_bytes_ += static_cast<std::int64_t>(piece->bytes);
  }
  if (!batch.mappings.empty()) pool.limbo.push_back(std::move(batch));
  for (const StaleMapping& mapping : made) {
    mapping.chunk->home = mapping.at;
    give_to(arena.kind(), *mapping.chunk);
    span.set_pages(mapping.at, mapping.chunk->bytes, mapping.chunk);
    tell_segment(pool, true, mapping.at, mapping.chunk->bytes);
  }
  arena.attach(plan.site, plan.bytes, pool.sequence);
  return success();
}

Status Allocator::add_span(Arena& arena, std::uint64_t least_bytes) {
  // A device's first pool is nearly always the one that holds the model: it gets room to grow in one piece. Addresses
  // run out all the same (2^47 for all devices and streams), so the others begin small, and double.
  const std::uint64_t total = round_up(device_.properties().total_bytes, span_unit);
  const bool main = &arena.pool() == pools_.front().get();
  const std::uint64_t first =
      arena.kind() == Arena::Kind::small ? span_unit : round_up(total / (main ? 2 : 32), span_unit);
  const std::uint64_t usual = arena.spans().empty() ? first : std::min(total, 2 * arena.spans().back()->bytes);
  const std::uint64_t bytes = std::max(usual, round_up(2 * least_bytes, span_unit));

  Address reserved = 0;
  std::uint64_t reserved_bytes = bytes;
  if (const Status status = device_.reserve(bytes, span_unit, reserved); !status.ok()) return status;
  if (reserved % span_unit != 0) {
    // A driver that does not honour the alignment: take enough to cut it ourselves.
    if (const Status status = device_.unreserve(reserved, bytes); !status.ok()) return status;
    reserved_bytes = bytes + span_unit;
    if (const Status status = device_.reserve(reserved_bytes, 0, reserved); !status.ok()) return status;
  }
  const Address base = round_up(reserved, span_unit);
  if (!addresses_.covers(base, bytes)) {
    if (const Status status = device_.unreserve(reserved, reserved_bytes); !status.ok()) return status;
    return failure(Errc::not_supported, "the driver reserves addresses beyond 2^48");
  }
  auto span = std::make_unique<Span>(base, bytes, arena.slot_shift(), reserved, reserved_bytes);
  span->arena.store(&arena, std::memory_order_release);
  addresses_.set(*span, span.get());
  address_space_bytes_ += static_cast<std::int64_t>(reserved_bytes);
  arena.add_span(std::move(span));
  return success();
}

}  // namespace reprieve::memory
