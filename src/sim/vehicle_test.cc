#include "sim/vehicle.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/test_error.h"
#include "sim/steering-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;
using Vector = std::array<double, 2>;
using Matrix = std::array<double, 4>;

Matrix times(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}
Vector times(const Matrix& a, const Vector& x) { return {a[0] * x[0] + a[1] * x[1], a[2] * x[0] + a[3] * x[1]}; }

// openpilot's A and what A x = -b has for a solution, written from the formulas once more.
struct Linear {
  Matrix a;
  Vector rest;
  Linear(const Vehicle& c, double wheel, double u, double roll, double side) {
    const double f = c.center_to_front, r = c.wheelbase - f, cf = c.stiffness_front, cr = c.stiffness_rear;
    a = {-(cf + cr) / (c.mass * u), -(cf * f - cr * r) / (c.mass * u) - u, -(cf * f - cr * r) / (c.inertia * u),
         -(cf * f * f + cr * r * r) / (c.inertia * u)};
    const double b0 = cf / c.mass / c.steer_ratio * wheel - kGravity * roll + side,
                 b1 = cf * f / c.inertia / c.steer_ratio * wheel;
    const double det = a[0] * a[3] - a[1] * a[2];
    rest = {-(a[3] * b0 - a[1] * b1) / det, -(a[0] * b1 - a[2] * b0) / det};
  }
  // From rest, after t seconds.
  Vector after(double t) const {
    Matrix e{1, 0, 0, 1}, term = e, small = a;
    for (double& x : small) x *= t / 1024;
    for (int i = 1; i < 20; ++i) {
      term = times(term, small);
      for (size_t k = 0; k < 4; ++k) term[k] /= i, e[k] += term[k];
    }
    for (int i = 0; i < 10; ++i) e = times(e, e);
    const Vector left = times(e, rest);
    return {rest[0] - left[0], rest[1] - left[1]};
  }
};

template <class Tyre>
Motion<double> drive(const Vehicle& car, double wheel, double speed, const Road<double>& road, double seconds,
                     double h = kStep, double* distance = nullptr) {
  Motion<double> m{};
  m.speed = speed;
  const auto k = car_constants(car);
  const auto steps = static_cast<int>(std::lround(seconds / h));
  for (int i = 0; i < steps; ++i) {
    move<double>(Tyre(), k, wheel, speed, road, m, h);
    if (distance) *distance += m.passed;
  }
  return m;
}
const Road<double> kFlat{0, 0, 0, 0, 1};

TEST(Bicycle, ComesToTheSteadyStateOfTheLinearSystem) {
  for (const Preset& preset : vehicle_presets()) {
    for (const double speed : {5.0, 15.0, 35.0}) {
      const Road<double> road{0, 0.03, 0, 0.4, 1};
      const Linear exact(preset.vehicle, 0.3, speed, 0.03, 0.4);
      const Motion<double> m = drive<LinearTyres>(preset.vehicle, 0.3, speed, road, 20);
      EXPECT_NEAR(m.lateral, exact.rest[0], 1e-9) << preset.name << speed;
      EXPECT_NEAR(m.yaw_rate, exact.rest[1], 1e-9) << preset.name << speed;
      // Without wind it is openpilot's curvature.
      const Road<double> calm{0, 0.03, 0, 0, 1};
      EXPECT_NEAR(drive<LinearTyres>(preset.vehicle, 0.3, speed, calm, 20).yaw_rate / speed,
                  curvature_of(car_constants(preset.vehicle), 0.3, speed, 0.03), 1e-10);
    }
  }
}

TEST(Bicycle, StepResponseIsTheMatrixExponential) {
  const Vehicle& car = preset_vehicle("civic");
  for (const double speed : {10.0, 20.0, 40.0}) {
    const Linear exact(car, 0.5, speed, 0, 0);
    for (const double t : {0.05, 0.2, 1.0}) {
      const Motion<double> m = drive<LinearTyres>(car, 0.5, speed, kFlat, t);
      EXPECT_NEAR(m.lateral, exact.after(t)[0], 1e-4 * std::fabs(exact.rest[1])) << speed << " " << t;
      EXPECT_NEAR(m.yaw_rate, exact.after(t)[1], 1e-4 * std::fabs(exact.rest[1])) << speed << " " << t;
    }
  }
}

TEST(Bicycle, ConvergesWithTheFourthOrder) {
  const Vehicle& car = preset_vehicle("sports");
  const Linear exact(car, 0.5, 12, 0, 0);
  std::vector<double> linear, saturating;
  const double want = drive<SaturatingTyres>(car, 1.5, 12, kFlat, 0.32, 0.000125).yaw_rate;
  for (const double h : {0.02, 0.01, 0.005}) {
    linear.push_back(std::fabs(drive<LinearTyres>(car, 0.5, 12, kFlat, 0.32, h).yaw_rate - exact.after(0.32)[1]));
    saturating.push_back(std::fabs(drive<SaturatingTyres>(car, 1.5, 12, kFlat, 0.32, h).yaw_rate - want));
  }
  for (const auto& errors : {linear, saturating}) {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_GT(std::log2(errors[i] / errors[i + 1]), 3.5) << errors[i] << " " << errors[i + 1];
      EXPECT_LT(std::log2(errors[i] / errors[i + 1]), 5) << errors[i] << " " << errors[i + 1];
    }
  }
}

TEST(Bicycle, GripLimitsTheLateralAcceleration) {
  const Vehicle& car = preset_vehicle("sedan");
  const double small_linear = drive<LinearTyres>(car, 0.02, 25, kFlat, 10).yaw_rate;
  EXPECT_NEAR(drive<SaturatingTyres>(car, 0.02, 25, kFlat, 10).yaw_rate / small_linear, 1, 0.02);
  for (const double grip : {0.15, 0.5, 1.0}) {
    Road<double> road = kFlat;
    road.grip = grip;
    double most = 0;
    Motion<double> m{};
    m.speed = 25;
    const auto k = car_constants(car);
    for (int i = 0; i < 300; ++i) {
      const double v = m.lateral;
      const double wanted = std::min(1.0, i * 0.01) * 2;
      move<double>(SaturatingTyres(), k, wanted, 25, road, m);
      most = std::max(most, std::fabs((m.lateral - v) / kStep + m.yaw_rate * 25));
    }
    EXPECT_LT(most, 1.02 * grip * kGravity);
    EXPECT_GT(most, 0.85 * grip * kGravity);
  }
  // A tyre's force: in proportion at first, then its peak.
  EXPECT_NEAR(brush(2.0, 0.5, 1e-6), 2 * 3 * 0.5 * 1e-6, 1e-11);
  EXPECT_DOUBLE_EQ(brush(2.0, 0.5, 2.0), 2);
  EXPECT_DOUBLE_EQ(brush(2.0, 0.5, -9.0), -2);
}

TEST(Bicycle, KinematicAndLowSpeed) {
  const Vehicle& car = preset_vehicle("compact");
  // At walking pace every model turns as geometry has it.
  const double wheel = 0.5, curvature = std::tan(wheel / car.steer_ratio) / car.wheelbase;
  for (const double heading :
       {drive<NoSlip>(car, wheel, 0.5, kFlat, 20).heading, drive<LinearTyres>(car, wheel, 0.5, kFlat, 20).heading,
        drive<SaturatingTyres>(car, wheel, 0.5, kFlat, 20).heading}) {
    EXPECT_NEAR(heading / (10 * curvature), 1, 0.03);
  }
  const Motion<double> standing = drive<LinearTyres>(car, 1, 0, {0, 0.05, 0, 3, 1}, 5);
  EXPECT_EQ(standing.heading, 0);
  EXPECT_EQ(standing.offset, 0);
  // Never tighter than 0.3 / m.
  EXPECT_NEAR(drive<NoSlip>(car, 100, 5, kFlat, 1).heading, 0.3 * 5, 1e-9);
}

TEST(Bicycle, PositionOnCurvedAndStraightRoads) {
  const Vehicle& car = preset_vehicle("civic");
  const double wheel = 0.4, curvature = std::tan(wheel / car.steer_ratio) / car.wheelbase;
  std::vector<double> errors;
  for (const double h : {0.04, 0.02, 0.01}) {
    // A circle over a straight road; the centre of gravity stays a little inside of the rear axle's.
    double distance = 0;
    const Motion<double> m = drive<NoSlip>(car, wheel, 20, kFlat, 8, h, &distance);
    const double angle = curvature * 160, rear = car.wheelbase - car.center_to_front;
    const double offset = (1 - std::cos(angle)) / curvature + rear * std::sin(angle),
                 along = std::sin(angle) / curvature - rear * (1 - std::cos(angle));
    errors.push_back(std::hypot(m.offset - offset, distance - along));
  }
  EXPECT_LT(errors[2], 1e-3);
  EXPECT_NEAR(std::log2(errors[0] / errors[1]), 2, 0.2);
  EXPECT_NEAR(std::log2(errors[1] / errors[2]), 2, 0.2);
  // Along the circle that the centre of gravity describes, nothing moves but the distance.
  const double radius = 1 / curvature, rear = car.wheelbase - car.center_to_front;
  Road<double> round = kFlat;
  round.curvature = 1 / std::hypot(radius, rear);
  Motion<double> m{};
  m.speed = 20;
  m.heading = -std::atan(rear / radius);
  double distance = 0;
  for (int i = 0; i < 2000; ++i) {
    move<double>(NoSlip(), car_constants(car), wheel, 20, round, m);
    distance += m.passed;
  }
  EXPECT_NEAR(m.offset, 0, 1e-3);
  EXPECT_NEAR(m.heading, -std::atan(rear / radius), 1e-5);
  EXPECT_NEAR(distance, 400 * std::hypot(radius, rear) / radius, 1e-3);
}

struct Drive {
  double lag_left, lag_mean;
  Drive(double lag, double h) : lag_left(std::exp(-h / lag)), lag_mean((1 - std::exp(-h / lag)) * lag / h) {}
};

TEST(Longitudinal, CoastsAsDragAndRollingHaveIt) {
  Vehicle car = preset_vehicle("suv");
  const auto k = car_constants(car);
  std::vector<double> errors;
  for (const double h : {0.04, 0.02, 0.01}) {
    Motion<double> m{};
    m.speed = 40;
    const Drive drive(0.2, h);
    for (int i = 0; i < std::lround(30 / h); ++i) accelerate(k, drive.lag_left, drive.lag_mean, 0.0, 0.0, m, h);
    // v' = -c - d v^2: v = sqrt(c / d) tan(atan(v0 sqrt(d / c)) - sqrt(c d) t).
    const double c = car.rolling, d = car.drag;
    errors.push_back(
        std::fabs(m.speed - std::sqrt(c / d) * std::tan(std::atan(40 * std::sqrt(d / c)) - std::sqrt(c * d) * 30)));
  }
  EXPECT_LT(errors[2], 1e-6);
  EXPECT_NEAR(std::log2(errors[0] / errors[1]), 2, 0.2);
  EXPECT_NEAR(std::log2(errors[1] / errors[2]), 2, 0.2);
}

TEST(Longitudinal, KeepsEnergyOnAGrade) {
  Vehicle car = preset_vehicle("civic");
  car.drag = car.rolling = 0;
  const auto k = car_constants(car);
  const Drive drive(0.2, kStep);
  Motion<double> m{};
  m.speed = 30;
  double distance = 0;
  for (int i = 0; i < 2000; ++i) {
    const double before = m.speed;
    accelerate(k, drive.lag_left, drive.lag_mean, 0.0, 0.06, m);
    move<double>(LinearTyres(), k, 0, before, kFlat, m);
    distance += m.passed;
  }
  EXPECT_NEAR(m.speed * m.speed / 2 + kGravity * 0.06 * distance, 450, 1e-8);
}

TEST(Longitudinal, LagsAndStops) {
  Vehicle car = preset_vehicle("civic");
  car.drag = car.rolling = 0;
  const auto k = car_constants(car);
  const Drive drive(0.3, kStep);
  Motion<double> m{};
  for (int i = 0; i < 100; ++i) accelerate(k, drive.lag_left, drive.lag_mean, 1.5, 0.0, m);
  EXPECT_NEAR(m.drive, 1.5 * (1 - std::exp(-1 / 0.3)), 1e-12);
  EXPECT_NEAR(m.speed, 1.5 * (1 - 0.3 * (1 - std::exp(-1 / 0.3))), 1e-12);
  for (int i = 0; i < 1000; ++i) accelerate(k, drive.lag_left, drive.lag_mean, -3.0, 0.1, m);
  EXPECT_EQ(m.speed, 0);
  EXPECT_EQ(m.acceleration, 0);
}

struct Wheel {
  SteeringConstants<double> k{10, 1, 1, 1 - std::exp(-kStep / 0.2), 1e9, 1.653, 0.4};
  CarConstants<double> car = car_constants(preset_vehicle("civic"));
  double slots[kSteeringDelay] = {};
  SteeringState<double> state{};
  int step = 0;
  void angle(double command) { steer_by_angle(k, {slots, 1}, step++, command, state); }
  void torque(double command, double speed, double roll) {
    steer_by_torque(k, car, {slots, 1}, step++, command, speed, roll, state);
  }
};

TEST(Steering, DelaysAndLags) {
  Wheel w;
  for (int i = 0; i < 10; ++i) {
    w.angle(0.5);
    EXPECT_EQ(w.state.wheel, 0) << i;
  }
  for (int i = 1; i <= 150; ++i) {
    w.angle(0.5);
    EXPECT_NEAR(w.state.wheel, 0.5 * (1 - std::exp(-i * kStep / 0.2)), 1e-12) << i;
  }
}

TEST(Steering, LimitsSizeAndRates) {
  Wheel w;
  w.k.delay = 0;
  w.k.step = 0.02;
  w.k.lag_gone = 1;
  w.k.wheel_step = 0.01;
  for (int i = 1; i <= 90; ++i) {
    w.angle(7);
    EXPECT_NEAR(w.state.command, std::min(1.0, 0.02 * i), 1e-12);
    EXPECT_NEAR(w.state.wheel, 0.01 * i, 1e-12);
  }
}

TEST(Steering, TorqueComesToRestAtItsLateralAcceleration) {
  for (const double speed : {8.0, 25.0}) {
    for (const double roll : {0.0, 0.04}) {
      Wheel w;
      for (int i = 0; i < 1000; ++i) w.torque(0.6, speed, roll);
      // Friction holds the wheel where it first suffices.
      const double acceleration = curvature_of(w.car, w.state.wheel, speed, roll) * speed * speed + kGravity * roll;
      EXPECT_NEAR(std::fabs(1.653 * 0.6 - acceleration), 0.4, 1e-6) << speed << roll;
      const double held = w.state.wheel;
      for (int i = 0; i < 100; ++i) w.torque(0.6 - 0.7 / 1.653, speed, roll);  // within the band
      EXPECT_EQ(w.state.wheel, held);
    }
  }
}

TEST(Vehicles, RefusesWhatCannotBe) {
  const auto says = [](const auto& work, const char* what) { return error_of(work).find(what) != std::string::npos; };
  EXPECT_TRUE(says([] { preset_vehicle("bus"); }, "civic, compact, sedan, sports, suv, truck"));
  for (const Preset& preset : vehicle_presets()) EXPECT_NO_THROW(check_vehicle(preset.vehicle)) << preset.name;
  Vehicle car;
  car.mass = NAN;
  EXPECT_TRUE(says([&] { check_vehicle(car); }, "mass"));
  car = {};
  car.low_speed = 1;
  EXPECT_TRUE(says([&] { check_vehicle(car); }, "low_speed"));
}

}  // namespace
}  // namespace sparkpilot::sim
