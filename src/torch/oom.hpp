// What happens when nothing helps: observers, and torch's error.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <vector>

#include "reprieve/reprieve.h"

namespace reprieve::torch_adapter {

class OomObservers {
 public:
  using Observer = c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;

  void add(Observer observer);
  // Calls all, with no lock held.
  void tell(int64_t device, size_t wanted, size_t total, size_t free) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Observer> observers_;
};

// "1.50 GiB", as torch's message has it.
std::string format_size(std::uint64_t bytes);

// c10::OutOfMemoryError whose text begins as torch's.
[[noreturn]] void throw_out_of_memory(int device, size_t wanted, size_t free, size_t total);

}  // namespace reprieve::torch_adapter
