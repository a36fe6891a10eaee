#include "base/team.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace sparkpilot::detail {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // on most processors `yield` does nothing
#endif
}

// Sequentially consistent, so that threads about to sleep are seen.
void change(std::atomic<int>& value, int to) {
  value.store(to);
  value.notify_all();
}

}  // namespace

// Waits until `value` differs from `old`: spins, and sleeps if that takes long or no processor is free for it.
int Team::await_change(const std::atomic<int>& value, int old) const {
  constexpr int kSpins = 64;  // between readings of the clock
  constexpr int64_t kLongNs = 150'000;
  for (int64_t start = 0;;) {
    for (int i = 0; i < kSpins; ++i) {
      if (const int now = value.load(std::memory_order_acquire); now != old) return now;
      pause();
    }
    const int64_t now = now_ns();
    if (start == 0) start = now;
    if (crowded_ || now - start > kLongNs) value.wait(old, std::memory_order_acquire);
  }
}

void Team::take(int64_t rank) {
  const Share share(task_.count, rank, task_.pieces);
  if (share.begin >= share.end) return;
  try {
    task_.fn(task_.context, share.begin, share.end);
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
  }
}

void Team::reset(int threads) {
  crowded_ = threads > processors_;
  task_.number.store(0, std::memory_order_relaxed);
  for (int rank = 0; rank < most_; ++rank) done_[rank].number.store(0, std::memory_order_relaxed);
}

void Team::run(int64_t count, int64_t pieces, RangeFn fn, void* context) {
  task_.fn = fn;
  task_.context = context;
  task_.count = count;
  task_.pieces = std::min<int64_t>(pieces, size_);
  const int number = task_.number.load(std::memory_order_relaxed) % (1 << 30) + 1;
  change(task_.number, number);
  take(0);
  for (int rank = 1; rank < size_; ++rank) {
    std::atomic<int>& done = done_[rank].number;
    for (int seen = done.load(std::memory_order_acquire); seen != number;) seen = await_change(done, seen);
  }
  if (!failed_.load(std::memory_order_relaxed)) return;
  failed_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::dismiss() { change(task_.number, kDismissed); }

void Team::work(int rank) {
  for (int seen = 0;;) {
    seen = await_change(task_.number, seen);
    if (seen == kDismissed) return;
    take(rank);
    change(done_[rank].number, seen);
  }
}

}  // namespace sparkpilot::detail
