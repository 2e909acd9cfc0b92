// A large array of zeros whose pages exist only once they are written.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace reprieve::memory {

template <typename T>
class LazyArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  LazyArray() = default;

  // Throws std::bad_alloc where the process has no addresses left.
  explicit LazyArray(std::size_t count) : count_(count) {
    void* mapped =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(mapped);
  }

  LazyArray(LazyArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  LazyArray& operator=(LazyArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~LazyArray() {
    if (data_ != nullptr) munmap(data_, count_ * sizeof(T));
  }

  std::size_t size() const { return count_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace reprieve::memory
