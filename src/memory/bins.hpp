// The free ranges of one arena, binned by size class; two levels of bitmaps find the next filled bin in constant time.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "memory/range.hpp"
#include "memory/size_class.hpp"

namespace reprieve::memory {

class Bins {
 public:
  void insert(Range* range) {
    const SizeClass c = SizeClass::of(range->size);
    Range*& head = heads_[c.row][c.column];
    range->bin.prev = nullptr;
    range->bin.next = head;
    if (head != nullptr) head->bin.prev = range;
    head = range;
    filled_[c.row] |= 1ULL << c.column;
    filled_rows_ |= 1U << c.row;
  }

  void remove(Range* range) {
    if (range->bin.next != nullptr) range->bin.next->bin.prev = range->bin.prev;
    if (range->bin.prev != nullptr) {
      range->bin.prev->bin.next = range->bin.next;
      return;
    }
    const SizeClass c = SizeClass::of(range->size);
    heads_[c.row][c.column] = range->bin.next;
    if (range->bin.next != nullptr) return;
    filled_[c.row] &= ~(1ULL << c.column);
    if (filled_[c.row] == 0) filled_rows_ &= ~(1U << c.row);
  }

  // The range, which is in its bin, gets another size.
  void resize(Range* range, std::uint64_t size) {
    if (SizeClass::of(range->size) == SizeClass::of(size)) {
      range->size = size;
      return;
    }
    remove(range);
    range->size = size;
    insert(range);
  }

  // A free range of at least `size` bytes, null if there is none that the bins can tell of: the best of a few in the
  // size's own class, else the best of a few in the next filled class, where all are large enough.
  Range* find(std::uint64_t size) const {
    const SizeClass c = SizeClass::of(size);
    if ((filled_[c.row] >> c.column & 1) != 0) {
      if (Range* fit = best_of(heads_[c.row][c.column], size)) return fit;
    }
    if (Range* head = next_filled(c)) return best_of(head, size);
    return nullptr;
  }

  // Every free range of the classes that hold sizes of `least` bytes and more (some may be smaller), largest class
  // first, until visit returns false. visit may not change the bins.
  template <typename F>
  void for_each_from_largest(std::uint64_t least, F&& visit) const {
    const SizeClass low = SizeClass::of(least);
    for (unsigned row = SizeClass::rows; row-- > low.row;) {
      std::uint64_t columns = filled_[row];
      if (row == low.row) columns &= ~0ULL << low.column;
      while (columns != 0) {
        const unsigned column = 63U - static_cast<unsigned>(std::countl_zero(columns));
        columns &= ~(1ULL << column);
        for (Range* range = heads_[row][column]; range != nullptr; range = range->bin.next) {
          if (!visit(*range)) return;
        }
      }
    }
  }

 private:
  static constexpr int scan_limit = 8;  // bounds the work under the lock

  static Range* best_of(Range* range, std::uint64_t size) {
    Range* best = nullptr;
    for (int i = 0; range != nullptr && i < scan_limit; range = range->bin.next, ++i) {
      if (range->size < size) continue;
      if (best == nullptr || range->size < best->size ||
          (range->size == best->size && range->address < best->address)) {
        best = range;
      }
    }
    return best;
  }

  Range* next_filled(SizeClass c) const {
    const std::uint64_t columns = c.column == 63 ? 0 : filled_[c.row] & (~0ULL << (c.column + 1));
    if (columns != 0) return heads_[c.row][static_cast<unsigned>(std::countr_zero(columns))];
    const std::uint32_t rows = c.row == 31 ? 0 : filled_rows_ & (~0U << (c.row + 1));
    if (rows == 0) return nullptr;
    const auto row = static_cast<unsigned>(std::countr_zero(rows));
    return heads_[row][static_cast<unsigned>(std::countr_zero(filled_[row]))];
  }

  std::uint32_t filled_rows_ = 0;
  std::array<std::uint64_t, SizeClass::rows> filled_{};
  std::array<std::array<Range*, SizeClass::columns>, SizeClass::rows> heads_{};
};
static_assert(SizeClass::rows == 32, "filled_rows_ has a bit for each");

}  // namespace reprieve::memory
