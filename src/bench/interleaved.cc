#include "bench/interleaved.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot {
namespace {

double time_once(const std::function<void()>& run) {
  const int64_t start = now_ns();
  run();
  return static_cast<double>(now_ns() - start) * 1e-6;
}

void time_round(const std::function<void()>& run, int64_t times, InterleavedTimes& turns) {
  const size_t before = turns.ms.size();
  for (int64_t i = 0; i < times; ++i) turns.ms.push_back(time_once(run));
  turns.rounds.push_back(median(std::span(turns.ms).subspan(before)));
}

}  // namespace

std::vector<InterleavedTimes> time_interleaved(std::span<const std::function<void()>> runs,
                                               const InterleavedOptions& options) {
  constexpr int64_t kMostRuns = 10'000;  // in a round, of what takes no time
  if (options.rounds < 1) fail("rounds: expected at least 1, got {}", options.rounds);
  std::vector<InterleavedTimes> turns(runs.size());
  std::vector<int64_t> times;
  for (const auto& run : runs) {
    run();
    const double ms = std::max(time_once(run), 1e-6);
    times.push_back(std::clamp(static_cast<int64_t>(options.round_ms / ms), options.min_runs, kMostRuns));
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const size_t at = round % 2 == 0 ? i : runs.size() - 1 - i;
      time_round(runs[at], times[at], turns[at]);
    }
    if (options.progress) options.progress(static_cast<double>(round + 1) / static_cast<double>(options.rounds));
  }
  return turns;
}

}  // namespace sparkpilot
