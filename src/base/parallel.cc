#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/team.h"

#ifndef SPARKPILOT_SERIAL
#include <omp.h>
#endif

namespace sparkpilot {

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

#ifdef SPARKPILOT_SERIAL

int thread_count() { return 1; }
ThreadScope::ThreadScope(int) : previous_(1) {}
ThreadScope::~ThreadScope() = default;
namespace detail {
void parallel_ranges(int64_t count, int64_t, RangeFn fn, void* context) { fn(context, 0, count); }
void hold_team(void (*fn)(void* context), void* context) { fn(context); }
}  // namespace detail

#else

namespace {

// The team that this thread holds with with_team(); empty inside its own pieces of work.
struct Held {
  detail::Team* team = nullptr;
  int threads = 1;
};
thread_local Held held;

}  // namespace

int thread_count() {
  if (held.team) return held.threads;
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

ThreadScope::ThreadScope(int threads) : previous_(omp_get_max_threads()) {
  if (threads > 0) omp_set_num_threads(threads);
}

ThreadScope::~ThreadScope() { omp_set_num_threads(previous_); }

namespace detail {

void parallel_ranges(int64_t count, int64_t grain, RangeFn fn, void* context) {
  const int64_t pieces = std::min<int64_t>(thread_count(), std::max<int64_t>(1, count / std::max<int64_t>(1, grain)));
  if (pieces <= 1) {
    fn(context, 0, count);
    return;
  }
  if (held.team) {
    const Held mine = std::exchange(held, {});
    try {
      mine.team->run(count, pieces, fn, context);
    } catch (...) {
      held = mine;
      throw;
    }
    held = mine;
    return;
  }
  std::exception_ptr error;
  // Always uses the whole team, even if fewer threads have work: OpenMP ends the threads that a smaller team does not
  // need, and starts new ones for the next larger team.
#pragma omp parallel
  {
    // The runtime may give fewer threads than asked for, so the ranges follow the team's true size.
    const int64_t size = std::min<int64_t>(pieces, omp_get_num_threads()), rank = omp_get_thread_num();
    const Share share(count, rank, size);
    try {
      if (share.begin < share.end) fn(context, share.begin, share.end);
    } catch (...) {
#pragma omp critical(sparkpilot_parallel_error)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void hold_team(void (*fn)(void* context), void* context) {
  if (held.team) return fn(context);
  const int threads = thread_count();
  thread_local std::unique_ptr<Team> kept;
  if (!kept || kept->most() < threads) kept = std::make_unique<Team>(threads, available_processors());
  Team& team = *kept;
  team.reset(threads);
  std::exception_ptr error;
#pragma omp parallel
  {
    if (omp_get_thread_num() > 0) {
      team.work(omp_get_thread_num());
    } else {
      team.begin(omp_get_num_threads());
      held = {&team, threads};
      try {
        fn(context);
      } catch (...) {
        error = std::current_exception();
      }
      held = {};
      team.dismiss();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail

#endif
}  // namespace sparkpilot
