#include "route/contract/action.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive {
namespace {

constexpr double kFrameSeconds = 0.05, kSmoothSeconds = 0.3, kStopSpeed = 0.05;
constexpr double kMinSpeed = 1.0, kMinLateralSpeed = 0.3, kStartAcceleration = 0.1;

// One 50 ms step of a first-order filter, from `previous` towards `value`.
double smooth(double value, double previous) {
  const double alpha = 1 - std::exp(-kFrameSeconds / kSmoothSeconds);
  return alpha * value + (1 - alpha) * previous;
}

double plan_at(const ModelOutputs& outputs, int column, int point) {
  return outputs.plan.mean[static_cast<size_t>(point * kPlanWidth + column)];
}

}  // namespace

double interpolate_plan(const ModelOutputs& outputs, int column, double time) {
  if (!(time > 0)) return plan_at(outputs, column, 0);
  for (int i = 1; i < kPoints; ++i) {
    if (time > plan_time(i)) continue;
    const double share = (time - plan_time(i - 1)) / (plan_time(i) - plan_time(i - 1));
    const double before = plan_at(outputs, column, i - 1);
    return before + share * (plan_at(outputs, column, i) - before);
  }
  return plan_at(outputs, column, kPoints - 1);
}

Action action_of(const ModelOutputs& outputs, const Action& previous, const ActionTimes& times, double v_ego) {
  Action action;
  const double v_then = interpolate_plan(outputs, kVelocity, times.longitudinal);
  const double v_later = interpolate_plan(outputs, kVelocity, times.longitudinal + 1);
  action.should_stop = v_then < kStopSpeed && v_later < kStopSpeed;
  double acceleration =
      2 * (v_then - plan_at(outputs, kVelocity, 0)) / times.longitudinal - plan_at(outputs, kAcceleration, 0);
  if (outputs.action) {
    acceleration = (*outputs.action)[1];
    action.should_stop = v_ego < kMinLateralSpeed && acceleration < kStartAcceleration;
  }
  action.acceleration = static_cast<float>(smooth(acceleration, previous.acceleration));

  const double speed = std::max(v_ego, kMinSpeed);
  double curvature = 2 * interpolate_plan(outputs, kOrientation + 2, times.lateral) / (speed * times.lateral) -
                     plan_at(outputs, kOrientationRate + 2, 0) / speed;
  if (outputs.action) curvature = (*outputs.action)[0] / (speed * speed);
  if (outputs.desired_curvature) curvature = *outputs.desired_curvature;
  const bool held = v_ego <= kMinLateralSpeed && !outputs.sim_pose;
  action.curvature = held ? previous.curvature : static_cast<float>(curvature);
  return action;
}

}  // namespace sparkpilot::drive
