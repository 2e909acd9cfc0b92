// Log lines to stderr: "reprieve[rank 3] warning: …". Thread-safe. Never called with an allocator lock held, and never
// on the path of an allocation that meets no trouble.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace reprieve::log {

enum class Level : std::uint8_t { off, error, warn, info, debug };

void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view line);

template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace reprieve::log
