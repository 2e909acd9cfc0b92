#include "memory/arena.hpp"

namespace reprieve::memory {
namespace {

constexpr int site_scan_limit = 512;  // free ranges looked at; beyond it a new segment is begun

}  // namespace

Span& Arena::span_of(Address at) const {
  for (const auto& span : spans_) {
    if (at >= span->base && at < span->base + span->bytes) return *span;
  }
  __builtin_unreachable();
}

Arena::Site Arena::find_site(std::uint64_t size, std::uint64_t spare) {
  Site site;
  int looked_at = 0;
  bins_.for_each_from_largest(block_unit, [&](Range& range) {
    if (range.next == nullptr && range.size < size && range.size > site.have()) {
      Span& span = span_of(range.address);
      if (span.holes.room_from(range.end()) >= round_up(size - range.size, page_bytes) + spare) {
        site = {&span, range.end(), &range};
      }
    }
    return ++looked_at < site_scan_limit;
  });
  if (site.span != nullptr) return site;

  // A new segment, in the middle of the largest hole: it and the one before it can both still grow.
  std::uint64_t best_room = 0;
  for (const auto& span : spans_) {
    for (const auto& [begin, bytes] : span->holes.all()) {
      const std::uint64_t offset = begin == span->base ? 0 : round_up(bytes / 2, page_bytes);
      const std::uint64_t room = bytes - offset;
      if (room > best_room && room >= round_up(size, page_bytes) + spare + page_bytes) {
        best_room = room;
        site = {span.get(), begin + offset, nullptr};
      }
    }
  }
  return site;
}

void Arena::attach(const Site& site, std::uint64_t bytes, std::uint64_t sequence) {
  Range* range = site.tail;
  if (range != nullptr) {
    remove_free(range);
    range->size += bytes;
  } else {
    range = store_.take();
    range->address = site.at;
    range->size = bytes;
    range->prev = nullptr;
    range->next = nullptr;
    ++segments_;
  }
  range->freed_at = sequence;
  insert_free(range);
}

void Arena::detach(Range* range, const Chunk& chunk, Span& span) {
  remove_free(range);
  Range* const before = range->prev;
  Range* const after = range->next;
  const Address chunk_end = chunk.home + chunk.bytes;
  const std::uint64_t left = chunk.home - range->address;
  const std::uint64_t right = range->end() - chunk_end;

  Range* right_range = nullptr;
  if (right > 0) {
    right_range = left > 0 ? store_.take() : range;
    right_range->address = chunk_end;
    right_range->size = right;
    right_range->freed_at = range->freed_at;
    right_range->prev = nullptr;
    right_range->next = after;
  }
  if (after != nullptr) after->prev = right_range;

  if (left > 0) {
    range->size = left;
    range->next = nullptr;
    insert_free(range);
  } else if (before != nullptr) {
    before->next = nullptr;
  }
  if (right_range != nullptr) insert_free(right_range);
  if (left == 0 && right == 0) store_.give(range);

  const int parts = (left > 0 || before != nullptr ? 1 : 0) + (right > 0 || after != nullptr ? 1 : 0);
  segments_ += parts - 1;
  span.set_pages(chunk.home, chunk.bytes, nullptr);
}

Range* Arena::free_range_at(Address at, std::uint64_t bytes) const {
  Range* found = nullptr;
  bins_.for_each_from_largest(bytes, [&](Range& range) {
    if (range.address <= at && at + bytes <= range.end()) found = &range;
    return found == nullptr;
  });
  return found;
}

Range* Arena::cut_front(Range* range, Address at) {
  if (range->address == at) return range;
  remove_free(range);
  Range* const front = store_.take();
  front->address = range->address;
  front->size = at - range->address;
  front->freed_at = range->freed_at;
  front->prev = range->prev;
  if (front->prev != nullptr) front->prev->next = front;
  range->address = at;
  range->size -= front->size;
  link(front, range);
  insert_free(front);
  insert_free(range);
  return range;
}

void Arena::reattach(const Span& span, Address at, std::uint64_t bytes, std::uint64_t sequence) {
  Range* left = nullptr;
  Range* right = nullptr;
  store_.for_each([&](Range& range) {
    if (range.next == nullptr && range.end() == at && at != span.base) left = &range;
    const bool follows = range.prev == nullptr && range.address == at + bytes;
    if (follows && range.address != span.base + span.bytes) right = &range;
  });
  for (Range* neighbour : {left, right}) {
    if (neighbour != nullptr && neighbour->state == RangeState::free) remove_free(neighbour);
  }
  segments_ += 1 - (left != nullptr ? 1 : 0) - (right != nullptr ? 1 : 0);
  Range* const range = store_.take();
  range->address = at;
  range->size = bytes;
  range->freed_at = sequence;
  range->prev = nullptr;
  if (left != nullptr && left->state == RangeState::free) {
    range->address = left->address;
    range->size += left->size;
    Range* const before = left->prev;
    store_.give(left);
    left = before;
  }
  range->prev = left;
  if (left != nullptr) left->next = range;
  if (right != nullptr && right->state == RangeState::free) {
    range->size += right->size;
    Range* const after = right->next;
    store_.give(right);
    right = after;
  }
  link(range, right);
  insert_free(range);
}

}  // namespace reprieve::memory
