// The two functions that torch.cuda.memory.CUDAPluggableAllocator looks up by name.
#include <stdexcept>
#include <string>

#include "base/log.hpp"
#include "reprieve/reprieve.h"

extern "C" {

// torch hands out what it gets without a look, so a failure has to leave as an exception; torch's bindings turn it into
// a Python error with the same text.
void* reprieve_malloc(ssize_t bytes, int device, reprieve_stream stream) {
  void* block = nullptr;
  if (bytes < 0) throw std::runtime_error("reprieve_malloc: a negative size");
  if (reprieve_alloc(&block, static_cast<size_t>(bytes), device, stream) != REPRIEVE_OK) {
    throw std::runtime_error(reprieve_last_error());
  }
  return block;
}

void reprieve_free(void* ptr, ssize_t bytes, int device, reprieve_stream stream) {
  (void)bytes;
  (void)device;
  // In a forked child the parent's tensors are dropped too; that is no error.
  if (reprieve_dealloc_on(ptr, stream) != REPRIEVE_OK && reprieve_is_started() != 0) {
    reprieve::log::error("free of {}", reprieve_last_error());
  }
}

}  // extern "C"
