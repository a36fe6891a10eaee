// Whether one finished run of scenarios (sim/results.h) drives worse than another: A is what was, B what is new.
//
// Worlds of equal scenario, variant and seed are a pair, and all that is judged are differences B - A within pairs.
// Statistics: base/paired.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/metrics.h"
#include "sim/results.h"

namespace sparkpilot::sim {

struct CompareOptions {
  double alpha = 0.05;                      // chance of any wrong finding among all that are judged; above 0, below 1
  std::map<std::string, double> threshold;  // percent of A's mean by metric, in place of default_threshold()
  std::string worst_by;                     // a metric; empty: see Comparison::worst_by
  uint64_t seed = 0;                        // of the bootstrap
  int resamples = 5000;                     // of it; a fifth for single scenarios, which are not judged
};

// The least change that matters in practice, in percent of A's mean: 2 for what is an average over a world's time, 5
// for what is one moment of it.
double default_threshold(const Metric& metric);
// And in the metric's unit, as A's mean may be 0: 0.001 of lengths, speeds, accelerations and shares, 0.01 of others.
double least_difference(const Metric& metric);

// Over which worlds a mean is.
enum class Scope { all, category, scenario };
std::string_view name(Scope scope);

enum class Change {
  none,   // no difference is shown
  small,  // shown, and below the threshold
  better,
  worse,       // a regression
  not_judged,  // a single scenario, or too few clusters
};
std::string_view name(Change change);  // "none", "small", "better", "worse", "not judged"

// Means and the like over the pairs in which both worlds stayed within bounds and have the figure.
struct Figures {
  double mean = 0, median = 0, interquartile_mean = 0;
};

struct Difference {
  const Metric* metric = nullptr;
  Scope scope = Scope::all;
  std::string of;  // the category or scenario; empty: all
  int64_t pairs = 0;
  int64_t clusters = 0;
  bool by_scenario = false;       // what a cluster is: a scenario with all its variants, or a variant
  Figures a, b, delta;            // delta: of the pairs' differences
  std::optional<double> percent;  // of A's mean; empty where that is 0
  double low = 0, high = 0;       // of the mean difference, at 1 - alpha, by the bootstrap
  double p = 1;                   // that the mean difference is 0 (ClusteredMean::p)
  double p_wilcoxon = 1;          // of the clusters' mean differences

  // With Holm's correction over all metrics, the whole and the categories; empty where it is not judged. The interval
  // is at the level at which Holm's procedure judges this one.
  std::optional<double> p_holm, p_wilcoxon_holm, low_holm, high_holm;
  Change change = Change::not_judged;
};

// A pair, as `sim show` can draw it.
struct NamedPair {
  std::string scenario, category;
  int64_t variant = 0;
  uint64_t seed = 0;           // B's
  std::optional<double> a, b;  // of the metric by which it was chosen
  std::string reason;          // why B did not pass, where that is what it is named for
};

// What the means over all worlds are of, pair by pair.
struct PairedFigures {
  const Metric* metric = nullptr;
  std::vector<double> a, b;
};

struct Comparison {
  RunInfo a, b;
  double alpha = 0;
  bool same_seeds = true;          // else worlds are paired by scenario and variant, and draw other numbers
  std::vector<std::string> notes;  // in what the runs differ besides
  int64_t pairs = 0;
  int64_t left_out = 0;                                 // pairs of which no metric has a figure in both runs
  int64_t only_a = 0, only_b = 0;                       // rows without a partner
  std::vector<std::string> only_a_names, only_b_names;  // of some: "curve variant 3, seed 7"

  // The whole, categories, scenarios; in each by metric.
  std::vector<Difference> differences;
  std::vector<PairedFigures> figures;

  // Pairs of which only one passed, or one left the bounds and the other did not, or the algorithm failed in B alone,
  // so that there is no figure.
  int64_t failed_a = 0, failed_b = 0;  // worlds of pairs that did not pass
  int64_t newly_failed = 0, newly_passed = 0, newly_diverged = 0, newly_without_figures = 0;
  double p_failed = 1;                        // that as many would get worse in this as get better (sign test)
  std::vector<NamedPair> newly_failed_names;  // the first kNamedPairs
  bool failures_regressed = false;

  const Metric* worst_by = nullptr;  // as asked for; else of the regression with the least p; else the first metric
  std::vector<NamedPair> worst;      // the pairs that got worse the most by it, at most kNamedPairs, the worst first

  int64_t regressions = 0, improvements = 0;  // differences that are worse, better
  bool regressed() const { return regressions > 0 || failures_regressed; }
};

inline constexpr size_t kNamedPairs = 10;
// Clusters are scenarios from this many on, below variants: a bootstrap of fewer says little, and what is said is then
// of these scenarios' variants, not of scenarios like them.
inline constexpr int64_t kLeastScenarios = 12;

// A regression of a metric is a mean difference beyond its threshold, for the worse, whose corrected interval excludes
// 0. With the same seeds every pair that passed and does not any more is one too (whichever its reason), and every one
// that left the bounds anew, or in which the algorithm failed anew; with different seeds these are compared by their
// numbers, at alpha.
//
// Does not depend on the order of rows. Fails (user) if there are no pairs, on a row twice, or on a metric that is not
// in both runs; `name_a`, `name_b` are the runs' in messages.
Comparison compare_runs(const Results& a, const Results& b, const CompareOptions& options, const std::string& name_a,
                        const std::string& name_b);

}  // namespace sparkpilot::sim
