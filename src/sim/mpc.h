// Numbers of openpilot's longitudinal MPC (sim/mpc-inl.h), in doubles. [m]: from memory.
#pragma once

namespace sparkpilot::sim {

inline constexpr int kMpcSteps = 12;                             // intervals; T_i = 10 (i/12)^2 s
inline constexpr int kMpcIterations = 14;                        // of the quadratic program; openpilot allows HPIPM 10
inline constexpr double kComfortBrake = 2.5, kStopDistance = 6;  // m/s^2, m
inline constexpr double kLeadTau = 1.5;        // 1/s^2: of a lead car that keeps its speed, or is not there
inline constexpr double kMpcTolerance = 1e-2;  // m/s, m/s^2: a limit that can be kept is kept to this, by its price

constexpr double mpc_time(int i) { return 10.0 * i * i / (kMpcSteps * kMpcSteps); }

struct MpcTuning {
  double t_follow = 1.45;  // s; 1.25 aggressive, 1.75 relaxed
  double jerk_factor = 1;  // 0.5 aggressive
  double obstacle_cost = 3, jerk_cost = 5, accel_change_cost = 200;
  double limit_cost = 1e6, danger_cost = 100, danger_factor = 0.75;
  double min_accel = -3.5;       // m/s^2
  double actuator_delay = 0.15;  // s, from a command to acceleration, as believed
};

}  // namespace sparkpilot::sim
