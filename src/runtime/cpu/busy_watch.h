// Whether running on several threads pays at the moment.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sparkpilot {

// Several threads that are faster on an idle machine can be many times slower when another process runs: all of them
// wait for the one that it delays. This class watches the times of runs and says when to run on one thread instead, for
// a number of runs that doubles each time it happens again.
class BusyWatch {
 public:
  BusyWatch() = default;
  // One thread is known to take so long, so that a machine which is busy from the first run on is told from slow work.
  explicit BusyWatch(double alone_ns) : alone_(alone_ns) {}
  bool alone() const { return alone_left_ > 0; }
  // Reports the duration of the run that alone() was asked for.
  void took(int64_t ns) { alone() ? took_alone(static_cast<double>(ns)) : took_together(static_cast<double>(ns)); }

 private:
  static constexpr int kSlow = 4;                          // this many slow runs are more than a coincidence
  static constexpr int kLook = 32;                         // runs before a decision
  static constexpr int kSettled = 256;                     // runs on all threads until a machine counts as idle again
  static constexpr int64_t kFirst = 128, kLongest = 4096;  // runs on one thread

  int count() { return runs_ = std::min(runs_ + 1, kSettled); }
  void took_together(double ns) {
    fastest_ = fastest_ > 0 ? std::min(fastest_, ns) : ns;
    together_ += (ns - together_) / std::min(count(), 2 * kLook);
    if (runs_ == kSettled) next_ = kFirst;
    // Without the time on one thread the fastest run tells what is slow.
    const double limit = alone_ > 0 ? 1.1 * alone_ : 1.5 * fastest_;
    slow_ += ns > 2 * limit;
    // Decide early if a few runs have already taken the time allowed for kLook of them.
    const bool lost = slow_ >= kSlow && runs_ < kLook && together_ * runs_ > kLook * limit;
    if (lost || (runs_ >= kLook && together_ > limit)) {
      alone_left_ = next_;
      next_ = std::min(2 * next_, kLongest);
      runs_ = slow_ = 0;
      alone_ = 0;
    }
  }
  void took_alone(double ns) {
    alone_ += (ns - alone_) / std::min(count(), 2 * kLook);
    if (--alone_left_ == 0) runs_ = slow_ = 0;
  }

  int runs_ = 0, slow_ = 0;                        // in the present mode; of these, slow ones
  double together_ = 0, alone_ = 0, fastest_ = 0;  // moving averages and the minimum, in ns; 0: not known
  int64_t alone_left_ = 0, next_ = kFirst;
};

}  // namespace sparkpilot
