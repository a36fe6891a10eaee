#include "runtime/turns.h"

#include <algorithm>
#include <vector>

namespace sparkpilot {
namespace {

constexpr double kWorthIt = 0.95;   // of the first way's time
constexpr double kFarBehind = 1.5;  // times the fastest one's

struct Times {
  std::vector<double> ns;
  bool out = false;
  double least() const { return *std::min_element(ns.begin(), ns.end()); }
  double median() const {
    std::vector<double> sorted = ns;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

}  // namespace

std::optional<size_t> fastest_in_turns(size_t ways, size_t first, const std::function<double(size_t way)>& time_ns,
                                       const Turns& turns, const Clock& clock) {
  std::vector<Times> times(ways);
  const int64_t start = clock();
  int turn = 0;
  const auto goes_on = [&] {
    const int64_t taken = clock() - start;
    return turn < turns.most && taken <= turns.hard_ns && (turn < turns.least || taken <= turns.ns);
  };
  for (; goes_on(); ++turn) {
    double best = kNoTime;
    for (size_t way = 0; way < ways; ++way) {
      if (times[way].out) continue;
      times[way].ns.push_back(time_ns(way));
      best = std::min(best, times[way].least());
    }
    if (best == kNoTime) return std::nullopt;
    bool others = false;
    for (size_t way = 0; way < ways; ++way) {
      if (way == first) continue;
      times[way].out |= times[way].least() > kFarBehind * best && turn > 0;
      others |= !times[way].out;
    }
    if (!others) return first;
  }
  if (turn < turns.least) return std::nullopt;
  size_t fastest = first;
  double median = kWorthIt * times[first].median();
  for (size_t way = 0; way < ways; ++way) {
    const Times& own = times[way];
    if (way == first || own.out || own.least() >= kWorthIt * times[first].least() || own.median() >= median) continue;
    fastest = way;
    median = own.median();
  }
  return fastest;
}

}  // namespace sparkpilot
