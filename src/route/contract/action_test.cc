// The action computed from a plan. The numbers are from tests/reference/action_numpy.py.
#include "route/contract/action.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sparkpilot::drive {
namespace {

void set(ModelOutputs& outputs, int point, int column, double value) {
  outputs.plan.mean[static_cast<size_t>(point) * kPlanWidth + static_cast<size_t>(column)] = static_cast<float>(value);
}

// The script's plan: speed, acceleration, yaw and yaw rate.
ModelOutputs planned() {
  ModelOutputs outputs;
  for (int i = 0; i < kPoints; ++i) {
    const double t = plan_time(i);
    set(outputs, i, kVelocity, 12 + 1.5 * t - 0.2 * t * t);
    set(outputs, i, kAcceleration, 1.25 - 0.4 * t);
    set(outputs, i, kOrientation + 2, 0.03 * t + 0.004 * t * t);
    set(outputs, i, kOrientationRate + 2, 0.031 + 0.008 * t);
  }
  return outputs;
}

ModelOutputs at_speed(double now, double later) {
  ModelOutputs outputs;
  for (int i = 0; i < kPoints; ++i) set(outputs, i, kVelocity, plan_time(i) < 1 ? now : later);
  return outputs;
}

TEST(InterpolatePlan, IsNumPysInterp) {
  const ModelOutputs outputs = planned();
  const std::pair<double, double> expected[] = {
      {-1, 12}, {0, 12}, {0.05, 12.074417114}, {0.35, 12.500466919}, {1, 13.299148560}, {5.5, 14.191650391},
      {10, 7},  {12, 7}};
  for (const auto& [time, speed] : expected) EXPECT_NEAR(interpolate_plan(outputs, kVelocity, time), speed, 1e-8);
}

TEST(Action, FollowsThePlan) {
  const ModelOutputs outputs = planned();
  const Action before{.curvature = 0.5F, .acceleration = -0.5F};
  const auto expect = [&](const ActionTimes& times, double v_ego, double curvature, double acceleration) {
    const Action action = action_of(outputs, before, times, v_ego);
    EXPECT_NEAR(action.curvature, curvature, 1e-7 * std::abs(curvature) + 1e-10);
    EXPECT_NEAR(action.acceleration, acceleration, 1e-7);
    EXPECT_FALSE(action.should_stop);
  };
  expect({0.25, 0.5}, 15, 0.00206793622, -0.18561736);
  expect({0.4, 0.15}, 0.6, 0.0322760617, -0.163953893);  // slower than 1 m/s counts as 1 m/s
  expect({0.05, 1.2}, 33, 0.000892918401, -0.228466425);
}

TEST(Action, HoldsTheCurvatureWhereTheCarStands) {
  const ModelOutputs outputs = planned();
  EXPECT_EQ(action_of(outputs, {.curvature = 0.02F}, {}, 0.3).curvature, 0.02F);
  EXPECT_NE(action_of(outputs, {.curvature = 0.02F}, {}, 0.31).curvature, 0.02F);
}

TEST(Action, StopsWhereThePlanStandsNowAndASecondLater) {
  EXPECT_TRUE(action_of(at_speed(0.04, 0.04), {}, {}, 0).should_stop);
  EXPECT_FALSE(action_of(at_speed(0.04, 0.06), {}, {}, 0).should_stop);
  EXPECT_FALSE(action_of(at_speed(0.06, 0.04), {}, {}, 0).should_stop);
  EXPECT_FALSE(action_of(at_speed(0.05, 0.05), {}, {}, 0).should_stop);
}

// The networks' own heads take precedence over the plan.
TEST(Action, HeadsGoBeforeThePlan) {
  ModelOutputs outputs = planned();
  outputs.action = {{4.5F, 2.0F}};
  const Action action = action_of(outputs, {.acceleration = 2.0F}, {}, 15);
  EXPECT_NEAR(action.curvature, 4.5 / 225, 1e-9);
  EXPECT_NEAR(action.acceleration, 2.0, 1e-7);
  EXPECT_NEAR(action_of(outputs, {}, {}, 0.5).curvature, 4.5, 1e-6);
  outputs = planned();
  outputs.desired_curvature = -0.125F;
  EXPECT_EQ(action_of(outputs, {}, {}, 15).curvature, -0.125F);
}

// Since 0.10 the curvature is held when the car stands; 0.9.7 (the only one with sim_pose) passed its head on at any
// speed.
TEST(Action, AHeadsCurvatureIsHeldWhereTheCarStands) {
  ModelOutputs outputs = planned();
  outputs.desired_curvature = -0.125F;
  EXPECT_EQ(action_of(outputs, {.curvature = 0.02F}, {}, 0.3).curvature, 0.02F);
  outputs.sim_pose.emplace();
  EXPECT_EQ(action_of(outputs, {.curvature = 0.02F}, {}, 0.3).curvature, -0.125F);
}

TEST(Action, WithAHeadItStopsWhereTheCarIsSlowAndHardlyAskedToGo) {
  ModelOutputs outputs = at_speed(0.04, 0.04);
  outputs.action = {{0.0F, 0.09F}};
  EXPECT_TRUE(action_of(outputs, {}, {}, 0.29).should_stop);
  EXPECT_FALSE(action_of(outputs, {}, {}, 0.3).should_stop);
  outputs.action = {{0.0F, 0.11F}};
  EXPECT_FALSE(action_of(outputs, {}, {}, 0).should_stop);
}

TEST(Action, SettlesOnAConstantPlanWithin300Milliseconds) {
  ModelOutputs outputs;
  outputs.action = {{0.0F, 1.0F}};
  Action action;
  for (int frame = 0; frame < 6; ++frame) action = action_of(outputs, action, {}, 10);
  EXPECT_NEAR(action.acceleration, 1 - std::exp(-1.0), 1e-6);
}

}  // namespace
}  // namespace sparkpilot::drive
