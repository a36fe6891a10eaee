// The one thread pool of the process: OpenMP's, because oneDNN's package uses it too. With a second pool both spin
// against each other (measured: a chain of small kernels 300 to 1,000 times slower), so sparkpilot's kernels run in
// parallel only through parallel_for.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace sparkpilot {

// Processors this process may run on.
int available_processors();

// Threads that parallel_for uses when called from this thread.
int thread_count();

// Sets thread_count() of the calling thread for its lifetime (0 keeps it). Every thread has its own count, so
// sessions in different threads do not disturb each other.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int previous_;
};

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
void parallel_ranges(int64_t count, int64_t grain, RangeFn fn, void* context);
void hold_team(void (*fn)(void* context), void* context);
}  // namespace detail

// Calls fn(begin, end) on disjoint ranges that cover [0, count), on up to thread_count() threads, none with fewer than
// `grain` items unless count is smaller. The split depends only on count, grain and thread_count(). Allocates nothing.
// An exception from fn is rethrown in the caller. Nested calls run serially.
template <typename Fn>
void parallel_for(int64_t count, int64_t grain, Fn&& fn) {
  if (count <= 0) return;
  if (count <= grain || thread_count() == 1) {
    fn(int64_t{0}, count);
    return;
  }
  detail::parallel_ranges(
      count, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<std::remove_reference_t<Fn>*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

// Calls fn() once, and keeps the threads of parallel_for in one OpenMP region meanwhile: beginning and ending a
// parallel_for then costs a cache line sent each way (measured: 0.1 us for two threads) instead of an OpenMP region
// (0.5 us). The threads spin for their next piece, and sleep if none comes for 0.15 ms. Code that opens its own OpenMP
// region inside, as oneDNN does, gets one thread. An exception from fn is rethrown. Inside another with_team, or with
// one thread, it only calls fn.
template <typename Fn>
void with_team(Fn&& fn) {
  if (thread_count() == 1) return fn();
  detail::hold_team([](void* context) { (*static_cast<std::remove_reference_t<Fn>*>(context))(); },
                    const_cast<void*>(static_cast<const void*>(&fn)));
}

}  // namespace sparkpilot
