#include "sim/world.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "sim/alone-inl.h"
#include "sim/test_worlds.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

// Every figure against plain sums over a made-up drive.
TEST(World, FiguresAreThoseOfTheirDefinitions) {
  constexpr int kSteps = 5000, kWarmUp = 100;
  Metrics<float> x{};
  x.alive = 1;
  Road<float> road{};
  double error = 0, error_max = 0, jerk = 0, saturated = 0, offset = 0, speed = 0, last = 0;
  Random random(3);
  for (int i = 0; i < kSteps; ++i) {
    Motion<float> m{};
    m.speed = static_cast<float>(random.uniform(5, 30));
    m.offset = static_cast<float>(random.uniform(-2, 2));
    road.curvature = static_cast<float>(random.uniform(-0.01, 0.01));
    const auto yaw_rate = static_cast<float>(random.uniform(-0.2, 0.2)),
               target = static_cast<float>(random.uniform(5, 30));
    const bool at_limit = i % 7 == 0;
    measure(static_cast<float>(i), i >= kWarmUp, at_limit, road, yaw_rate, target, m, 0.0f, x);
    const double v = m.speed, a = yaw_rate * v;
    if (i >= kWarmUp) {
      error += std::pow(a - road.curvature * v * v, 2);
      error_max = std::max(error_max, std::fabs(a - road.curvature * v * v));
      jerk += std::pow((a - last) / kStep, 2);
      saturated += at_limit;
      offset = std::max(offset, std::fabs(static_cast<double>(m.offset)));
      speed += std::pow(target - v, 2);
    }
    last = a;
  }
  EXPECT_EQ(x.steps, kSteps - kWarmUp);
  EXPECT_NEAR(static_cast<double>(x.error) / error, 1, 1e-6);  // what compensated sums are for
  EXPECT_NEAR(static_cast<double>(x.jerk) / jerk, 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(x.speed) / speed, 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(x.error_max) / error_max, 1, 1e-6);
  EXPECT_EQ(x.saturated, saturated);
  EXPECT_NEAR(x.offset_max, offset, 1e-6);
}

// With the wheel where steady_turn() has it a car stays in its turn.
TEST(World, ASteadyTurnIsSteady) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const auto car = car_constants(vehicle_presets()[static_cast<size_t>(i) % vehicle_presets().size()].vehicle);
    const double speed = i % 10 == 0 ? 0 : random.uniform(0, 35), u = std::max(speed, car.low_speed);
    const Road<double> road{random.uniform(-3, 3) / std::max(u * u, 20.0), random.uniform(-0.05, 0.05), 0,
                            random.uniform(-0.5, 0.5), 0.9};
    for (const Tyres tyres : kTyres) {
      const auto turn = steady_turn(tyres, car, road.curvature, speed, road);
      ASSERT_TRUE(turn) << i << " " << kTyresNames[static_cast<int>(tyres)] << " at " << speed << " m/s, curvature "
                        << road.curvature << ", roll " << road.roll << ", wind " << road.side;
      Motion<double> m{};
      m.speed = speed, m.lateral = turn->lateral, m.yaw_rate = turn->yaw_rate;
      m.heading = -std::atan(turn->lateral / u);
      for (int step = 0; step < 300; ++step) move(AnyTyres{tyres}, car, turn->wheel, speed, road, m);
      EXPECT_NEAR(m.yaw_rate, road.curvature * u, 1e-8) << i;
      EXPECT_NEAR(m.lateral, turn->lateral, 1e-8) << i;
      // The middle of the car goes along the bend a little faster than `speed`, which is along the car.
      EXPECT_NEAR(m.heading, -std::atan(turn->lateral / u), 0.05) << i;
      EXPECT_NEAR(m.offset, 0, 0.3) << i;
    }
  }
}

TEST(World, ASteadyTurnIsNoneWhereTyresDoNotHold) {
  const auto car = car_constants(Vehicle());
  const Road<double> dry{.curvature = 0.03, .grip = 1}, ice{.curvature = 0.004, .grip = 0.15};
  EXPECT_FALSE(steady_turn(Tyres::saturating, car, dry.curvature, 25, dry));
  EXPECT_TRUE(steady_turn(Tyres::saturating, car, 0.011, 25, dry));
  EXPECT_FALSE(steady_turn(Tyres::saturating, car, ice.curvature, 25, ice));
  EXPECT_TRUE(steady_turn(Tyres::saturating, car, 0.3, 2, dry));  // beyond the wheel of linear tyres
}

struct Quiet {
  double error = 0, offset = 0;  // m/s^2 and m: the greatest
};
// A course as formulas have it, and the same in a table.
template <class Control>
Quiet beginning_of(const Course& course, Tyres tyres, bool by_table) {
  WorldSpec spec;
  spec.course = course;
  if (by_table) {
    const double k = course.curvature, v = course.speed, roll = course.roll;
    spec.course = {.speed = v, .lane_keeping = course.lane_keeping, .grip = course.grip};
    spec.course.table = std::make_shared<const CourseTable>(CourseTable{{0, 60}, {k, k}, {v, v}, {roll, roll}});
  }
  Quiet out;
  const auto see = [&](int, const auto& k, const auto& s) {
    const double yaw_rate = s.motion.yaw_rate * motion_scale(k.car, s.motion.speed);
    out.error = std::max(out.error, std::fabs(yaw_rate - course.curvature * course.speed) * course.speed);
  };
  out.offset = run_world<double, Control>(spec, {}, 300, tyres, see).offset_max;
  return out;
}

// The controllers have nothing to mend at first.
template <class Control>
void expect_quiet_beginning(const char* control) {
  for (const double roll : {0.0, 0.03}) {
    for (const double curvature : {0.0, 0.0025, -0.0025}) {
      if (roll == 0 && curvature == 0) continue;
      for (const Tyres tyres : {Tyres::linear, Tyres::saturating}) {  // those that controllers reckon with
        for (const bool by_table : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} roll {} curvature {} table {}", control, kTyresNames[static_cast<int>(tyres)],
                                   roll, curvature, by_table));
          const Quiet quiet = beginning_of<Control>(
              {.curvature = curvature, .speed = 18, .lane_keeping = 0, .roll = roll}, tyres, by_table);
          EXPECT_LT(quiet.error, 0.12);  // m/s^2, of 0.81
          EXPECT_LT(quiet.offset, 0.15);
        }
      }
    }
  }
}
TEST(World, BeginsInEquilibrium) {
  expect_quiet_beginning<LateralPid>("pid");
  expect_quiet_beginning<LateralTorque>("torque");
  expect_quiet_beginning<LateralAngle>("angle");
  expect_quiet_beginning<LateralMppi>("mppi");
}

TEST(World, BeginsInEquilibriumInWindAndOnIce) {
  Course course{.curvature = 0.002, .speed = 18, .lane_keeping = 0};
  course.side = 0.5, course.side_for = 60;
  EXPECT_LT(beginning_of<LateralAngle>(course, Tyres::linear, false).error, 0.5);  // the controller does not know of it
  course.side_at = 1, course.side_for = 1;
  course.ice_grip = 0.15, course.ice_for = 60;
  course.curvature = 0.001;
  EXPECT_LT(beginning_of<LateralAngle>(course, Tyres::saturating, false).error, 0.6);
}

// The planner knows how a car slips in a bend, so that none of it is left beside the middle of the lane.
TEST(World, KeepsToTheMiddleInALongBend) {
  for (const Tyres tyres : {Tyres::none, Tyres::linear, Tyres::saturating}) {
    for (const double speed : {4.0, 15.0, 30.0}) {
      for (const double roll : {0.0, 0.05}) {
        SCOPED_TRACE(fmt::format("{} {} m/s roll {}", kTyresNames[static_cast<int>(tyres)], speed, roll));
        WorldSpec spec;
        const double curvature = std::min(1.8 / (speed * speed), 0.02);
        spec.course = {.curvature = curvature, .speed = speed, .lane_keeping = 0.8, .roll = roll};
        const auto blind = [](int, const auto&, const auto&) {};
        const WorldResult result = run_world<double, LateralAngle>(spec, {}, 3000, tyres, blind);
        // Near the limit of grip tyres give way by more than in proportion.
        EXPECT_LT(result.offset_max, tyres == Tyres::saturating ? 0.2 : 0.05);
      }
    }
  }
}

// What was asked for is within controlsd's limits, and the torque within the car's.
TEST(World, BeginsWithinTheLimits) {
  WorldSpec spec;
  spec.course = {.curvature = 0.008, .speed = 25};
  const auto k = prepare<LateralTorque>(spec, Tyres::linear).course;
  EXPECT_NEAR(k.start_desired * 25 * 25, -kMaxLateralAcceleration, 1e-9);
  EXPECT_NEAR(k.start_acceleration, 5, 1e-9);
  EXPECT_EQ(k.start_command, 1);
  // A standing car, and one whose wheel stays where it is because torque stands against the roll.
  spec.course = {.curvature = 0.01, .speed = 0};
  EXPECT_EQ(prepare<LateralTorque>(spec, Tyres::saturating).course.start_acceleration, 0);
  spec.course = {.speed = 20, .roll = 0.1};
  const auto rolled = prepare<LateralTorque>(spec, Tyres::none).course;
  EXPECT_EQ(rolled.start_wheel, 0);
  EXPECT_NEAR(rolled.start_command, 0.1 * kGravity / spec.steering.accel_factor, 1e-9);
}

}  // namespace
}  // namespace sparkpilot::sim
