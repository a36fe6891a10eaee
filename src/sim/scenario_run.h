// Scenarios driven by an algorithm: the rows of a run (sim/results.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/algorithm.h"
#include "sim/batch.h"
#include "sim/car_file.h"
#include "sim/results.h"
#include "sim/scenario.h"
#include "sim/user_algorithm.h"

namespace sparkpilot::sim {

struct ScenarioRunOptions {
  std::vector<Scenario> scenarios;
  int64_t variants = 1;  // of each
  uint64_t seed = 1;
  // `vehicle`: a preset or a car's file (sim/car_file.h).
  std::string algorithm = "lateral_torque", vehicle = "civic", plant = "bicycle", planner = "idm";
  std::vector<Parameter> set;                           // parameters of the algorithm that are not its own
  std::shared_ptr<const UserAlgorithm> user = nullptr;  // drives instead of `algorithm`
  std::shared_ptr<GpuDevice> gpu = nullptr;             // null: the CPU
};

// Row i is variant i % variants of scenario i / variants. Rows depend on the options and the instruction set alone;
// that of any GPU is "CUDA".
class ScenarioRun {
 public:
  // Fails (user) on what there is not, on parameters beyond their ranges, and where nothing is to be run.
  explicit ScenarioRun(ScenarioRunOptions options);

  const ScenarioRunOptions& options() const { return options_; }
  const RunInfo& info() const { return info_; }  // without what is measured
  int64_t rows() const;
  const Scenario& scenario(int64_t row) const;
  WorldSpec world(int64_t row) const;
  BatchOptions batch(const Scenario& scenario) const;
  int64_t steps(int64_t first, int64_t last) const;  // of all these rows
  // Rows first to last - 1, on all threads. `stop` ends the run of a user's algorithm early; there are no rows then.
  std::vector<ResultRow> run(int64_t first, int64_t last, const std::atomic<bool>* stop = nullptr) const;
  // Of the algorithm in the first world; empty where a user's does not answer, or is stopped.
  std::optional<UpdateLatency> latency(const std::atomic<bool>* stop = nullptr) const;
  // How options().user, which is set, drives the worlds of a scenario.
  UserDrive drive(const Scenario& scenario, const std::atomic<bool>* stop = nullptr) const;

 private:
  // `failed`: what the algorithm did that it may not; empty: nothing.
  ResultRow row_of(int64_t row, const WorldResult& result, const std::string& failed) const;
  size_t outside() const;  // parameters that are a user's algorithm's

  ScenarioRunOptions options_;
  RunInfo info_;
  std::vector<ScenarioWorlds> worlds_;  // of each scenario
  const Algorithm& algorithm_;
  Car car_;
  Tyres tyres_;
};

// How the worlds of a run were driven, as its record says: all but scenarios, variants, and what it had from files.
ScenarioRunOptions options_of_run(const RunInfo& info);

// Why the worlds of a run on the CPU cannot go to `gpu`; empty if it gives the bits of Number::single for the first of
// them. Fails (device) as a GPU does.
std::string gpu_refusal(const ScenarioRun& run, const std::shared_ptr<GpuDevice>& gpu);

}  // namespace sparkpilot::sim
