// Threads that wait for pieces of work from one of them: what base/parallel.h holds inside a region of OpenMP's.
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
  // For at most so many threads on so many processors.
  Team(int most, int processors) : most_(most), processors_(processors), done_(new Done[static_cast<size_t>(most)]) {}

  int most() const { return most_; }
  // Before the others begin with work(): so many will be there.
  void reset(int threads);
  // The rest is thread 0's, except work(). `size` threads have come.
  void begin(int size) { size_ = size; }
  // Divides the items among `pieces` threads, the caller one of them, and returns when all are done. An exception of
  // any of them is rethrown.
  void run(int64_t count, int64_t pieces, RangeFn fn, void* context);
  // work() returns.
  void dismiss();
  // Every other thread: takes its share of each run() until it is dismissed.
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
  std::unique_ptr<Done[]> done_;  // by rank: the last task that it has done
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace sparkpilot::detail
