// Whether a model has become slower since a baseline was recorded, or the times differ by chance, or the machine does.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank_interval.h"
#include "bench/repeats.h"

namespace sparkpilot {

// How often the two may be compared while more repeats come in. Each time the interval holds the true ratio with a
// probability of at least kLookConfidence, so with 95 % all of them do (Bonferroni's inequality).
inline constexpr size_t kMostLooks = 4;
inline constexpr double kLookConfidence = 1 - 0.05 / kMostLooks;

// Repeats of either side that have to be undisturbed.
inline constexpr size_t kLeastRepeats = 5;

enum class Verdict {
  passed,       // the whole interval is within what is allowed
  regression,   // the whole interval is beyond
  cannot_tell,  // neither, or `doubts` says why the times cannot be compared
};
std::string_view name(Verdict verdict);  // "passed", "regression", "cannot_tell"
std::string words_of(Verdict verdict);   // the same with a space

// A part of the yardstick then and now, at its usual best: the tenth percentile.
struct MachineSpeed {
  std::string_view part;  // "arithmetic", "near_reads", "far_reads"
  double then_ms = 0, now_ms = 0;
};

struct Regression {
  Verdict verdict = Verdict::cannot_tell;
  RatioInterval time = {};                   // of the model's time now to then, as multiples of the yardstick's
  size_t used_then = 0, used_now = 0;        // repeats with enough undisturbed rounds
  size_t repeats_then = 0, repeats_now = 0;  // all
  std::vector<MachineSpeed> machine = {};
  std::vector<std::string> doubts = {};
};

// `max_regression`: the greatest change that is allowed, such as 0.05.
//
// A round counts if runs of it did not wait for a processor (kMostWaiting), and if the yardstick took hardly longer
// right before and right after it than it usually does at best: 3 % for what one core does alone, 20 % for what it
// shares. A repeat counts if at least three of its rounds do; its value is the median of their times, each divided by
// the yardstick's arithmetic time around it, since the clock may differ. The values of both sides are compared by
// ratio_interval().
//
// It cannot be told where fewer than kLeastRepeats of a side count, and where the machine differs, that is the
// yardstick at its best, so that this may be the reason: by more than 5 % in what one core does alone, 25 % in what it
// shares. A machine that reads more slowly cannot be the reason for a model that is not slower, nor a faster one for a
// slower model; arithmetic, in whose time the model's is measured, has to be the same either way.
Regression compare_repeats(std::span<const Repeat> now, std::span<const Repeat> then, double max_regression);

// How many repeats count, held against each other only.
size_t undisturbed(std::span<const Repeat> repeats);

}  // namespace sparkpilot
