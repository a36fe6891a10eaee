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

// With the wheel where steady_turn() has it a car stays in its turn, until its tyres do not hold it there.
TEST(World, ASteadyTurnIsSteady) {
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    const auto car = car_constants(vehicle_presets()[static_cast<size_t>(i) % vehicle_presets().size()].vehicle);
    const double speed = random.uniform(0, 35), u = std::max(speed, car.low_speed);
    const Road<double> road{random.uniform(-3, 3) / std::max(u * u, 60.0), random.uniform(-0.05, 0.05), 0,
                            random.uniform(-0.5, 0.5), 0.9};
    for (const Tyres tyres : kTyres) {
      const SteadyTurn turn = steady_turn(tyres, car, road.curvature, speed, road);
      ASSERT_NE(turn.wheel, 0) << i << " " << kTyresNames[static_cast<int>(tyres)] << " at " << speed
                               << " m/s, curvature " << road.curvature << ", roll " << road.roll << ", wind "
                               << road.side;
      Motion<double> m{};
      m.speed = speed, m.lateral = turn.lateral, m.yaw_rate = turn.yaw_rate;
      m.heading = -std::atan(turn.lateral / u);
      for (int step = 0; step < 300; ++step) move(AnyTyres{tyres}, car, turn.wheel, speed, road, m);
      EXPECT_NEAR(m.yaw_rate, road.curvature * u, 1e-8) << i;
      EXPECT_NEAR(m.lateral, turn.lateral, 1e-8) << i;
      // The middle of the car goes along the bend a little faster than `speed`, which is along the car.
      EXPECT_NEAR(m.heading, -std::atan(turn.lateral / u), 0.01) << i;
      EXPECT_NEAR(m.offset, 0, 0.05) << i;
    }
  }
  const auto car = car_constants(Vehicle());
  const Road<double> dry{0.03, 0, 0, 0, 1};
  EXPECT_EQ(steady_turn(Tyres::saturating, car, dry.curvature, 25, dry).wheel, 0);
}

// A course that begins in a bend, by formulas and by a table: the controllers have nothing to mend at first.
template <class Control>
void expect_quiet_beginning(const char* control) {
  for (const double roll : {0.0, 0.03}) {
    for (const double curvature : {0.0, 0.0025, -0.0025}) {
      WorldSpec formula;
      formula.course = {.curvature = curvature, .speed = 18, .lane_keeping = 0, .roll = roll};
      WorldSpec tabled = formula;
      tabled.course = {.speed = 18, .lane_keeping = 0};
      tabled.course.table =
          std::make_shared<const CourseTable>(CourseTable{{0, 60}, {curvature, curvature}, {18, 18}, {roll, roll}});
      for (const WorldSpec& spec : {formula, tabled}) {
        for (const Tyres tyres : {Tyres::linear, Tyres::saturating}) {  // those that controllers reckon with
          double furthest = 0;
          const auto see = [&](int, const auto& k, const auto& s) {
            const double yaw_rate = s.motion.yaw_rate * motion_scale(k.car, s.motion.speed);
            furthest = std::max(furthest, std::fabs(yaw_rate - curvature * 18) * 18);
          };
          const WorldResult r = run_world<double, Control>(spec, {}, 300, tyres, see);
          SCOPED_TRACE(fmt::format("{} {} roll {} curvature {} table {}", control, kTyresNames[static_cast<int>(tyres)],
                                   roll, curvature, spec.course.table != nullptr));
          EXPECT_LT(furthest, 0.12);  // m/s^2, of 0.81
          EXPECT_LT(r.offset_max, 0.15);
        }
      }
    }
  }
}
TEST(World, BeginsInEquilibrium) {
  expect_quiet_beginning<LateralPid>("pid");
  expect_quiet_beginning<LateralTorque>("torque");
  expect_quiet_beginning<LateralAngle>("angle");
}

}  // namespace
}  // namespace sparkpilot::sim
