// The C interface for C++ programs: failures are exceptions, blocks and pools are owned by objects. Header-only over
// reprieve.h, so that the library's ABI stays C (docs/abi.md). C++17.
//
// Sizes are bytes, `device` is a CUDA ordinal, a stream is a CUstream or cudaStream_t. Every function may be called
// from any thread; one object is for one thread at a time, as with the standard's containers.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

#include "reprieve/reprieve.h"

namespace reprieve {

// What all failures have in common. Each is also the standard's exception of its kind, so that handlers for
// std::bad_alloc, std::invalid_argument, std::runtime_error and std::exception work as well. Copying does not throw.
class error {
 public:
  virtual ~error() = default;
  reprieve_status status() const noexcept { return status_; }
  int driver_error() const noexcept { return driver_error_; }  // a CUresult; 0: the driver had no part in it
  virtual const char* what() const noexcept { return text_.what(); }

 protected:
  error(reprieve_status status, int driver_error, const char* text)
      : status_(status), driver_error_(driver_error), text_(text) {}
  error(const error&) = default;
  error& operator=(const error&) = default;

 private:
  reprieve_status status_;
  int driver_error_;
  std::runtime_error text_;  // a string whose copies cannot fail
};

class out_of_memory final : public std::bad_alloc, public error {
 public:
  out_of_memory(int driver_error, const char* text) : error(REPRIEVE_ERROR_OUT_OF_MEMORY, driver_error, text) {}
  const char* what() const noexcept override { return error::what(); }
};

// Of the process, not of the device: nothing that frees device memory cures it.
class host_out_of_memory final : public std::bad_alloc, public error {
 public:
  explicit host_out_of_memory(const char* text) : error(REPRIEVE_ERROR_HOST_MEMORY, 0, text) {}
  const char* what() const noexcept override { return error::what(); }
};

class invalid_argument final : public std::invalid_argument, public error {
 public:
  invalid_argument(int driver_error, const char* text)
      : std::invalid_argument(text), error(REPRIEVE_ERROR_INVALID_ARGUMENT, driver_error, text) {}
  const char* what() const noexcept override { return error::what(); }
};

class not_supported final : public std::runtime_error, public error {
 public:
  not_supported(int driver_error, const char* text)
      : std::runtime_error(text), error(REPRIEVE_ERROR_NOT_SUPPORTED, driver_error, text) {}
  const char* what() const noexcept override { return error::what(); }
};

class device_error final : public std::runtime_error, public error {
 public:
  device_error(int driver_error, const char* text)
      : std::runtime_error(text), error(REPRIEVE_ERROR_DEVICE, driver_error, text) {}
  const char* what() const noexcept override { return error::what(); }
};

// Throws what a call of the C interface, just made by this thread, has returned; nothing for REPRIEVE_OK.
inline void check(reprieve_status status) {
  if (status == REPRIEVE_OK) return;
  const char* const text = reprieve_last_error();
  const int driver = reprieve_last_driver_error();
  switch (status) {
    case REPRIEVE_ERROR_OUT_OF_MEMORY: throw out_of_memory(driver, text);
    case REPRIEVE_ERROR_HOST_MEMORY: throw host_out_of_memory(text);
    case REPRIEVE_ERROR_INVALID_ARGUMENT: throw invalid_argument(driver, text);
    case REPRIEVE_ERROR_NOT_SUPPORTED: throw not_supported(driver, text);
    default: throw device_error(driver, text);
  }
}

// ---- blocks by pointer ----

// At least `bytes` bytes for use on `stream`, aligned to 512; null for 0 bytes.
inline void* allocate(std::size_t bytes, int device, reprieve_stream stream = nullptr, reprieve_pool pool = 0) {
  void* block = nullptr;
  check(reprieve_alloc_in_pool(&block, bytes, device, stream, pool));
  return block;
}

// Reusable at once on the stream that the block was allocated for. Null is ignored.
inline void deallocate(void* ptr) { check(reprieve_dealloc(ptr)); }

// Not reused before the work now queued on `stream` has ended.
inline void deallocate_on(void* ptr, reprieve_stream stream) { check(reprieve_dealloc_on(ptr, stream)); }

// ---- blocks and pools as objects ----

// A pool apart from the default ones. Blocks of it may outlive it; its memory goes back as they are freed.
class pool {
 public:
  enum class kind : unsigned { plain = 0, graph = REPRIEVE_POOL_GRAPH };

  explicit pool(int device, kind what = kind::plain) : device_(device) {
    check(reprieve_pool_create(device, static_cast<unsigned>(what), &id_));
  }
  ~pool() { destroy(); }
  pool(pool&& other) noexcept : device_(other.device_), id_(std::exchange(other.id_, 0)) {}
  pool& operator=(pool&& other) noexcept {
    if (this == &other) return *this;
    destroy();
    device_ = other.device_;
    id_ = std::exchange(other.id_, 0);
    return *this;
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  int device() const noexcept { return device_; }
  reprieve_pool id() const noexcept { return id_; }  // 0 once moved from

 private:
  void destroy() noexcept {
    if (id_ != 0) reprieve_pool_destroy(device_, id_);
  }

  int device_;
  reprieve_pool id_ = 0;
};

// Owns one block; the default-made one owns none.
class block {
 public:
  block() noexcept = default;
  block(std::size_t bytes, int device, reprieve_stream stream = nullptr, reprieve_pool from = 0)
      : ptr_(allocate(bytes, device, stream, from)), bytes_(bytes) {}
  block(std::size_t bytes, const pool& from, reprieve_stream stream = nullptr)
      : block(bytes, from.device(), stream, from.id()) {}
  // Frees the block for its own stream, like reset(); an error has nobody to be told to, and stays in
  // reprieve_last_error().
  ~block() { reprieve_dealloc(ptr_); }
  block(block&& other) noexcept : ptr_(std::exchange(other.ptr_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  block& operator=(block&& other) noexcept {
    block moved(std::move(other));
    std::swap(ptr_, moved.ptr_);
    std::swap(bytes_, moved.bytes_);
    return *this;
  }
  block(const block&) = delete;
  block& operator=(const block&) = delete;

  void* get() const noexcept { return ptr_; }
  std::size_t size() const noexcept { return bytes_; }  // as asked for
  explicit operator bool() const noexcept { return ptr_ != nullptr; }

  // Work on `stream` uses the block too: once freed, it waits for what is queued there at that time.
  void record_stream(reprieve_stream stream) { check(reprieve_record_stream(ptr_, stream)); }

  // Gives up ownership without freeing.
  void* release() noexcept {
    bytes_ = 0;
    return std::exchange(ptr_, nullptr);
  }
  // Frees the block: reusable at once on its own stream. It is given up also where that fails.
  void reset() { deallocate(release()); }
  // The same for a block last used on `stream`: not reused before the work now queued there has ended.
  void reset_on(reprieve_stream stream) { deallocate_on(release(), stream); }

 private:
  void* ptr_ = nullptr;
  std::size_t bytes_ = 0;
};

// To be called before a stream that was named to the library is destroyed; waits for its work.
inline void forget_stream(reprieve_stream stream, int device) { check(reprieve_forget_stream(device, stream)); }

// ---- memory held ----

inline constexpr int all_devices = -1;  // those in use

// Gives free memory back to the driver: all of it, or until at most keep_bytes are reserved.
inline void empty_cache(int device = all_devices) { check(reprieve_empty_cache(device)); }
inline void trim(std::size_t keep_bytes, int device = all_devices) { check(reprieve_trim(device, keep_bytes)); }

// The most that may be reserved on the device; 0: no limit.
inline void set_limit(std::size_t bytes, int device = all_devices) { check(reprieve_set_limit(device, bytes)); }
inline std::size_t limit(int device) {
  std::size_t bytes = 0;
  check(reprieve_get_limit(device, &bytes));
  return bytes;
}

inline reprieve_stats stats(int device) {
  reprieve_stats out{};
  out.size = sizeof out;
  check(reprieve_get_stats(device, &out));
  return out;
}
inline void reset_peak_stats(int device = all_devices) { check(reprieve_reset_peak_stats(device)); }
inline void reset_accumulated_stats(int device = all_devices) { check(reprieve_reset_accumulated_stats(device)); }

}  // namespace reprieve
