// The control algorithms by name, and their parameters by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results.h"
#include "sim/world.h"

namespace sparkpilot::sim {

struct AlgorithmParameter {
  std::string_view name, unit, meaning;
  double* (*in)(WorldSpec& world);
};

// Lateral control by one of openpilot's controllers; openpilot's longitudinal control and the planner come with each.
struct Algorithm {
  std::string_view name, doc;
  Lateral lateral;
  void (*begin)(WorldSpec& world);  // its numbers, where they are not WorldSpec's defaults
  std::span<const AlgorithmParameter> own;
};
std::span<const Algorithm> algorithms();
// Those of the longitudinal control and the planner.
std::span<const AlgorithmParameter> shared_parameters();
// Fails (user) on an unknown name, with the nearest.
const Algorithm& find_algorithm(std::string_view name);
// What comes with lateral control from outside (sim/user_algorithm.h): all but its own parameters.
const Algorithm& outside_algorithm(bool torque);

// All parameters of an algorithm with their values, after those that are `set`. Fails (user) on a name that it has not.
// `outside`: parameters that no world has, which come first; `name`: whose they are, in errors.
std::vector<Parameter> algorithm_parameters(const Algorithm& algorithm, std::span<const Parameter> set,
                                            std::span<const Parameter> outside = {}, std::string_view name = {});
// Enters them into a world: all that algorithm_parameters() gives, without those from outside.
void set_parameters(const Algorithm& algorithm, std::span<const Parameter> parameters, WorldSpec& world);

}  // namespace sparkpilot::sim
