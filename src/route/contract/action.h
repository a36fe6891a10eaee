// The action that a model's outputs ask for: curvature and acceleration (openpilot: selfdrive/modeld/modeld.py and
// selfdrive/controls/lib/drive_helpers.py).
#pragma once

#include <span>

#include "route/contract/outputs.h"

namespace sparkpilot::drive {

struct Action {
  float curvature = 0;     // 1/m, positive to the right (y right)
  float acceleration = 0;  // m/s^2
  bool should_stop = false;
};

struct ActionTimes {
  double lateral = 0.25;      // s from the frame until the steering has followed
  double longitudinal = 0.5;  // s from the frame until gas or brake have
};

// `previous` is the action of the frame before, 50 ms ago. The network's own head (desired_curvature, action) is used
// if it has one, else the plan; sim_pose, a head of 0.9.7 only, identifies that era:
//   acceleration = 2 (v(t) - v(0)) / t - a(0), smoothed with a time constant of 0.3 s;
//   curvature = 2 yaw(t) / (v t) - yaw_rate(0) / v with v >= 1 m/s; the previous one at 0.3 m/s and below, where 0.9.7
//               passed its head on;
//   should_stop: the plan's speed at t and at t + 1 s is below 0.05 m/s; with an action head: slower than 0.3 m/s and
//               asked for less than 0.1 m/s^2.
Action action_of(const ModelOutputs& outputs, const Action& previous, const ActionTimes& times, double v_ego);

// A plan's column at `time` seconds, linear between its points and constant outside.
double interpolate_plan(const ModelOutputs& outputs, int column, double time);

}  // namespace sparkpilot::drive
