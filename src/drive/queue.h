// A bounded queue between two stages of the pipeline.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace sparkpilot::drive {

// One or several threads put, one or several take. Failures on one side reach the other: a stage that fails calls
// fail(), and the other side's next call throws the same exception.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t limit) : limit_(limit) {}

  // Waits while the queue is full; false after stop().
  bool put(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return items_.size() < limit_ || stopped_ || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_) return false;
    items_.push_back(std::move(item));
    ready_.notify_one();
    return true;
  }
  // Waits for an item; empty after close() once all are taken, and after stop().
  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !items_.empty() || closed_ || stopped_ || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_ || items_.empty()) return {};
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }
  // No more items will be put.
  void close() {
    set([&] { closed_ = true; });
  }
  // No more items will be taken; those in the queue are dropped.
  void stop() {
    set([&] { stopped_ = true; });
  }
  void fail(std::exception_ptr failure) {
    set([&] {
      if (!failure_) failure_ = std::move(failure);
    });
  }

 private:
  template <typename Fn>
  void set(Fn&& change) {
    const std::lock_guard lock(mutex_);
    change();
    room_.notify_all();
    ready_.notify_all();
  }

  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::deque<T> items_;
  bool closed_ = false, stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace sparkpilot::drive
