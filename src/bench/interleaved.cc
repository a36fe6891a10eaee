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

}  // namespace

TimedRuns timed(std::function<void()> run) {
  return [run = std::move(run)](int64_t count) {
    std::vector<double> ms;
    for (int64_t i = 0; i < count; ++i) ms.push_back(time_once(run));
    return ms;
  };
}

std::vector<InterleavedTimes> time_interleaved(std::span<const TimedRuns> things, const InterleavedOptions& options) {
  constexpr int64_t kMostRuns = 10'000;  // in a round, of what takes no time
  if (options.rounds < 1) fail("rounds: expected at least 1, got {}", options.rounds);
  std::vector<InterleavedTimes> turns(things.size());
  std::vector<int64_t> times;  // 0: it cannot be run any more
  for (const TimedRuns& run : things) {
    const std::vector<double> first = run(2);
    const double ms = std::max(first.empty() ? 0 : first.back(), 1e-6);
    times.push_back(
        first.size() < 2 ? 0 : std::clamp(static_cast<int64_t>(options.round_ms / ms), options.min_runs, kMostRuns));
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < things.size(); ++i) {
      const size_t at = round % 2 == 0 ? i : things.size() - 1 - i;
      if (times[at] == 0) continue;
      const std::vector<double> ms = things[at](times[at]);
      if (std::ssize(ms) < times[at]) {
        times[at] = 0;
        turns[at] = {};
        continue;
      }
      turns[at].ms.insert(turns[at].ms.end(), ms.begin(), ms.end());
      turns[at].rounds.push_back(median(ms));
    }
    if (options.progress) options.progress(static_cast<double>(round + 1) / static_cast<double>(options.rounds));
  }
  return turns;
}

std::vector<InterleavedTimes> time_interleaved(std::span<const std::function<void()>> runs,
                                               const InterleavedOptions& options) {
  std::vector<TimedRuns> things;
  for (const std::function<void()>& run : runs) things.push_back(timed(run));
  return time_interleaved(things, options);
}

}  // namespace sparkpilot
