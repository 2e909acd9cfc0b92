#include <reprieve/reprieve.h>

#include <cstdio>
#include <cstring>

#if __has_include(<reprieve/allocator.hpp>)
#include <reprieve/allocator.hpp>
#endif

namespace {

bool check(reprieve_status status, const char* what) {
  if (status == REPRIEVE_OK) return true;
  std::fprintf(stderr, "%s: %s: %s\n", what, reprieve_status_string(status), reprieve_last_error());
  return false;
}

}  // namespace

int main() {
  char version[32];
  std::snprintf(version, sizeof version, "%d.%d.%d", REPRIEVE_VERSION_MAJOR, REPRIEVE_VERSION_MINOR,
                REPRIEVE_VERSION_PATCH);
  if (std::strcmp(version, reprieve_version()) != 0) {
    std::fprintf(stderr, "the header is %s, the library %s\n", version, reprieve_version());
    return 1;
  }
  void* block = nullptr;
  if (!check(reprieve_alloc(&block, std::size_t{1} << 20, 0, nullptr), "reprieve_alloc")) return 1;
  if (!check(reprieve_dealloc(block), "reprieve_dealloc")) return 1;
  if (!check(reprieve_shutdown(), "reprieve_shutdown")) return 1;
  std::puts("ok");
  return 0;
}
