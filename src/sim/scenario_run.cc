#include "sim/scenario_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "base/version.h"
#include "sim/batch_gpu.h"
#include "sim/batch_lanes.h"
#include "sim/csv.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace {

int steps_of(const Scenario& scenario) { return static_cast<int>(std::lround(scenario.seconds / kStep)); }

}  // namespace

ScenarioRun::ScenarioRun(ScenarioRunOptions options)
    : options_(std::move(options)),
      algorithm_(options_.user ? outside_algorithm(options_.user->torque()) : find_algorithm(options_.algorithm)),
      car_(find_car(options_.vehicle)),
      tyres_(plant_tyres(options_.plant)) {
  if (options_.scenarios.empty()) fail("sim: no scenario to run");
  constexpr int64_t kMost = int64_t{1} << 40;
  if (options_.variants < 1 || options_.variants > kMost / std::ssize(options_.scenarios)) {
    fail("sim: {} variants of {} scenarios, expected 1 or more, and fewer than 2^40 worlds", options_.variants,
         options_.scenarios.size());
  }
  const Planner planner = planner_named(options_.planner);
  info_.program = program_version();
  if (options_.user) {
    info_.algorithm = options_.user->name();
    info_.algorithm_md5 = options_.user->hash();
    std::vector<Parameter> own;
    for (const UserParameter& p : options_.user->parameters()) own.push_back({p.name, p.value});
    info_.parameters = algorithm_parameters(algorithm_, options_.set, own, info_.algorithm);
  } else {
    info_.algorithm = options_.algorithm;
    info_.parameters = algorithm_parameters(algorithm_, options_.set);
  }
  info_.vehicle = car_.name;
  info_.plant = options_.plant;
  info_.planner = options_.planner;
  info_.seed = options_.seed;
  for (const Scenario& scenario : options_.scenarios) {
    info_.scenarios.push_back(scenario.name);
    worlds_.emplace_back(scenario, options_.seed);
  }
  info_.variants = options_.variants;
  info_.instruction_set = options_.gpu ? "CUDA" : lane_target();
  if (options_.gpu) {
    if (const auto why = not_on_gpu(algorithm_.lateral, planner); !why.empty()) fail("{}", why);
    if (options_.user) fail("{}: worlds that a user's algorithm drives run on the CPU only", info_.algorithm);
    const GpuFacts& gpu = options_.gpu->facts();
    info_.device = fmt::format("cuda:{} ({})", gpu.ordinal, gpu.name);
  }
  info_.metrics.assign(world_metrics().begin(), world_metrics().end());
  info_.threads = thread_count();
  check_world(world(0));  // the parameters are those of all worlds
}

int64_t ScenarioRun::rows() const { return std::ssize(options_.scenarios) * options_.variants; }

const Scenario& ScenarioRun::scenario(int64_t row) const {
  return options_.scenarios[static_cast<size_t>(row / options_.variants)];
}

WorldSpec ScenarioRun::world(int64_t row) const {
  const ScenarioWorlds& worlds = worlds_[static_cast<size_t>(row / options_.variants)];
  WorldSpec world = worlds.world(row % options_.variants, car_.vehicle, car_.steering, car_.powertrain);
  set_parameters(algorithm_, std::span(info_.parameters).subspan(outside()), world);
  world.following.planner = planner_named(options_.planner);
  return world;
}

BatchOptions ScenarioRun::batch(const Scenario& what) const {
  return {.lateral = algorithm_.lateral,
          .tyres = tyres_,
          .steps = steps_of(what),
          .seed = options_.seed,
          .gpu = options_.gpu};
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

size_t ScenarioRun::outside() const { return options_.user ? options_.user->parameters().size() : 0; }

UserDrive ScenarioRun::drive(const Scenario& what, const std::atomic<bool>* stop) const {
  UserDrive drive{{}, batch(what), stop};
  for (size_t i = 0; i < outside(); ++i) drive.parameters.push_back(info_.parameters[i].value);
  return drive;
}

std::optional<UpdateLatency> ScenarioRun::latency(const std::atomic<bool>* stop) const {
  return options_.user ? options_.user->latency(world(0), drive(scenario(0), stop))
                       : update_latency(algorithm_.lateral, world(0));
}

ResultRow ScenarioRun::row_of(int64_t row, const WorldResult& result, const std::string& failed) const {
  const Scenario& what = scenario(row);
  ResultRow r{what.name, what.category, row % options_.variants, options_.seed};
  if (!failed.empty()) {
    r.reason = one_line(failed);  // as the table of results has it
    r.values.resize(info_.metrics.size());
    return r;
  }
  if (result.diverged) r.diverged = static_cast<double>(*result.diverged) * kStep;
  r.reason = failure_of(what, result);
  r.passed = r.reason.empty();
  r.values = metric_values(result);
  return r;
}

std::vector<ResultRow> ScenarioRun::run(int64_t first, int64_t last, const std::atomic<bool>* stop) const {
  // Worlds of equal length go together, whatever their scenario.
  std::map<int, std::vector<int64_t>> by_steps;
  for (int64_t row = first; row < last; ++row) by_steps[steps_of(scenario(row))].push_back(row);
  std::vector<ResultRow> rows(static_cast<size_t>(last - first));
  for (const auto& [steps, which] : by_steps) {
    const auto& list = which;
    const auto spec = [&](int64_t i) { return world(list[static_cast<size_t>(i)]); };
    const Scenario& first_of = scenario(list.front());
    std::vector<WorldResult> results;
    std::vector<UserWorld> driven;
    if (options_.user) {
      driven = options_.user->run(std::ssize(list), spec, drive(first_of, stop));
      if (driven.empty()) return {};
    } else {
      results = run_worlds(std::ssize(list), spec, batch(first_of));
    }
    parallel_for(std::ssize(list), 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = list[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(i);
        rows[static_cast<size_t>(row - first)] =
            options_.user ? row_of(row, driven[at].result, driven[at].failed) : row_of(row, results[at], {});
      }
    });
  }
  return rows;
}

ScenarioRunOptions options_of_run(const RunInfo& info) {
  ScenarioRunOptions options;
  options.seed = info.seed;
  options.algorithm = info.algorithm;
  options.plant = info.plant;
  options.planner = info.planner;
  options.set = info.parameters;
  return options;
}

std::string gpu_refusal(const ScenarioRun& run, const std::shared_ptr<GpuDevice>& gpu) {
  BatchOptions options = run.batch(run.scenario(0));
  const auto why = not_on_gpu(options.lateral, planner_named(run.options().planner));
  if (!why.empty()) return std::string(why);
  options.steps = std::min(options.steps, 300);
  options.number = Number::single;
  const int64_t worlds = std::min<int64_t>(run.rows(), 64);
  const auto spec = [&](int64_t i) { return run.world(i); };
  const auto expected = run_worlds(worlds, spec, options);
  options.gpu = gpu;
  const auto got = run_worlds(worlds, spec, options);
  int64_t different = 0;
  for (size_t i = 0; i < got.size(); ++i) different += got[i] != expected[i];
  return different == 0 ? "" : fmt::format("self-check: {} of {} worlds differ from the CPU's", different, worlds);
}

}  // namespace sparkpilot::sim
