// Whether several threads pay at the moment.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sparkpilot {

// Several threads that were faster on a quiet machine can be many times slower beside another process: all of them wait
// for the one that it holds up. This watches how long runs take and says when one thread should take the next, for a
// while that doubles as long as it stays so.
class BusyWatch {
 public:
  bool alone() const { return alone_left_ > 0; }
  // The run that alone() was asked for took so long.
  void took(int64_t ns) { alone() ? took_alone(static_cast<double>(ns)) : took_together(static_cast<double>(ns)); }

 private:
  static constexpr int kSlow = 4;                          // slow runs that are no hiccup
  static constexpr int kLook = 32;                         // runs before anything is concluded
  static constexpr int kSettled = 256;                     // runs together after which a machine counts as quiet again
  static constexpr int64_t kFirst = 128, kLongest = 4096;  // runs alone

  int count() { return runs_ = std::min(runs_ + 1, kSettled); }
  void took_together(double ns) {
    fastest_ = fastest_ > 0 ? std::min(fastest_, ns) : ns;
    together_ += (ns - together_) / std::min(count(), 2 * kLook);
    if (runs_ == kSettled) next_ = kFirst;
    // What one thread takes is not known before it has been tried.
    const double limit = alone_ > 0 ? 1.1 * alone_ : 1.5 * fastest_;
    slow_ += ns > 2 * limit;
    // Sooner where a few runs have taken what all may: more of them would say nothing else.
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

  int runs_ = 0, slow_ = 0;                        // of the present kind; of them slow
  double together_ = 0, alone_ = 0, fastest_ = 0;  // sliding means and the least, in ns; 0: not known
  int64_t alone_left_ = 0, next_ = kFirst;
};

}  // namespace sparkpilot
