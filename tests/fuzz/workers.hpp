// A few threads that work one at a time, each on demand: what matters is who makes a call, not what runs beside it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reprieve::fuzz {

class Workers {
 public:
  explicit Workers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Workers() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `body` on thread `index` and returns when it has ended. Not to be called from one of the threads.
  void run(std::size_t index, const std::function<void()>& body) {
    std::unique_lock lock(mutex_);
    body_ = &body;
    turn_ = index;
    changed_.notify_all();
    changed_.wait(lock, [&] { return body_ == nullptr; });
  }

 private:
  void work(std::size_t index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || (body_ != nullptr && turn_ == index); });
      if (stopping_) return;
      (*body_)();
      body_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* body_ = nullptr;
  std::size_t turn_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace reprieve::fuzz
