#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "hwy/highway.h"
#include "hwy/targets.h"
#include "sim/run_summary.h"
#include "sim/scenario_run.h"
#include "sim/test_worlds.h"
#include "sim/trace.h"

namespace sparkpilot::sim {
namespace {

WorldSpec varied_by_mpc(int64_t i) {
  WorldSpec w = varied(i);
  w.following.planner = Planner::mpc;
  w.mpc.t_follow = 1.25 + 0.1 * static_cast<double>(i % 5);
  return w;
}

TEST(MpcPlanner, LanesAreSingleFloats) {
  for (const Lateral lateral : kControls) {
    BatchOptions o{.lateral = lateral, .tyres = Tyres::linear, .steps = 300, .warm_up = 20, .number = Number::single};
    const auto single = run_worlds(37, varied_by_mpc, o);
    o.number = Number::lanes;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      const auto lanes = run_worlds(37, varied_by_mpc, o);
      for (size_t i = 0; i < lanes.size(); ++i)
        EXPECT_EQ(lanes[i], single[i]) << hwy::TargetName(target) << " world " << i;
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// In one block with worlds of other planners, and on any number of threads.
TEST(MpcPlanner, ChangesNothingOfItsNeighbours) {
  const auto mixed = [](int64_t i) { return i % 2 ? varied(i) : varied_by_mpc(i); };
  const BatchOptions o{.steps = 300};
  const auto idm = run_worlds(200, varied, o), mpc = run_worlds(200, varied_by_mpc, o),
             both = run_worlds(200, mixed, o);
  int different = 0;
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_EQ(both[i], i % 2 ? idm[i] : mpc[i]) << i;
    different += idm[i] != mpc[i];
  }
  EXPECT_GT(different, 190);
  const ThreadScope one(1);
  EXPECT_EQ(run_worlds(200, mixed, o), both);
}

TEST(MpcPlanner, IsNearTheReference) {
  BatchOptions o{.steps = 600};
  const auto lanes = run_worlds(64, varied_by_mpc, o);
  o.number = Number::reference;
  const auto reference = run_worlds(64, varied_by_mpc, o);
  for (size_t i = 0; i < lanes.size(); ++i) {
    EXPECT_FALSE(lanes[i].diverged) << i;
    EXPECT_NEAR(lanes[i].distance, reference[i].distance, 0.2) << i;
    EXPECT_NEAR(lanes[i].speed, reference[i].speed, 0.05) << i;
  }
}

WorldResult drive(const WorldSpec& world, int steps, int warm_up = 0) {
  return run_worlds(1, [&](int64_t) { return world; }, {.steps = steps, .warm_up = warm_up})[0];
}

TEST(MpcPlanner, StopsBehindALeadThatBrakes) {
  WorldSpec w;
  w.following.planner = Planner::mpc;
  w.course.speed = 20;
  w.lead = {.there = true, .gap = 35, .speed = 20, .change = -20, .change_at = 5, .change_ramp = 9};
  const WorldResult r = drive(w, 4000);
  EXPECT_FALSE(r.collided);
  EXPECT_EQ(r.speed, 0);
  EXPECT_GT(*r.gap_min, 3);
  EXPECT_LT(*r.gap_min, 9);
  EXPECT_LT(r.deceleration_max, 3.6);
  // And drives off with it again.
  w.lead.change2 = 10, w.lead.change2_at = 25, w.lead.change2_ramp = 8;
  EXPECT_GT(drive(w, 6000).speed, 9);
}

TEST(MpcPlanner, FollowsWithItsTimeGap) {
  WorldSpec w;
  w.following.planner = Planner::mpc;
  w.course.speed = 25;
  w.lead = {.there = true, .gap = 60, .speed = 18};
  const auto follows = [&](double t_follow, double within) {
    w.mpc.t_follow = t_follow;
    const WorldResult r = drive(w, 8000, 7000);
    EXPECT_NEAR(r.speed, 18, 0.05);
    EXPECT_NEAR(*r.gap_min, 6 + t_follow * 18, within) << t_follow;
  };
  for (const double t_follow : {1.25, 1.45, 1.75}) follows(t_follow, 0.5);
  // A car that does not make up for drag and rolling resistance needs a controller that does.
  w.powertrain.compensated = 0;
  w.longitudinal.ki[0] = w.longitudinal.ki[1] = w.longitudinal.ki[2] = 0.3;
  follows(1.45, 1);
}

TEST(MpcPlanner, DrivesTheSpeedThatIsSet) {
  WorldSpec w;
  w.following.planner = Planner::mpc;
  w.course.speed = 15;
  w.course.speed_change = 10;
  w.course.change_at = 2;
  EXPECT_NEAR(drive(w, 6000).speed, 25, 0.1);
  w.course.speed_change = -15;
  w.course.change_ramp = 10;
  EXPECT_EQ(drive(w, 6000).speed, 0);
}

// openpilot's limit_accel_in_turns: up to 20 m/s 1.7 m/s^2 along and across together.
TEST(MpcPlanner, AcceleratesLessInTurns) {
  WorldSpec w;
  w.following.planner = Planner::mpc;
  w.course.speed = 12;
  w.course.speed_change = 8;
  w.course.change_at = 6;
  const auto gained = [&](double across) {
    w.course.curvature = across / (12 * 12);
    return drive(w, 900).speed - drive(w, 600).speed;  // in the 3 s from change_at on
  };
  const double straight = gained(0), gentle = gained(0.5), tight = gained(2.2);
  EXPECT_GT(straight, 1);
  EXPECT_NEAR(gentle, straight, 0.05);
  EXPECT_LT(tight, 0.9 * straight);
}

// What is known of a car that cuts in is its distance and speed; how it brakes is learnt.
TEST(MpcPlanner, BrakesForACarThatCutsIn) {
  WorldSpec w;
  w.following.planner = Planner::mpc;
  w.course.speed = 27;
  w.lead = {.there = true, .gap = 25, .speed = 24, .from = 6};
  const WorldResult r = drive(w, 3000);
  EXPECT_FALSE(r.collided);
  EXPECT_GT(*r.gap_min, 10);
  EXPECT_NEAR(r.speed, 24, 1.5);
}

// The bounds were drawn around the IDM: comfort in a few worlds lies beyond them, safety in none.
TEST(MpcPlanner, PassesTheScenariosOfCarsAhead) {
  const std::vector<std::string> names{"cut_in_far",  "cut_in_near",    "cut_in_braking",
                                       "stop_and_go", "emergency_stop", "merge_behind"};
  const ScenarioRun run({.scenarios = select_scenarios(names), .variants = 40, .seed = 11, .planner = "mpc"});
  const auto column = [&](const char* name) {
    return static_cast<size_t>(std::ranges::find(run.info().metrics, name) - run.info().metrics.begin());
  };
  std::map<std::string, int> passed;
  for (const ResultRow& row : run.run(0, run.rows())) {
    passed[row.scenario] += row.passed;
    EXPECT_EQ(row.values[column("collisions")], 0) << row.scenario << " " << row.variant;
    EXPECT_GT(row.values[column("gap_min")].value_or(100), 2) << row.scenario << " " << row.variant;
  }
  for (const auto& [scenario, count] : passed) EXPECT_GE(count, 35) << scenario;
}

// In whole runs of vectors, in single floats and stepped from outside; other planners have none.
TEST(MpcPlanner, CountsPlansThatAreNotSolvedOrBreakALimit) {
  const auto spec = [](int64_t i) {
    WorldSpec w = varied_by_mpc(i);
    if (i % 3 == 1) {  // limits that cost next to nothing, and a car ahead that stands suddenly
      w.mpc.limit_cost = 1;
      w.course.table = nullptr;
      w.course.speed = 25;
      w.lead = {.there = true, .gap = 30, .speed = 0, .from = 1};
    }
    if (i % 3 == 2) w.following.planner = Planner::idm;
    return w;
  };
  BatchOptions o{.lateral = Lateral::angle, .tyres = Tyres::linear, .steps = 300, .number = Number::single};
  const auto single = run_worlds(24, spec, o);
  o.number = Number::lanes;
  EXPECT_EQ(run_worlds(24, spec, o), single);
  for (size_t i = 0; i < single.size(); ++i) {
    const WorldResult& r = single[i];
    ASSERT_EQ(r.infeasible_plans.has_value(), i % 3 != 2) << i;
    ASSERT_EQ(r.unsolved_plans.has_value(), i % 3 != 2) << i;
    if (i % 3 == 2) continue;
    EXPECT_LE(*r.infeasible_plans, 60) << i;
    EXPECT_LE(*r.unsolved_plans, 60) << i;
    if (i % 3 == 1) {
      EXPECT_GT(*r.infeasible_plans, 5) << i;
    } else {
      EXPECT_EQ(*r.infeasible_plans, 0) << i;
    }
  }
}

// With a price on danger at which emergency stops take more iterations than there are, and braking beyond its limit.
TEST(MpcPlanner, NamesScenariosWithPlansThatAreNotSolved) {
  const std::vector<std::string> names{"emergency_stop_alone", "highway_bends"};
  const ScenarioRun run({.scenarios = select_scenarios(names),
                         .variants = 10,
                         .planner = "mpc",
                         .set = {{"mpc_danger_cost", 1e5}, {"mpc_danger_factor", 1}}});
  const std::vector<ResultRow> rows = run.run(0, run.rows());
  const RunSummary s = summarize_run(rows, run.info().metrics, run.options().scenarios);
  ASSERT_EQ(s.bad_plans.size(), 1U);
  EXPECT_EQ(s.bad_plans[0].scenario, "emergency_stop_alone");
  EXPECT_EQ(s.bad_plans[0].worlds, 10);
  EXPECT_GT(s.bad_plans[0].unsolved, 100);
  EXPECT_GT(s.bad_plans[0].infeasible, 100);
}

TEST(MpcPlanner, RefusesWhatTheSolverCannotDo) {
  WorldSpec w;
  w.mpc.jerk_cost = 0;
  EXPECT_THROW(drive(w, 1), Error);
  w = {};
  w.mpc.min_accel = 1;
  EXPECT_THROW(drive(w, 1), Error);
}

}  // namespace
}  // namespace sparkpilot::sim
