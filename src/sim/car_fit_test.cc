// What sim fit says of drives whose truth is known.
#include "sim/car_fit.h"

#include <gtest/gtest.h>

#include "sim/test_drive.h"

namespace sparkpilot::sim {
namespace {

using scalar::LateralAngle, scalar::LateralTorque, scalar::LinearTyres, scalar::SaturatingTyres;

constexpr double kSeconds = 180;
constexpr int kSeeds = 12;

struct Tally {
  int covered = 0, all = 0;
  void add(const FittedNumber& number, double truth, double bound) {
    ASSERT_TRUE(number.value) << number.name << ": " << number.reason;
    EXPECT_NEAR(*number.value, truth, bound) << number.name << " " << number.low << " to " << number.high;
    covered += number.low <= truth && truth <= number.high;
    ++all;
  }
};

TEST(CarFit, FindsATorqueSteeredCar) {
  Tally tally;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const DrawnDrive drive = drawn_drive(seed, kSeconds);
    const CarFit fit =
        fit_car(drive_world<LateralTorque, Tyres::linear>(drive.world, kSeconds, drive.believed, seed), {.seed = seed});
    const Steering& steering = drive.world.steering;
    const double ratio = drive.world.vehicle.steer_ratio;
    tally.add(fit["steer_ratio"], ratio, 0.02 * ratio);
    tally.add(fit["stiffness_factor"], drive.stiffness, 0.1 * drive.stiffness);
    tally.add(fit["angle_offset_deg"], 1.2, 0.3);
    tally.add(fit["steering_delay_s"], steering.delay, 0.02);
    tally.add(fit["steering_lag_s"], steering.lag, 0.03);
    tally.add(fit["accel_factor_m_per_s2"], steering.accel_factor, 0.05 * steering.accel_factor);
    tally.add(fit["friction"], steering.friction, 0.15 * steering.friction);
  }
  EXPECT_GE(tally.covered, tally.all * 85 / 100) << "of " << tally.all << " intervals of 95 %";
}

TEST(CarFit, FindsAnAngleSteeredCar) {
  Tally tally;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const DrawnDrive drive = drawn_drive(seed, kSeconds);
    const CarFit fit =
        fit_car(drive_world<LateralAngle, Tyres::linear>(drive.world, kSeconds, drive.believed, seed), {.seed = seed});
    tally.add(fit["steer_ratio"], drive.world.vehicle.steer_ratio, 0.02 * drive.world.vehicle.steer_ratio);
    tally.add(fit["stiffness_factor"], drive.stiffness, 0.1 * drive.stiffness);
    tally.add(fit["steering_delay_s"], drive.world.steering.delay, 0.02);
    tally.add(fit["steering_lag_s"], drive.world.steering.lag, 0.02);
    EXPECT_FALSE(fit["friction"].value);
    EXPECT_EQ(fit["friction"].reason, "the car takes no torque");
  }
  EXPECT_GE(tally.covered, tally.all * 85 / 100) << "of " << tally.all << " intervals of 95 %";
}

// Refused are all of these, for this reason.
void expect_refused(const CarFit& fit, std::initializer_list<const char*> names, const std::string& reason) {
  for (const char* name : names) {
    EXPECT_FALSE(fit[name].value) << name;
    EXPECT_NE(fit[name].reason.find(reason), std::string::npos) << name << ": " << fit[name].reason;
  }
}
constexpr std::initializer_list<const char*> kCar = {"steer_ratio", "stiffness_factor", "angle_offset_deg"};
constexpr std::initializer_list<const char*> kTorque = {"steering_delay_s", "steering_lag_s", "accel_factor_m_per_s2",
                                                        "friction"};

drive::CarSignals one_drive(double seconds = 60, DrawnDrive drive = drawn_drive(1, 60)) {
  return drive_world<LateralTorque, Tyres::linear>(drive.world, seconds, drive.believed, 1);
}
DrawnDrive on_course(const CourseTable& table) {
  DrawnDrive drive = drawn_drive(1, 60);
  drive.world.course.table = std::make_shared<const CourseTable>(table);
  drive.world.course.speed = table.speed.front();
  return drive;
}

TEST(CarFit, RefusesAStraightRoad) {
  const CarFit fit = fit_car(one_drive(60, on_course({{0, 60}, {0, 0}, {25, 25}, {0, 0}})));
  expect_refused(fit, kCar, "too straight");
  expect_refused(fit, kTorque, "too straight");
}

TEST(CarFit, RefusesADecimatedLog) {
  drive::CarSignals signals = one_drive();
  drive::Samples<drive::MotionSample> tenth;
  int i = 0;
  for (const auto& [time, motion] : signals.motion) {
    if (i++ % 10 == 0) tenth.add(time, motion);
  }
  signals.motion = tenth;
  const CarFit fit = fit_car(signals);
  expect_refused(fit, kCar, "carState comes at 10 Hz");
  expect_refused(fit, kTorque, "carState comes at 10 Hz");
  EXPECT_EQ(fit.car.vehicle.steer_ratio, signals.car->steer_ratio) << "the log's stays";
}

TEST(CarFit, RefusesWhatTheLogLacks) {
  const drive::CarSignals whole = one_drive();
  drive::CarSignals signals = whole;
  signals.command = {};
  CarFit fit = fit_car(signals);
  expect_refused(fit, kTorque, "no steering command");
  EXPECT_TRUE(fit["steer_ratio"].value) << fit["steer_ratio"].reason;

  signals = whole;
  signals.yaw_rate = {};
  expect_refused(fit_car(signals), kCar, "no yaw rate");
  signals = whole;
  signals.car.reset();
  expect_refused(fit_car(signals), kCar, "no carParams");
  EXPECT_TRUE(fit_car(signals, {.base = Car{"compact", drawn_drive(1, 60).believed, {}}})["steer_ratio"].value);
  expect_refused(fit_car({}), kTorque, "no carState");
  expect_refused(fit_car(one_drive(20)), kCar, "expected 30 s");
  expect_refused(fit_car(one_drive(60, on_course({{0, 60}, {0.01, 0.01}, {3, 3}, {0, 0}}))), kTorque, "5 m/s or more");

  signals = whole;
  signals.active = {};
  signals.active.add(0, false);
  expect_refused(fit_car(signals), kTorque, "openpilot steered without the driver for 0 s");
}

// How fast the car answers would decide alone, and with it whatever the model leaves out.
TEST(CarFit, AtOneSpeedDoesNotTellRatioAndStiffnessApart) {
  CourseTable table = *winding_course(3, 120);
  for (size_t i = 0; i < table.time.size(); ++i) {
    table.curvature[i] *= table.speed[i] * table.speed[i] / 400;
    table.speed[i] = 20;
  }
  const CarFit fit = fit_car(one_drive(120, on_course(table)));
  for (const char* name : {"steer_ratio", "stiffness_factor"}) {
    EXPECT_FALSE(fit[name].value);
    EXPECT_EQ(fit[name].reason.find("its turns are at one speed; it was turning at "), 0U) << fit[name].reason;
  }
  EXPECT_TRUE(fit["angle_offset_deg"].value) << fit["angle_offset_deg"].reason;
}

// As in logs that were made up: a delay of 0 is no measurement.
TEST(CarFit, AWheelThatIsTheCommandHasNoDelay) {
  const DrawnDrive drive = drawn_drive(1, kSeconds);
  drive::CarSignals signals = drive_world<LateralAngle, Tyres::linear>(drive.world, kSeconds, drive.believed, 1);
  signals.command = {};
  for (const auto& [time, motion] : signals.motion) signals.command.add(time, {0, motion.wheel});
  const CarFit fit = fit_car(signals);
  for (const char* name : {"steering_delay_s", "steering_lag_s"}) {
    EXPECT_FALSE(fit[name].value);
    EXPECT_EQ(fit[name].reason, "the wheel is where the command wants it at once");
  }
  EXPECT_TRUE(fit["steer_ratio"].value);
}

TEST(CarFit, TyresThatSaturateSeemSofter) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const DrawnDrive drive = drawn_drive(seed, kSeconds);
    const CarFit fit =
        fit_car(drive_world<LateralTorque, Tyres::saturating>(drive.world, kSeconds, drive.believed, seed));
    ASSERT_TRUE(fit["steer_ratio"].value && fit["stiffness_factor"].value);
    EXPECT_NEAR(*fit["steer_ratio"].value, drive.world.vehicle.steer_ratio, 0.02 * drive.world.vehicle.steer_ratio);
    EXPECT_LT(*fit["stiffness_factor"].value, drive.stiffness);
    EXPECT_GT(*fit["stiffness_factor"].value, 0.9 * drive.stiffness);
  }
}

TEST(CarFit, ADriveGivesTheSameNumbersEveryTime) {
  const drive::CarSignals signals = one_drive();
  const CarFit a = fit_car(signals, {.seed = 3}), b = fit_car(signals, {.seed = 3});
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    EXPECT_EQ(a.numbers[i].value, b.numbers[i].value);
    EXPECT_EQ(a.numbers[i].low, b.numbers[i].low);
  }
}

}  // namespace
}  // namespace sparkpilot::sim
