// The process-wide table of kernels' names.
#include <deque>
#include <mutex>
#include <unordered_map>

#include "simgpu/work.hpp"

namespace reprieve::simgpu {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<std::string> names{""};  // by number; a deque, so that references stay valid
  std::unordered_map<std::string_view, KernelId> numbers;
};

Table& table() {
  static auto* const made = new Table;  // never destroyed: threads may launch while the process ends
  return *made;
}

}  // namespace

KernelId kernel_id(std::string_view name) {
  if (name.empty()) return KernelId::none;
  const std::lock_guard lock(table().mutex);
  const auto found = table().numbers.find(name);
  if (found != table().numbers.end()) return found->second;
  const auto made = static_cast<KernelId>(table().names.size());
  table().numbers.emplace(table().names.emplace_back(name), made);
  return made;
}

const std::string& kernel_name(KernelId kernel) {
  const std::lock_guard lock(table().mutex);
  const auto index = static_cast<std::size_t>(kernel);
  return table().names[index < table().names.size() ? index : 0];
}

}  // namespace reprieve::simgpu
