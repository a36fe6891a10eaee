// A run in short: by category, and the worlds that came nearest to their bounds or beyond.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/results.h"
#include "sim/scenario.h"

namespace sparkpilot::sim {

struct CategorySummary {
  std::string category;
  int64_t worlds = 0, passed = 0, diverged = 0;
  std::vector<std::optional<double>> means;  // of each metric, over the worlds that have it
};

struct WorstWorld {
  size_t row = 0;
  double of_bound = 0;  // 1: at a bound; infinite: failed, diverged, or beyond a bound of 0
  std::string metric;   // whose bound it is; empty: failed or diverged
  bool failed = false;  // the algorithm did what it may not: such worlds come first
  double offset = 0;    // the greatest: where bounds say nothing, as of courses of files
};

// A scenario in which plans of the planner mpc were not solved, or break limits.
struct BadPlans {
  std::string scenario;
  int64_t worlds = 0;  // with such plans
  double unsolved = 0, infeasible = 0;
};

struct RunSummary {
  std::vector<CategorySummary> categories;  // in the rows' order
  std::vector<WorstWorld> worst;            // the worst first, at most `most`
  int64_t worlds = 0, passed = 0, diverged = 0;
  int64_t failed = 0;               // in the algorithm
  std::vector<BadPlans> bad_plans;  // in the rows' order
};

// `metrics`: the columns of the rows. Rows of scenarios that are not among `scenarios` have no bounds.
RunSummary summarize_run(std::span<const ResultRow> rows, std::span<const std::string> metrics,
                         std::span<const Scenario> scenarios, size_t most = 10);

}  // namespace sparkpilot::sim
