#include <reprieve/allocator.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>

int main() {
  char version[32];
  std::snprintf(version, sizeof version, "%d.%d.%d", REPRIEVE_VERSION_MAJOR, REPRIEVE_VERSION_MINOR,
                REPRIEVE_VERSION_PATCH);
  if (std::strcmp(version, reprieve_version()) != 0) {
    std::fprintf(stderr, "the header is %s, the library %s\n", version, reprieve_version());
    return 1;
  }
  constexpr std::size_t bytes = std::size_t{1} << 20;
  try {
    {
      const reprieve::block block(bytes, 0);
      if (reprieve::stats(0).requested_bytes.current != std::int64_t{bytes})
        throw std::runtime_error("the block is not counted");
    }
    reprieve::check(reprieve_shutdown());
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
  }
  std::puts("ok");
  return 0;
}
