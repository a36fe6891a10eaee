// Threads that wait for pieces of work from one of them: base/parallel.h keeps one inside an OpenMP region.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "base/parallel.h"

namespace sparkpilot::detail {

// The range of `count` items that thread `rank` of `size` takes.
struct Share {
  int64_t begin, end;
  Share(int64_t count, int64_t rank, int64_t size)
      : begin(rank < size ? count * rank / size : 0), end(rank < size ? count * (rank + 1) / size : 0) {}
};

class Team {
 public:
  // For at most `most` threads on `processors` processors.
  Team(int most, int processors) : most_(most), processors_(processors), done_(new Done[static_cast<size_t>(most)]) {}

  int most() const { return most_; }
  // To be called before the others call work(): the number of threads to come.
  void reset(int threads);
  // This and the following are for thread 0, except work(). `size` threads have come.
  void begin(int size) { size_ = size; }
  // Divides the items among `pieces` threads, including the caller, and returns when all are done. An exception in any
  // of them is rethrown.
  void run(int64_t count, int64_t pieces, RangeFn fn, void* context);
  // Makes work() return.
  void dismiss();
  // For every other thread: does its share of each run() until it is dismissed.
  void work(int rank);

 private:
  static constexpr int kDismissed = -1;
  struct alignas(64) Task {  // one cache line
    std::atomic<int> number{0};
    RangeFn fn = nullptr;
    void* context = nullptr;
    int64_t count = 0, pieces = 0;
  };
  struct alignas(64) Done {
    std::atomic<int> number{0};
  };
  int await_change(const std::atomic<int>& value, int old) const;
  void take(int64_t rank);

  Task task_;
  int size_ = 1;
  const int most_, processors_;
  bool crowded_ = false;          // more threads than processors
  std::unique_ptr<Done[]> done_;  // by rank: the last task done
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace sparkpilot::detail
