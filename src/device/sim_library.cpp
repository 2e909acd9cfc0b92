#include "device/sim_library.hpp"

#include <dlfcn.h>
#include <reprieve/reprieve.h>

#include <array>
#include <filesystem>

namespace reprieve::device {
namespace {

constexpr const char* library_name = "libreprieve_simgpu.so";
constexpr const char* entry_name = "reprieve_sim_open_backend";

using Entry = void* (*)(const char* version, const void* options, std::size_t options_bytes, char* error,
                        std::size_t error_bytes);

std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_sim), &info) == 0 || info.dli_fname == nullptr) return ".";
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

}  // namespace

Status open_sim(const Options& options, std::unique_ptr<Backend>& out, std::string& reason) {
  // Never closed: its machine may outlive this library's use of it.
  void* library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    const std::string path = (std::filesystem::path(own_folder()) / library_name).string();
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reason = fmt::format("the simulated GPU cannot be loaded: {}", dlerror());
      return failure(Errc::not_supported, "no simulated GPU");
    }
  }
  const auto entry = reinterpret_cast<Entry>(dlsym(library, entry_name));
  if (entry == nullptr) {
    reason = fmt::format("{} is of another version: it has no {}", library_name, entry_name);
    return failure(Errc::not_supported, "no simulated GPU");
  }
  std::array<char, 512> error{};
  const std::string version =
      fmt::format("{}.{}.{}", REPRIEVE_VERSION_MAJOR, REPRIEVE_VERSION_MINOR, REPRIEVE_VERSION_PATCH);
  void* const backend = entry(version.c_str(), &options, sizeof options, error.data(), error.size());
  if (backend == nullptr) {
    reason = error.data();
    return failure(Errc::invalid_argument, "the simulated GPU was refused");
  }
  out.reset(static_cast<Backend*>(backend));
  return success();
}

}  // namespace reprieve::device
