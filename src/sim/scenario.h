// Scenarios: worlds with a purpose, whose parameters are drawn from ranges, and what a good controller keeps in them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world.h"

namespace sparkpilot::sim {

// What a scenario's numbers mean. `apply` enters one into a world; parameters are applied in the table's order, as some
// rest on others (a curve's curvature on the speed).
struct ScenarioParameter {
  std::string_view name, unit, meaning;
  void (*apply)(WorldSpec& world, double value);
};
std::span<const ScenarioParameter> scenario_parameters();

// Uniform from low to high; `usual` is variant 0's.
struct ScenarioRange {
  std::string_view parameter;
  double low, high, usual;
};
// At most `limit` of a metric of which less is better, at least `limit` of the others (sim/metrics.h).
struct ScenarioBound {
  std::string_view metric;
  double limit;
};
struct Scenario {
  std::string name, category, purpose;
  double seconds = 0;
  std::vector<ScenarioRange> ranges;
  std::vector<ScenarioBound> bounds;
  std::shared_ptr<const CourseTable> table;  // of a scenario from a file (sim/scenario_file.h)
};

// The catalogue, by category.
std::span<const Scenario> scenarios();
// The scenarios that names of scenarios, categories or "all" select, each once, in the catalogue's order. Fails (user)
// on a name that is neither, with the nearest.
std::vector<Scenario> select_scenarios(std::span<const std::string> names);

// The parameters of a variant, in the order of `ranges`: a function of the scenario's name, the variant and the seed
// alone. Variant 0 has the usual ones.
std::vector<double> draw_parameters(const Scenario& scenario, int64_t variant, uint64_t seed);
// The variant's world, with the default controllers. Worlds of one scenario, variant and seed see the same noise.
WorldSpec scenario_world(const Scenario& scenario, int64_t variant, uint64_t seed, const Vehicle& vehicle,
                         const Steering& steering = {}, const Powertrain& powertrain = {});
// The same for many variants of a scenario, of which it keeps what it needs.
class ScenarioWorlds {
 public:
  ScenarioWorlds(const Scenario& scenario, uint64_t seed);
  WorldSpec world(int64_t variant, const Vehicle& vehicle, const Steering& steering = {},
                  const Powertrain& powertrain = {}) const;

 private:
  struct Draw {
    void (*apply)(WorldSpec& world, double value);
    ScenarioRange range;
    uint64_t key;
  };
  std::string name_;
  std::shared_ptr<const CourseTable> table_;
  std::vector<Draw> draws_;  // in the order in which they are applied
};

// "bicycle" (saturating tyres), "bicycle_linear", "kinematic". Fails (user) on another name.
Tyres plant_tyres(std::string_view plant);
Planner planner_named(std::string_view name);

// The figures of a world as columns: the metrics of world_metrics(), in its order.
std::span<const std::string> world_metrics();
std::vector<std::optional<double>> metric_values(const WorldResult& result);
// Why the world does not pass; empty if it does. Of a figure that there is not, nothing is asked.
std::string failure_of(const Scenario& scenario, const WorldResult& result);

}  // namespace sparkpilot::sim
