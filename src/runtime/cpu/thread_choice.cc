#include "runtime/cpu/thread_choice.h"

#include <algorithm>
#include <array>

namespace sparkpilot {

std::vector<int> thread_choices(int all) {
  std::vector<int> choices;
  for (int threads = 1; threads < all; threads *= 2) choices.push_back(threads);
  choices.push_back(all);
  return choices;
}

int fastest_threads(std::span<const int> choices, const std::function<double(int threads)>& time_ns) {
  constexpr size_t kTurns = 3;
  constexpr double kWorthIt = 0.95;  // of the time with fewer
  int best = choices.front();
  for (const int next : choices.subspan(1)) {
    std::array<double, kTurns> fewer, more;
    for (size_t turn = 0; turn < kTurns; ++turn) {
      fewer[turn] = time_ns(best);
      more[turn] = time_ns(next);
    }
    std::sort(fewer.begin(), fewer.end());
    std::sort(more.begin(), more.end());
    if (more[kTurns / 2] > kWorthIt * fewer[kTurns / 2]) break;
    best = next;
  }
  return best;
}

}  // namespace sparkpilot
