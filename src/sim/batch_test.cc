#include "sim/batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/parallel.h"
#include "base/random.h"
#include "base/test_error.h"
#include "hwy/highway.h"
#include "sim/test_worlds.h"

namespace sparkpilot::sim {
namespace {

// Two results are the same bits where doubles compare equal, as none is NaN.
void expect_finite(const WorldResult& r) {
  for (const double value : {r.tracking_rmse, r.tracking_max, r.jerk_rms, r.saturated, r.offset_max, r.speed_rmse,
                             r.speed, r.offset, r.distance}) {
    EXPECT_TRUE(std::isfinite(value)) << value;
  }
  EXPECT_GE(r.saturated, 0);
  EXPECT_LE(r.saturated, 1);
}

TEST(Batch, IsTheSameForAnyThreadsShardsAndRepetitions) {
  for (const Lateral lateral : kControls) {
    const BatchOptions o{.lateral = lateral, .tyres = Tyres::saturating, .steps = 300, .seed = 5};
    const auto whole = run_worlds(403, varied, o);
    for (const int threads : {1, 2, 5}) {
      const ThreadScope scope(threads);
      EXPECT_EQ(run_worlds(403, varied, o), whole) << threads;
    }
    std::vector<WorldResult> parts;
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, 1}, {1, 130}, {130, 147}, {147, 403}}) {
      const auto part = run_worlds(
          last - first, [first = first](int64_t i) { return varied(first + i); }, o);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(parts, whole);
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(run_worlds(20, varied, o), std::vector<WorldResult>(whole.begin(), whole.begin() + 20));
    BatchOptions other = o;
    other.seed = 6;
    EXPECT_NE(run_worlds(403, varied, other), whole);
  }
}

// A GPU's thread computes what `single` does.
TEST(Batch, LanesAreSingleFloatsOnEveryInstructionSet) {
  for (const Lateral lateral : kControls) {
    for (const Tyres tyres : kTyres) {
      BatchOptions o{.lateral = lateral, .tyres = tyres, .steps = 250, .warm_up = 20, .number = Number::single};
      const auto single = run_worlds(37, varied, o);
      o.number = Number::lanes;
      for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        const auto lanes = run_worlds(37, varied, o);
        for (size_t i = 0; i < lanes.size(); ++i)
          EXPECT_EQ(lanes[i], single[i]) << hwy::TargetName(target) << " world " << i;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Batch, IsNearTheReference) {
  for (const Lateral lateral : kControls) {
    for (const Tyres tyres : kTyres) {
      BatchOptions o{.lateral = lateral, .tyres = tyres, .steps = 600};
      const auto lanes = run_worlds(64, varied, o);
      o.number = Number::reference;
      const auto reference = run_worlds(64, varied, o);
      double worst = 0, sum = 0;
      for (size_t i = 0; i < lanes.size(); ++i) {
        EXPECT_FALSE(lanes[i].diverged) << i;
        expect_finite(lanes[i]);
        const double difference =
            std::fabs(lanes[i].tracking_rmse - reference[i].tracking_rmse) / (reference[i].tracking_rmse + 1e-3);
        worst = std::max(worst, difference);
        sum += difference;
        EXPECT_NEAR(lanes[i].distance, reference[i].distance, 0.02) << i;
      }
      // Friction and the dead zones of control are switches: a rounding may turn one a step later.
      EXPECT_LT(worst, 0.02) << static_cast<int>(lateral) << static_cast<int>(tyres);
      EXPECT_LT(sum / 64, 1e-3) << static_cast<int>(lateral) << static_cast<int>(tyres);
    }
  }
}

TEST(Batch, FollowsTheRoad) {
  const auto spec = [](int64_t i) {
    WorldSpec w;
    w.course.speed = 10 + static_cast<double>(i);
    w.course.turn = 1.0 / (w.course.speed * w.course.speed);  // 1 m/s^2
    w.course.turn_at = 2;
    w.course.turn_ramp = 2;
    return w;
  };
  for (const Lateral lateral : kControls) {
    for (const auto& r :
         run_worlds(20, spec, {.lateral = lateral, .tyres = Tyres::linear, .steps = 2000, .warm_up = 800})) {
      EXPECT_FALSE(r.diverged);
      EXPECT_EQ(r.steps, 1200);
      EXPECT_LT(r.tracking_rmse, 0.15) << static_cast<int>(lateral);
      EXPECT_LT(r.offset_max, 1.5) << static_cast<int>(lateral);
    }
  }
}

// The car ahead: where it is, and the gap that the Intelligent Driver Model keeps to it.
TEST(Batch, FollowsACarAhead) {
  WorldSpec w;
  w.course.speed = 25;
  w.lead = {.there = true, .gap = 60, .speed = 18};
  const auto spec = [&](int64_t) { return w; };
  const WorldResult follows = run_worlds(1, spec, {.steps = 6000, .warm_up = 4000})[0];
  EXPECT_NEAR(follows.speed, 18, 0.1);
  ASSERT_TRUE(follows.gap_min);
  EXPECT_NEAR(*follows.gap_min, 4 + 1.45 * 18, 0.05);  // its equilibrium
  EXPECT_FALSE(follows.collided);
  // A car that makes up for half of drag and rolling resistance has its equilibrium where it asks for the rest.
  w.powertrain.compensated = 0.5;
  const WorldResult resisted = run_worlds(1, spec, {.steps = 6000, .warm_up = 4000})[0];
  const double taken = 0.5 * (0.12 + 0.00027 * 18 * 18);
  EXPECT_NEAR(*resisted.gap_min, (4 + 1.45 * 18) / std::sqrt(1 - taken / 1.4), 0.05);
  w.powertrain.compensated = 1;

  w.following.planner = Planner::cruise;
  const WorldResult runs_into = run_worlds(1, spec, {.steps = 3000})[0];
  EXPECT_TRUE(runs_into.collided);
  // It closes in with 7 m/s, 0.35 m a step of the planner, and what comes behind the collision counts no more.
  EXPECT_LE(*runs_into.gap_min, 0);
  EXPECT_GT(*runs_into.gap_min, -0.5);
  EXPECT_EQ(runs_into.time_to_collision_min, 0);

  w.following.planner = Planner::idm;
  w.lead.from = 100;
  const WorldResult alone = run_worlds(1, spec, {.steps = 3000})[0];
  EXPECT_FALSE(alone.gap_min);
  EXPECT_FALSE(alone.time_to_collision_min);
  w.lead = {};
  WorldResult none = run_worlds(1, spec, {.steps = 3000})[0];
  EXPECT_EQ(none, alone);
}

// What floats lose of a step of 0.3 m behind 36 km adds up neither in the distance nor in the gap.
TEST(Batch, DrivesFarToTheCentimetre) {
  WorldSpec w;
  w.following.planner = Planner::cruise;
  w.course.speed = 30;
  for (const double lead : {30.0, 29.997}) {
    w.lead = {.there = true, .gap = 50, .speed = lead};
    const WorldResult r = run_worlds(1, [&](int64_t) { return w; }, {.steps = 120001})[0];
    EXPECT_NEAR(r.distance, 36000.3, 0.01);
    EXPECT_NEAR(*r.gap_min, 50 - (30 - lead) * 1200, 0.01);
  }
}

// The gap beyond the safe one of responsibility-sensitive safety, where both cars keep their speeds.
TEST(Batch, MeasuresTheSafetyMargin) {
  const auto drive = [](double speed, double lead, int steps) {
    WorldSpec w;
    w.following.planner = Planner::cruise;
    w.course.speed = speed;
    w.lead = {.there = true, .gap = 60, .speed = lead};
    return run_worlds(1, [&](int64_t) { return w; }, {.steps = steps})[0];
  };
  // With 1 s of response, in which it gains 3.5 m/s, 4 and 8 m/s^2: 25 + 1.75 + 28.5^2 / 8 - 18^2 / 16.
  const WorldResult closes = drive(25, 18, 500);
  EXPECT_NEAR(*closes.safety_margin_min, *closes.gap_min - 108.03125, 1e-3);
  // Behind a car that is so much faster none is needed.
  const WorldResult falls_back = drive(10, 30, 500);
  EXPECT_NEAR(*falls_back.safety_margin_min, 60, 1e-3);
  // In the ordinary following of 20 m/s with 1.45 s it is short of what the worst case asks for.
  EXPECT_NEAR(*drive(20, 20, 5).safety_margin_min, 60 - (20 + 1.75 + 23.5 * 23.5 / 8 - 25), 1e-3);
  WorldSpec alone;
  EXPECT_FALSE(run_worlds(1, [&](int64_t) { return alone; }, {.steps = 500})[0].safety_margin_min);
}

// The gap per closing speed, however small the gap is.
TEST(Batch, MeasuresTheTimeToACollision) {
  WorldSpec w;
  w.following.planner = Planner::cruise;
  w.course.speed = 20;
  w.lead = {.there = true, .gap = 3, .speed = 19.9};
  const auto after = [&](int steps) { return run_worlds(1, [&](int64_t) { return w; }, {.steps = steps})[0]; };
  const WorldResult near = after(2951);  // 5 cm from it
  EXPECT_FALSE(near.collided);
  EXPECT_NEAR(*near.time_to_collision_min, 0.5, 0.01);
  const WorldResult hit = after(3100);
  EXPECT_TRUE(hit.collided);
  EXPECT_EQ(hit.time_to_collision_min, 0);
}

TEST(Batch, BrakesAsHardAsItIsSaidTo) {
  WorldSpec w;
  w.course.speed = 20;
  w.course.speed_change = -20;
  w.course.change_at = 1;
  w.course.change_ramp = 0.1;
  w.course.brake = 2;
  const WorldResult r = run_worlds(1, [&](int64_t) { return w; }, {.steps = 900})[0];
  EXPECT_NEAR(r.deceleration_max, 2, 0.02);
  EXPECT_GT(r.longitudinal_jerk_rms, 0.1);
  // And rolling resistance, and drag when the brakes have come: at about 18 m/s.
  w.powertrain.compensated = 0;
  const WorldResult resisted = run_worlds(1, [&](int64_t) { return w; }, {.steps = 900})[0];
  EXPECT_NEAR(resisted.deceleration_max, 2 + 0.12 + 0.00027 * 18 * 18, 0.02);
}

// Nothing happens to a car on a straight road that drives the speed that it is set to: figures are of the course, not
// of the start.
TEST(Batch, BeginsInEquilibrium) {
  for (const Planner planner : {Planner::cruise, Planner::idm, Planner::mpc}) {
    WorldSpec w;
    w.following.planner = planner;
    w.course.speed = 25;
    const WorldResult r = run_worlds(1, [&](int64_t) { return w; }, {.steps = 1000})[0];
    EXPECT_LT(r.longitudinal_jerk_rms, 1e-3) << static_cast<int>(planner);
    EXPECT_LT(r.deceleration_max, 1e-3) << static_cast<int>(planner);
    EXPECT_FALSE(std::signbit(r.deceleration_max)) << static_cast<int>(planner);
    EXPECT_LT(r.speed_rmse, 1e-3) << static_cast<int>(planner);
    EXPECT_LT(r.jerk_rms, 1e-3) << static_cast<int>(planner);
  }
}

// Neighbours with cars ahead, rich courses, tables and noise change nothing of a world without any.
TEST(Batch, APlainWorldIsTheSameAmongOthers) {
  const auto plain = [](int64_t i) {
    WorldSpec w = varied(i);
    w.course.wave_at = 0, w.course.wave_for = kForever, w.course.turn2 = 0, w.course.roll_change = 0;
    w.course.table = nullptr;
    w.lead = {};
    w.noise = {};
    return w;
  };
  for (const Lateral lateral : kControls) {
    const BatchOptions o{.lateral = lateral, .tyres = Tyres::saturating, .steps = 600};
    const auto alone = run_worlds(64, plain, o);
    const auto among = run_worlds(
        64, [&](int64_t i) { return i % 2 ? plain(i) : varied(i); }, o);
    for (size_t i = 1; i < 64; i += 2) EXPECT_EQ(alone[i], among[i]) << i;
  }
}

// A formula as a table is the same road but for what is between its rows.
TEST(Batch, DrivesATableAsTheFormulaThatItHolds) {
  WorldSpec formula;
  formula.course.speed = 20;
  formula.course.turn = 0.002;
  formula.course.turn_at = 2;
  formula.course.turn_ramp = 3;
  formula.course.roll = 0.02;
  WorldSpec tabled = formula;
  CourseTable table;
  for (int i = 0; i <= 2000; ++i) {
    const double t = 0.01 * i, x = std::clamp((t - 2) / 3, 0.0, 1.0);
    table.time.push_back(t);
    table.curvature.push_back(0.002 * x * x * (3 - 2 * x));
    table.speed.push_back(20);
    table.roll.push_back(0.02);
  }
  tabled.course = {.speed = 20};
  tabled.course.table = std::make_shared<const CourseTable>(table);
  const auto results = run_worlds(2, [&](int64_t i) { return i == 0 ? formula : tabled; }, {.steps = 1500});
  EXPECT_NEAR(results[0].tracking_rmse, results[1].tracking_rmse, 1e-3);
  EXPECT_NEAR(results[0].offset_max, results[1].offset_max, 0.01);
  EXPECT_NEAR(results[0].distance, results[1].distance, 0.01);
  EXPECT_GT(results[0].tracking_rmse, 0.01);
}

// Behind the same car, once by formulas and once by a table.
TEST(Batch, FollowsATablesCarAsTheFormulasCar) {
  WorldSpec formula;
  formula.course.speed = 20;
  formula.lead = {.there = true, .gap = 45, .speed = 18, .change = -8, .change_at = 6, .change_ramp = 4, .from = 2};
  WorldSpec tabled = formula;
  tabled.lead = {};
  CourseTable table;
  for (int i = 0; i <= 800; ++i) {
    const double t = 0.05 * i, x = std::clamp((t - 6) / 4, 0.0, 1.0);
    table.time.push_back(t);
    table.curvature.push_back(0);
    table.speed.push_back(20);
    table.roll.push_back(0);
    table.lead_speed.push_back(i < 40 ? std::nullopt : std::optional(18 - 8 * x * x * (3 - 2 * x)));
    table.lead_gap.push_back(i == 40 ? std::optional(45.0) : std::nullopt);
  }
  tabled.course.table = std::make_shared<const CourseTable>(table);
  for (const Planner planner : {Planner::idm, Planner::mpc}) {
    formula.following.planner = tabled.following.planner = planner;
    const auto r = run_worlds(2, [&](int64_t i) { return i == 0 ? formula : tabled; }, {.steps = 3000});
    ASSERT_TRUE(r[0].gap_min && r[1].gap_min);
    EXPECT_LT(*r[0].gap_min, 44);
    EXPECT_NEAR(*r[1].gap_min, *r[0].gap_min, 1e-3);
    EXPECT_NEAR(r[1].distance, r[0].distance, 1e-2);
    EXPECT_NEAR(r[1].deceleration_max, r[0].deceleration_max, 1e-3);
  }
}

// A car that comes in another one's place is not that one at another speed.
TEST(Batch, AnotherCarOfATableIsSeenAnew) {
  const auto world = [](bool first_car, Planner planner) {
    WorldSpec w;
    w.course.speed = 20;
    CourseTable table{{0, 5, 100}, {0, 0, 0}, {20, 20, 20}, {0, 0, 0}};
    table.lead_speed = {first_car ? std::optional(30.0) : std::nullopt, 16, 16};
    table.lead_gap = {first_car ? std::optional(400.0) : std::nullopt, 40, std::nullopt};
    w.course.table = std::make_shared<const CourseTable>(table);
    w.following.planner = planner;
    return w;
  };
  for (const Planner planner : {Planner::idm, Planner::mpc}) {
    const auto r = run_worlds(2, [&](int64_t i) { return world(i == 1, planner); }, {.steps = 2000});
    EXPECT_GT(r[0].deceleration_max, 0.3);
    EXPECT_NEAR(r[1].deceleration_max, r[0].deceleration_max, 0.05);
    EXPECT_NEAR(*r[1].gap_min, *r[0].gap_min, 0.5);
  }
}

TEST(Batch, StopsAndStandsStill) {
  WorldSpec w;
  w.course.speed = 15;
  w.course.speed_change = -15;
  w.course.change_at = 1;
  w.course.brake = 3;
  const auto r = run_worlds(1, [&](int64_t) { return w; }, {.steps = 3000})[0];
  EXPECT_EQ(r.speed, 0);
  EXPECT_GT(r.distance, 30);
  EXPECT_LT(r.distance, 200);
}

TEST(Batch, FlagsDivergenceAndReportsNoNaN) {
  const auto spec = [](int64_t i) {
    WorldSpec w = varied(i);
    if (i % 3 == 0) w.lateral.pid_kp[0] = w.lateral.pid_kp[1] = 1e6 * (i % 2 ? 1 : -1);
    if (i % 3 == 1) w.longitudinal = {.kp = {1e6, 1e6, 1e6}, .kf = 1e6, .min_accel = -1e6, .max_accel = 1e6};
    if (i % 3 == 2) w.steering.accel_factor = 100, w.steering.torque_rate = 1e4, w.lateral.pid_kp[1] = -1e5;
    return w;
  };
  int diverged = 0;
  for (const Tyres tyres : kTyres) {
    const auto results = run_worlds(60, spec, {.lateral = Lateral::pid, .tyres = tyres, .steps = 2000});
    const auto alone =
        run_worlds(1, [&](int64_t) { return spec(2); }, {.lateral = Lateral::pid, .tyres = tyres, .steps = 2000});
    EXPECT_EQ(alone[0], results[2]) << "a world that diverges disturbs its neighbours";
    for (const WorldResult& r : results) {
      expect_finite(r);
      diverged += r.diverged.has_value();
      EXPECT_EQ(r.steps, r.diverged.value_or(2000));
    }
  }
  EXPECT_GT(diverged, 20);
}

TEST(Batch, RefusesWhatCannotBeSimulated) {
  const auto refused = [](const auto& change, const char* says) {
    WorldSpec w;
    change(w);
    return error_of([&] { run_worlds(3, [&](int64_t) { return w; }, {.steps = 1}); }).find(says) != std::string::npos;
  };
  EXPECT_TRUE(refused([](WorldSpec& w) { w.course.speed = std::numeric_limits<double>::quiet_NaN(); }, "course.speed"));
  EXPECT_TRUE(refused([](WorldSpec& w) { w.steering.delay = 0.64; }, "steering.delay"));
  EXPECT_TRUE(refused([](WorldSpec& w) { w.course.turn_ramp = 0; }, "turn_ramp"));
  EXPECT_TRUE(refused([](WorldSpec& w) { w.lead.gap = -1; }, "lead.gap"));
  EXPECT_TRUE(refused([](WorldSpec& w) { w.following.brake = 0; }, "follow_brake"));
  const auto with_table = [&](const CourseTable& table, const char* says) {
    return refused([&](WorldSpec& w) { w.course.table = std::make_shared<const CourseTable>(table); }, says);
  };
  EXPECT_TRUE(with_table({}, "0 times"));
  EXPECT_TRUE(with_table({{0, 1}, {0}, {1, 1}, {0, 0}}, "1 curvatures"));
  EXPECT_TRUE(with_table({{0, 0}, {0, 0}, {1, 1}, {0, 0}}, "a time of the course's table"));
  const auto with_leads = [&](std::vector<std::optional<double>> speed, std::vector<std::optional<double>> gap) {
    WorldSpec w;
    CourseTable table{{0, 1}, {0, 0}, {1, 1}, {0, 0}};
    table.lead_speed = std::move(speed), table.lead_gap = std::move(gap);
    w.course.table = std::make_shared<const CourseTable>(table);
    return error_of([&] { check_world(w); });
  };
  EXPECT_EQ(with_leads({5, 5}, {30, {}}), "");
  EXPECT_EQ(with_leads({5}, {30}),
            "sim: a course of 2 times, 1 speeds of cars ahead and 1 gaps to them, expected as many of each, or none");
  EXPECT_EQ(with_leads({5, 5}, {{}, 30}), "sim: row 0 of the course's table has a car ahead that comes without a gap");
  EXPECT_EQ(with_leads({5, {}}, {30, 30}), "sim: row 1 of the course's table has a gap to a car ahead without a speed");
  EXPECT_NE(with_leads({-5, 5}, {30, {}}).find("a speed of a car ahead"), std::string::npos);
  EXPECT_NE(with_leads({5, 5}, {0, {}}).find("a gap to a car ahead"), std::string::npos);
  EXPECT_TRUE(refused(
      [](WorldSpec& w) {
        w.lead.there = true;
        w.course.table = std::make_shared<const CourseTable>(CourseTable{{0}, {0}, {9}, {0}, {5}, {30}});
      },
      "expected one of them"));
  EXPECT_TRUE(
      refused([](WorldSpec& w) { w.lateral.torque_ki = std::numeric_limits<double>::infinity(); }, "ki is inf"));
  EXPECT_TRUE(refused([](WorldSpec& w) { w.number = uint64_t{1} << 46; }, "number"));
  EXPECT_NE(error_of([] { run_worlds(1, varied, {.steps = -1}); }), "");
  EXPECT_TRUE(run_worlds(0, varied, {}).empty());
}

}  // namespace
}  // namespace sparkpilot::sim
