#include "sim/algorithm.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace sparkpilot::sim {
namespace {

using W = WorldSpec;

const AlgorithmParameter kTorque[] = {
    {"kp", "", "factor of the whole table of gains over speed", [](W& w) { return &w.lateral.torque_kp; }},
    {"kp_fast", "", "the table's last gain, at 30 m/s", [](W& w) { return &w.lateral.torque_kp_fast; }},
    {"ki", "1/s", "gain of the integral", [](W& w) { return &w.lateral.torque_ki; }},
    {"jerk_gain", "s", "weight of jerk in what friction is compensated by", [](W& w) { return &w.lateral.jerk_gain; }},
    {"jerk_lookahead", "s", "how far ahead that jerk is seen", [](W& w) { return &w.lateral.jerk_lookahead; }},
    {"jerk_cutoff", "Hz", "of its low pass", [](W& w) { return &w.lateral.jerk_cutoff; }},
    {"accel_factor", "m/s^2", "lateral acceleration at full torque, as believed",
     [](W& w) { return &w.lateral.accel_factor; }},
    {"accel_offset", "m/s^2", "lateral acceleration without torque, as believed",
     [](W& w) { return &w.lateral.accel_offset; }},
    {"friction", "", "of the steering, of full torque, as believed", [](W& w) { return &w.lateral.friction; }},
    {"dead_zone", "deg", "of the wheel, in which friction is not compensated",
     [](W& w) { return &w.lateral.dead_zone_degrees; }},
};

const AlgorithmParameter kPid[] = {
    {"kp_slow", "1/deg", "gain at rest", [](W& w) { return &w.lateral.pid_kp[0]; }},
    {"kp_fast", "1/deg", "gain from 35 m/s on", [](W& w) { return &w.lateral.pid_kp[1]; }},
    {"ki_slow", "1/(deg s)", "gain of the integral at rest", [](W& w) { return &w.lateral.pid_ki[0]; }},
    {"ki_fast", "1/(deg s)", "gain of the integral from 35 m/s on", [](W& w) { return &w.lateral.pid_ki[1]; }},
    {"kf", "s^2/(deg m^2)", "feedforward on the wheel angle times speed squared",
     [](W& w) { return &w.lateral.pid_kf; }},
};

const AlgorithmParameter kMppi[] = {
    {"noise", "", "of the samples, of full torque", [](W& w) { return &w.lateral.mppi_noise; }},
    {"temperature", "", "of the weights, as a share of the samples' mean cost above the least",
     [](W& w) { return &w.lateral.mppi_temperature; }},
    {"change", "", "weight of changes of torque, compared with errors", [](W& w) { return &w.lateral.mppi_change; }},
    {"observer", "", "share of the model's error that is believed at once",
     [](W& w) { return &w.lateral.mppi_observer; }},
    {"lag", "s", "the part of lateral_delay that is a lag, as believed", [](W& w) { return &w.lateral.mppi_lag; }},
    {"accel_factor", "m/s^2", "lateral acceleration at full torque, as believed",
     [](W& w) { return &w.lateral.accel_factor; }},
    {"friction", "", "of the steering, of full torque, as believed", [](W& w) { return &w.lateral.friction; }},
};

const AlgorithmParameter kAngle[] = {
    {"angle_limit", "deg", "beyond which it is said to be saturated", [](W& w) { return &w.lateral.angle_limit; }},
};

const AlgorithmParameter kShared[] = {
    {"lateral_delay", "s", "from a command to lateral acceleration, as believed",
     [](W& w) { return &w.lateral_delay; }},
    {"lane_keeping", "1/s", "how fast the planner brings the car back to the middle of its lane",
     [](W& w) { return &w.course.lane_keeping; }},
    {"time_gap", "s", "idm: time gap to the car ahead", [](W& w) { return &w.following.time_gap; }},
    {"standstill", "m", "idm: gap to a car ahead that stands", [](W& w) { return &w.following.standstill; }},
    {"follow_accel", "m/s^2", "idm: acceleration on a free road", [](W& w) { return &w.following.accel; }},
    {"follow_brake", "m/s^2", "idm: comfortable deceleration", [](W& w) { return &w.following.brake; }},
    {"max_brake", "m/s^2", "idm: most deceleration", [](W& w) { return &w.following.max_brake; }},
    {"t_follow", "s", "mpc: time gap to the car ahead", [](W& w) { return &w.mpc.t_follow; }},
    {"jerk_factor", "", "mpc: factor of the costs of jerk and of changing the plan",
     [](W& w) { return &w.mpc.jerk_factor; }},
    {"actuator_delay", "s", "mpc: from a command to acceleration, as believed",
     [](W& w) { return &w.mpc.actuator_delay; }},
    {"mpc_obstacle_cost", "", "mpc: of the distance from the car ahead and of the speed that is set",
     [](W& w) { return &w.mpc.obstacle_cost; }},
    {"mpc_jerk_cost", "", "mpc: of jerk", [](W& w) { return &w.mpc.jerk_cost; }},
    {"mpc_accel_change_cost", "", "mpc: of leaving the plan before", [](W& w) { return &w.mpc.accel_change_cost; }},
    {"mpc_danger_cost", "", "mpc: of being nearer than mpc_danger_factor of the safe distance",
     [](W& w) { return &w.mpc.danger_cost; }},
    {"mpc_danger_factor", "", "mpc: of the safe distance", [](W& w) { return &w.mpc.danger_factor; }},
    {"mpc_min_accel", "m/s^2", "mpc: hardest braking", [](W& w) { return &w.mpc.min_accel; }},
    {"long_kp_0", "1/s", "longitudinal gain at rest", [](W& w) { return &w.longitudinal.kp[0]; }},
    {"long_kp_5", "1/s", "at 5 m/s", [](W& w) { return &w.longitudinal.kp[1]; }},
    {"long_kp_35", "1/s", "from 35 m/s on", [](W& w) { return &w.longitudinal.kp[2]; }},
    {"long_ki_0", "1/s^2", "longitudinal gain of the integral at rest", [](W& w) { return &w.longitudinal.ki[0]; }},
    {"long_ki_5", "1/s^2", "at 5 m/s", [](W& w) { return &w.longitudinal.ki[1]; }},
    {"long_ki_35", "1/s^2", "from 35 m/s on", [](W& w) { return &w.longitudinal.ki[2]; }},
    {"long_kf", "", "longitudinal feedforward", [](W& w) { return &w.longitudinal.kf; }},
    {"min_accel", "m/s^2", "hardest braking", [](W& w) { return &w.longitudinal.min_accel; }},
    {"max_accel", "m/s^2", "greatest acceleration", [](W& w) { return &w.longitudinal.max_accel; }},
    {"stop_accel", "m/s^2", "with which a standing car is held", [](W& w) { return &w.longitudinal.stop_accel; }},
    {"stopping_rate", "m/s^3", "how fast braking grows to that", [](W& w) { return &w.longitudinal.stopping_rate; }},
};

// Quick enough to overcome what friction holds within half a metre.
void set_planner(WorldSpec& w) { w.course.lane_keeping = 0.8; }

const Algorithm kAlgorithms[] = {
    {"lateral_torque", "openpilot's torque control, version 1", Lateral::torque, set_planner, kTorque},
    {"lateral_torque_v0", "openpilot's torque control, version 0", Lateral::torque,
     [](W& w) {
       set_planner(w);
       w.lateral = torque_version_0();
     },
     kTorque},
    {"lateral_pid", "openpilot's PID on the angle of the wheel", Lateral::pid, set_planner, kPid},
    {"lateral_angle", "openpilot's control of cars that take angles", Lateral::angle, set_planner, kAngle},
    {"lateral_mppi", "a sampling MPC on torque (MPPI), 32 samples of 0.6 s at 20 Hz", Lateral::mppi, set_planner,
     kMppi},
    {"lateral_torque_older_longitudinal", "torque control, version 1, with the longitudinal control of older versions",
     Lateral::torque,
     [](W& w) {
       set_planner(w);
       w.longitudinal = older_longitudinal();
     },
     kTorque},
};

// Calls do_it(parameter) for each of an algorithm's.
template <class Do>
void for_each(const Algorithm& algorithm, const Do& do_it) {
  for (const AlgorithmParameter& parameter : algorithm.own) do_it(parameter);
  for (const AlgorithmParameter& parameter : kShared) do_it(parameter);
}

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }
std::span<const AlgorithmParameter> shared_parameters() { return kShared; }

const Algorithm& find_algorithm(std::string_view name) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.name == name) return algorithm;
    names.emplace_back(algorithm.name);
  }
  fail("no algorithm is named \"{}\"{}; sim list --algorithms prints them", name, did_you_mean(name, names));
}

const Algorithm& outside_algorithm(bool torque) {
  static const Algorithm kOutside[] = {{"", "", Lateral::angle, set_planner, {}},
                                       {"", "", Lateral::torque, set_planner, {}}};
  return kOutside[torque ? 1 : 0];
}

std::vector<Parameter> algorithm_parameters(const Algorithm& algorithm, std::span<const Parameter> set,
                                            std::span<const Parameter> outside, std::string_view name) {
  WorldSpec world;
  algorithm.begin(world);
  std::vector<Parameter> parameters(outside.begin(), outside.end());
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  for_each(algorithm, [&](const AlgorithmParameter& parameter) {
    if (std::ranges::find(outside, parameter.name, &Parameter::name) != outside.end()) {
      fail("{}: its parameter {} has the name of one that every algorithm has", name, parameter.name);
    }
    parameters.push_back({std::string(parameter.name), *parameter.in(world)});
    names.emplace_back(parameter.name);
  });
  for (const Parameter& given : set) {
    const auto found = std::ranges::find(parameters, given.name, &Parameter::name);
    if (found == parameters.end()) {
      std::string own;
      for (const Parameter& parameter : outside) own += (own.empty() ? "; its own are " : ", ") + parameter.name;
      fail("{} has no parameter \"{}\"{}{}; sim list --algorithms prints {}", name.empty() ? algorithm.name : name,
           given.name, did_you_mean(given.name, names), own, name.empty() ? "them" : "those of all algorithms");
    }
    found->value = given.value;
  }
  return parameters;
}

void set_parameters(const Algorithm& algorithm, std::span<const Parameter> parameters, WorldSpec& world) {
  algorithm.begin(world);
  size_t i = 0;
  for_each(algorithm, [&](const AlgorithmParameter& parameter) { *parameter.in(world) = parameters[i++].value; });
}

}  // namespace sparkpilot::sim
