#include "simgpu/plain_area.hpp"

#include <algorithm>

#include "simgpu/pages.hpp"

namespace reprieve::simgpu {
namespace {

// Addresses cost nothing, and the file is sparse. Small enough for 64 devices in one address space of 128 TiB.
constexpr std::uint64_t window_bytes = std::uint64_t{512} << 30;

}  // namespace

PlainArea::~PlainArea() {
  for (const auto& window : windows_) pages::unreserve(window->base, window->bytes);
}

bool PlainArea::take_from(Window& window, std::uint64_t bytes, Place& out) {
  const auto address = window.holes.first_fit(bytes);
  if (!address) return false;
  out.address = *address;
  out.offset = window.offset + (out.address - window.base);
  if (!pages::map_file(out.address, bytes, backing_.file(), out.offset)) return false;
  return window.holes.take_at(out.address, bytes);
}

bool PlainArea::add_window(std::uint64_t bytes) {
  auto window = std::make_unique<Window>();
  window->bytes = std::max(bytes, window_bytes);
  window->offset = backing_.take(window->bytes, Backing::nowhere);
  if (window->offset == Backing::nowhere) return false;
  if (!pages::reserve(window->bytes, 0, window->base)) {
    backing_.give_back(window->offset, window->bytes);
    return false;
  }
  window->holes.add(window->base, window->bytes);
  windows_.push_back(std::move(window));
  return true;
}

bool PlainArea::take(std::uint64_t bytes, Place& out) {
  look_at_kept();
  const auto from_any = [&] {
    return std::any_of(windows_.begin(), windows_.end(),
                       [&](const auto& window) { return take_from(*window, bytes, out); });
  };
  return from_any() || (add_window(bytes) && take_from(*windows_.back(), bytes, out));
}

PlainArea::Window* PlainArea::find(std::uint64_t address) const {
  for (const auto& window : windows_) {
    if (address >= window->base && address - window->base < window->bytes) return window.get();
  }
  return nullptr;
}

bool PlainArea::holds(std::uint64_t address) const { return find(address) != nullptr; }

void PlainArea::look_at_kept() {
  std::erase_if(kept_, [&](const Kept& kept) {
    const std::uint64_t offset = kept.window->offset + (kept.address - kept.window->base);
    if (backing_.imported_elsewhere(offset, kept.bytes)) return false;
    backing_.empty(offset, kept.bytes);
    kept.window->holes.add(kept.address, kept.bytes);
    return true;
  });
}

void PlainArea::give_back(std::uint64_t address, std::uint64_t bytes) {
  Window* const window = find(address);
  if (window == nullptr) return;
  pages::make_inaccessible(address, bytes);
  kept_.push_back({window, address, bytes});
  look_at_kept();
}

}  // namespace reprieve::simgpu
