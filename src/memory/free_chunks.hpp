// The chunks of an arena that hold nothing but free memory.
#pragma once

#include "memory/arena.hpp"

namespace reprieve::memory {

// Calls visit(Range&, Chunk&) for every chunk that lies wholly in a free range and is not pinned. visit may not change
// the arena. Under the pool's lock and the allocator's mutex.
template <typename F>
void for_each_free_chunk(Arena& arena, F&& visit) {
  arena.bins().for_each_from_largest(page_bytes, [&](Range& range) {
    if (range.size < page_bytes) return true;
    Span& span = arena.span_of(range.address);
    for (Address at = round_up(range.address, page_bytes); at < range.end();) {
      Chunk* const chunk = span.page(at);
      if (chunk->home >= range.address && chunk->home + chunk->bytes <= range.end() && !chunk->pinned) {
        visit(range, *chunk);
      }
      at = chunk->home + chunk->bytes;
    }
    return true;
  });
}

}  // namespace reprieve::memory
