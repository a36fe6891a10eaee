#include "bench/regression.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/error.h"
#include "base/statistics.h"

namespace sparkpilot {
namespace {

struct Part {
  std::string_view name, what;
  double YardstickTimes::*ms;
  double disturbed;  // a round does not count beyond this multiple of the level
  double other;      // the machine differs where the levels do by more than this factor
  bool is_unit;      // the model's times are taken as multiples of it
};
constexpr Part kParts[] = {
    {"arithmetic", "computing in registers", &YardstickTimes::arithmetic_ms, 1.03, 1.05, true},
    {"near_reads", "reading the near caches", &YardstickTimes::near_ms, 1.03, 1.05, false},
    {"far_reads", "reading 8 MiB a thread", &YardstickTimes::far_ms, 1.2, 1.25, false},
};

constexpr size_t kLeastRounds = 3;

// The yardstick's times as they usually are at best.
YardstickTimes level_of(std::span<const Repeat> repeats) {
  YardstickTimes level;
  for (const Part& part : kParts) {
    std::vector<double> ms;
    for (const Repeat& repeat : repeats) {
      for (const YardstickTimes& each : repeat.yardstick) ms.push_back(each.*part.ms);
    }
    if (ms.empty()) continue;
    const auto tenth = ms.begin() + static_cast<ptrdiff_t>(ms.size() / 10);
    std::nth_element(ms.begin(), tenth, ms.end());
    level.*part.ms = *tenth;
  }
  return level;
}

bool is_disturbed(const YardstickTimes& ms, const YardstickTimes& level) {
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const Part& part) { return ms.*part.ms > part.disturbed * level.*part.ms; });
}

// One number for each repeat that counts: the model's time as a multiple of the yardstick's.
std::vector<double> values_of(std::span<const Repeat> repeats, const YardstickTimes& level) {
  std::vector<double> values;
  for (const Repeat& repeat : repeats) {
    std::vector<double> rounds;
    for (size_t i = 0; i < repeat.model_ms.size(); ++i) {
      const YardstickTimes &before = repeat.yardstick[i], &after = repeat.yardstick[i + 1];
      if (repeat.wait_share[i] > kMostWaiting) continue;
      if (is_disturbed(before, level) || is_disturbed(after, level)) continue;
      rounds.push_back(repeat.model_ms[i] / ((before.arithmetic_ms + after.arithmetic_ms) / 2));
    }
    if (rounds.size() >= kLeastRounds) values.push_back(median(rounds));
  }
  return values;
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::regression: return "regression";
    case Verdict::cannot_tell: break;
  }
  return "cannot_tell";
}

std::string words_of(Verdict verdict) {
  std::string words(name(verdict));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

size_t undisturbed(std::span<const Repeat> repeats) { return values_of(repeats, level_of(repeats)).size(); }

Regression compare_repeats(std::span<const Repeat> now, std::span<const Repeat> then, double max_regression) {
  if (!(max_regression >= 0)) fail("max_regression: expected 0 or more, got {}", max_regression);
  const YardstickTimes level_now = level_of(now), level_then = level_of(then);
  const std::vector<double> values_now = values_of(now, level_now), values_then = values_of(then, level_then);
  Regression out{.used_then = values_then.size(),
                 .used_now = values_now.size(),
                 .repeats_then = then.size(),
                 .repeats_now = now.size()};
  for (const auto& [when, used, all] :
       {std::tuple{"in the baseline", out.used_then, out.repeats_then}, {"now", out.used_now, out.repeats_now}}) {
    if (used < kLeastRepeats)
      out.doubts.push_back(
          fmt::format("{}: {} of {} repeats were undisturbed, at least {} are needed", when, used, all, kLeastRepeats));
  }
  if (now.empty() || then.empty()) return out;
  for (const Part& part : kParts) out.machine.push_back({part.name, level_then.*part.ms, level_now.*part.ms});
  if (!out.doubts.empty()) return out;
  out.time = ratio_interval(values_now, values_then, kLookConfidence);
  const bool slower = out.time.low > 1 + max_regression, within = out.time.high <= 1 + max_regression;
  for (const Part& part : kParts) {
    const double change = level_now.*part.ms / level_then.*part.ms;
    // A slower machine does not make a model faster, nor a faster one slower; but what they are measured in counts.
    const bool explains = part.is_unit || (change > 1 ? !within : !slower);
    if ((change <= part.other && change >= 1 / part.other) || !explains) continue;
    out.doubts.push_back(fmt::format("the machine is not as it was: {} takes {:.3g} times as long as in the baseline",
                                     part.what, change));
  }
  if (out.doubts.empty() && slower) out.verdict = Verdict::regression;
  if (out.doubts.empty() && within) out.verdict = Verdict::passed;
  return out;
}

}  // namespace sparkpilot
