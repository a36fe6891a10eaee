#include "sim/scenario_run.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "base/version.h"
#include "sim/batch_lanes.h"

namespace sparkpilot::sim {
namespace {

int steps_of(const Scenario& scenario) { return static_cast<int>(std::lround(scenario.seconds / kStep)); }

Planner planner_named(std::string_view name) {
  if (name == "idm") return Planner::idm;
  if (name == "cruise") return Planner::cruise;
  fail("no planner is named \"{}\", expected idm or cruise", name);
}

}  // namespace

Tyres plant_tyres(std::string_view plant) {
  if (plant == "bicycle") return Tyres::saturating;
  if (plant == "bicycle_linear") return Tyres::linear;
  if (plant == "kinematic") return Tyres::none;
  fail("no plant is named \"{}\", expected bicycle, bicycle_linear or kinematic", plant);
}

ScenarioRun::ScenarioRun(ScenarioRunOptions options)
    : options_(std::move(options)),
      algorithm_(find_algorithm(options_.algorithm)),
      car_(find_car(options_.vehicle)),
      tyres_(plant_tyres(options_.plant)) {
  if (options_.scenarios.empty()) fail("sim: no scenario to run");
  constexpr int64_t kMost = int64_t{1} << 40;
  if (options_.variants < 1 || options_.variants > kMost / std::ssize(options_.scenarios)) {
    fail("sim: {} variants of {} scenarios, expected 1 or more, and fewer than 2^40 worlds", options_.variants,
         options_.scenarios.size());
  }
  planner_named(options_.planner);
  info_.program = program_version();
  info_.algorithm = options_.algorithm;
  info_.parameters = algorithm_parameters(algorithm_, options_.set);
  info_.vehicle = car_.name;
  info_.plant = options_.plant;
  info_.planner = options_.planner;
  info_.seed = options_.seed;
  for (const Scenario& scenario : options_.scenarios) info_.scenarios.push_back(scenario.name);
  info_.variants = options_.variants;
  info_.instruction_set = lane_target();
  info_.metrics.assign(world_metrics().begin(), world_metrics().end());
  info_.threads = thread_count();
}

int64_t ScenarioRun::rows() const { return std::ssize(options_.scenarios) * options_.variants; }

const Scenario& ScenarioRun::scenario(int64_t row) const {
  return options_.scenarios[static_cast<size_t>(row / options_.variants)];
}

WorldSpec ScenarioRun::world(int64_t row) const {
  const Scenario& what = scenario(row);
  WorldSpec world = scenario_world(what, row % options_.variants, options_.seed, car_.vehicle, car_.steering);
  set_parameters(algorithm_, info_.parameters, world);
  world.following.planner = planner_named(options_.planner);
  return world;
}

BatchOptions ScenarioRun::batch(const Scenario& what) const {
  return {.lateral = algorithm_.lateral, .tyres = tyres_, .steps = steps_of(what), .seed = options_.seed};
}

int64_t ScenarioRun::steps(int64_t first, int64_t last) const {
  int64_t all = 0;
  for (int64_t row = first; row < last;) {
    const int64_t next = std::min((row / options_.variants + 1) * options_.variants, last);
    all += (next - row) * steps_of(scenario(row));
    row = next;
  }
  return all;
}

ResultRow ScenarioRun::row_of(int64_t row, const WorldResult& result) const {
  const Scenario& what = scenario(row);
  ResultRow r{what.name, what.category, row % options_.variants, options_.seed};
  if (result.diverged) r.diverged = static_cast<double>(*result.diverged) * kStep;
  r.reason = failure_of(what, result);
  r.passed = r.reason.empty();
  r.values = metric_values(result);
  return r;
}

std::vector<ResultRow> ScenarioRun::run(int64_t first, int64_t last) const {
  // Worlds of equal length go together, whatever their scenario.
  std::map<int, std::vector<int64_t>> by_steps;
  for (int64_t row = first; row < last; ++row) by_steps[steps_of(scenario(row))].push_back(row);
  std::vector<ResultRow> rows(static_cast<size_t>(last - first));
  for (const auto& [steps, which] : by_steps) {
    const auto& list = which;
    const auto results = run_worlds(
        std::ssize(list), [&](int64_t i) { return world(list[static_cast<size_t>(i)]); },
        batch(scenario(list.front())));
    parallel_for(std::ssize(list), 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = list[static_cast<size_t>(i)];
        rows[static_cast<size_t>(row - first)] = row_of(row, results[static_cast<size_t>(i)]);
      }
    });
  }
  return rows;
}

}  // namespace sparkpilot::sim
