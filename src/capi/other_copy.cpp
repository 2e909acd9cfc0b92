#include "capi/other_copy.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <string_view>
#include <vector>

#include "reprieve/reprieve.h"

namespace reprieve::capi {
namespace {

std::vector<std::string> loaded_copies() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const std::string_view path(info->dlpi_name);
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (file.starts_with("libreprieve.so")) static_cast<std::vector<std::string>*>(out)->emplace_back(path);
        return 0;
      },
      &paths);
  return paths;
}

}  // namespace

bool other_copy_started(std::string& reason) {
  static const int here = 0;
  Dl_info own{};
  dladdr(&here, &own);
  for (const std::string& path : loaded_copies()) {
    void* const copy = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (copy == nullptr) continue;
    void* const symbol = dlsym(copy, "reprieve_is_started");
    Dl_info found{};
    const bool other = symbol != nullptr && dladdr(symbol, &found) != 0 && found.dli_fbase != own.dli_fbase;
    const bool started = other && reinterpret_cast<decltype(&reprieve_is_started)>(symbol)() != 0;
    dlclose(copy);
    if (started) {
      reason = fmt::format("this copy of the library, {}, cannot start: another runs in this process, {}",
                           own.dli_fname, found.dli_fname);
      return true;
    }
  }
  return false;
}

}  // namespace reprieve::capi
