// `sparkpilot bench --baseline`: refuses what cannot be compared, measures until it can tell, reports.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/baseline.h"
#include "bench/regression.h"
#include "bench/turns.h"
#include "cli/bench_repeats.h"

namespace sparkpilot::cli {

// "5%" or "0.05" as 0.05; fails (user) naming the flag on anything else, below 0, or 1 and more without a % sign.
double parse_share(const std::string& text, const std::string& flag);

// A model of the command line and the one of the baseline that it is held against.
struct BaselinePair {
  const BaselineModel* then = nullptr;
  std::vector<Repeat> repeats = {};     // now
  Regression result = {};               // of them
  std::vector<std::string> notes = {};  // what else differs
};

// Finds the baseline's model of each variant. Prints a line on stderr for each thing that differs and fails (user) if
// anything does. A variant without a number of threads gets the baseline's.
std::vector<BaselinePair> match_baseline(const Baseline& baseline, std::vector<BenchVariant>& variants);

// Measures `repeats` repeats of a model, and then up to three times half as many more while not even half as many are
// undisturbed. Returns how many are.
size_t record_repeats(std::vector<Repeat>& out, size_t variant, const Measured& model, size_t repeats,
                      const std::function<void()>& done);

// Measures `repeats` repeats of each model, and then up to three times half as many more while it cannot tell.
void hold_against(std::vector<BaselinePair>& pairs, const std::vector<Measured>& models, size_t repeats,
                  double max_regression, const std::function<void(size_t model)>& done);

nlohmann::ordered_json to_json(const BaselinePair& pair, double max_regression);
std::string baseline_table(const Baseline& baseline, const std::vector<BenchVariant>& variants,
                           const std::vector<BaselinePair>& pairs, double max_regression);

// Prints on stderr what differs, what could not be told, and what is slower. Returns the exit code.
int baseline_outcome(const std::vector<BenchVariant>& variants, const std::vector<BaselinePair>& pairs,
                     double max_regression, bool quiet);

}  // namespace sparkpilot::cli
