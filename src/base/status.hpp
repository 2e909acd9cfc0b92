// The result of every operation that can fail inside the library. No exception crosses a layer; the C interface
// turns a Status into a code and a line of text.
#pragma once

#include <cstdint>

namespace reprieve {

enum class Errc : std::uint8_t {
  ok,
  out_of_memory,     // device memory (or pinned host memory asked of the driver) is exhausted; may be cured
  invalid_argument,  // the caller's mistake; nothing was changed
  not_supported,     // this driver, device or platform cannot do it
  device_error,      // any other failure of the driver; passed on as itself, never retried
  host_memory,       // the process cannot get ordinary memory for our own records
};

// `driver` is the driver's own code (CUresult on `cuda`, the same numbers on `sim`), 0 where the driver had no part.
// `what` is a string with static storage: the driver call that failed, or the reason of a refusal.
struct [[nodiscard]] Status {
  Errc code = Errc::ok;
  std::int32_t driver = 0;
  const char* what = "";

  constexpr bool ok() const { return code == Errc::ok; }
  constexpr bool is(Errc c) const { return code == c; }
};

constexpr Status success() { return {}; }
constexpr Status failure(Errc code, const char* what, std::int32_t driver = 0) { return {code, driver, what}; }

}  // namespace reprieve
