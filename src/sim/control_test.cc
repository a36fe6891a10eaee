#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/test_goldens.h"
#include "sim/mppi-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;  // NOLINT(google-build-using-namespace): what stands in it depends on the number type

// A section of control_golden.txt, which bench/sim/make_goldens.py wrote.
std::vector<std::vector<double>> section(const std::string& name) {
  return golden_section(SPARKPILOT_SOURCE_DIR "/src/sim/control_golden.txt", name);
}

const std::vector<Vehicle>& cars() {
  static const std::vector<Vehicle> table = [] {
    std::vector<Vehicle> all{preset_vehicle("civic"), preset_vehicle("sedan"),
                             scaled_vehicle(2600, 3.68, 0.42, 18.5, 0.75), scaled_vehicle(1500, 2.5, 0.55, 13.0, 0.7)};
    all[3].steer_ratio_rear = 0.05;
    return all;
  }();
  return table;
}

// The steps' constants in N.
template <class N, template <class> class T>
T<N> in(const T<double>& from) {
  T<N> to;
  const auto* values = reinterpret_cast<const double*>(&from);
  for (size_t i = 0; i < sizeof(from) / sizeof(double); ++i) reinterpret_cast<N*>(&to)[i] = static_cast<N>(values[i]);
  return to;
}

template <class N>
void expect_openpilots_vehicle(double tolerance) {
  for (const auto& row : section("vehicle")) {
    const auto car = in<N>(car_constants(cars()[static_cast<size_t>(row[0])]));
    const N wheel = N(row[1]), u = N(row[2]), roll = N(row[3]);
    const auto near = [&](N got, double want) {
      EXPECT_NEAR(static_cast<double>(got), want, tolerance * std::max(1e-3, std::fabs(want)));
    };
    near(car.slip_factor, row[4]);
    near(curvature_factor(car, u), row[5]);
    near(roll_compensation(car, u, roll), row[6]);
    near(curvature_of(car, wheel, u, roll), row[7]);
    near(steer_from_curvature(car, N(0.01), u, roll), row[8]);
    near(curvature_of(car, steer_from_curvature(car, N(0.01), u, roll), u, roll), 0.01);
  }
}
TEST(VehicleModel, HasOpenpilotsValues) { expect_openpilots_vehicle<double>(2e-9); }
TEST(VehicleModel, HasOpenpilotsValuesInFloat) { expect_openpilots_vehicle<float>(2e-5); }

// A lateral controller on the rows of the golden.
template <class N, class Control>
class Golden {
 public:
  explicit Golden(const LateralTuning& tuning)
      : constants_(in<N, Control::template Constants>(Control::constants(tuning))),
        car_(in<N>(car_constants(cars()[0]))) {}
  double update(const std::vector<double>& row) {
    const LateralInput<N> input{N(row[0]),    N(row[1]),    N(row[2]),    N(row[3]), N(row[4]), N(delay_frames(row[5])),
                                row[6] > 0.5, row[7] > 0.5, row[8] > 0.5, false};
    bool saturated;
    return static_cast<double>(
        Control::template update<N>(constants_, car_, input, {slots_, 1}, step_++, state_, saturated));
  }

 private:
  typename Control::template Constants<N> constants_;
  CarConstants<N> car_;
  typename Control::template State<N> state_{};
  N slots_[kRequests] = {};
  int step_ = 0;
};

LateralTuning tuning(LateralTuning t) {
  t.accel_offset = 0.05;
  t.dead_zone_degrees = 0.2;
  t.pid_kp[0] = 0.02, t.pid_kp[1] = 0.05;
  t.pid_ki[0] = 0.01, t.pid_ki[1] = 0.03;
  t.pid_kf = 0.00006;
  return t;
}

template <class N>
void expect_openpilots_lateral_control(double tolerance) {
  Golden<N, LateralTorque> one(tuning({})), zero(tuning(torque_version_0()));
  Golden<N, LateralPid> pid(tuning({}));
  Golden<N, LateralAngle> angle({});
  N previous(0);
  int moving = 0;
  for (const auto& row : section("lateral")) {
    ASSERT_EQ(row.size(), 15u);
    EXPECT_NEAR(one.update(row), row[9], tolerance);
    EXPECT_NEAR(zero.update(row), row[10], tolerance);
    EXPECT_NEAR(pid.update(row), row[11], tolerance);
    EXPECT_NEAR(angle.update(row), row[12], 100 * tolerance);
    bool limited;
    previous = clip_curvature(N(row[1]), previous, N(row[0] * 10), N(row[4]), limited);
    EXPECT_NEAR(static_cast<double>(previous), row[13], tolerance);
    if (kIsDouble<N>) {
      EXPECT_EQ(limited, row[14] > 0.5);
    }
    moving += std::fabs(row[9]) < 0.999 && std::fabs(row[9]) > 1e-3 && std::fabs(row[11]) > 1e-3 &&
              std::fabs(row[11]) < 0.999;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moving, 50) << "most rows are at a limit and show little";
}
TEST(LateralControl, IsOpenpilots) { expect_openpilots_lateral_control<double>(1e-8); }
TEST(LateralControl, IsOpenpilotsInFloat) { expect_openpilots_lateral_control<float>(2e-3); }

template <class N>
void expect_mppi_of_the_golden(double tolerance) {
  Golden<N, LateralMppi> mppi({});
  int moving = 0;
  for (const auto& row : section("mppi")) {
    ASSERT_EQ(row.size(), 10u);
    EXPECT_NEAR(mppi.update(row), row[9], tolerance);
    moving += std::fabs(row[9]) > 1e-3 && std::fabs(row[9]) < 0.999;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moving, 200) << "most rows are at a limit and show little";
}
TEST(LateralControl, MppiIsThatOfTheReference) { expect_mppi_of_the_golden<double>(1e-8); }
TEST(LateralControl, MppiInFloat) { expect_mppi_of_the_golden<float>(2e-3); }

TEST(LongitudinalControl, IsOpenpilotsNewAndOld) {
  LongitudinalTuning newer;
  for (double& ki : newer.ki) ki = 0.2;
  const auto k_new = longitudinal_constants(newer), k_old = longitudinal_constants(older_longitudinal());
  LongitudinalState<double> now{}, old{};
  int seen[4] = {};
  for (const auto& row : section("longitudinal")) {
    const LongitudinalInput<double> input{row[0],       row[1],       row[2],       row[3],
                                          row[4] > 0.5, row[5] > 0.5, row[6] > 0.5, row[7] > 0.5};
    EXPECT_NEAR(longitudinal_control(k_new, input, now), row[8], 1e-8);
    EXPECT_EQ(now.state, row[9]);
    EXPECT_NEAR(longitudinal_control(k_old, input, old), row[10], 1e-8);
    EXPECT_EQ(old.state, row[11]);
    ++seen[static_cast<int>(row[11])];
  }
  for (const int count : seen) EXPECT_GT(count, 5);
}

TEST(LateralControl, SaturatesOnlyAfterASecond) {
  LateralInput<double> in{};
  in.speed = 20;
  double seconds = 0;
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(long_saturated(true, in, seconds)) << i;
  EXPECT_TRUE(long_saturated(true, in, seconds));
  in.driver_steers = true;
  EXPECT_FALSE(long_saturated(true, in, seconds));
  in.driver_steers = false;
  in.speed = 9;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(long_saturated(true, in, seconds));
}

TEST(LateralControl, CountsFramesOfDelay) {
  EXPECT_EQ(delay_frames(0), 1);
  EXPECT_EQ(delay_frames(0.2), 21);
  EXPECT_EQ(delay_frames(0.99), 100);
  EXPECT_EQ(delay_frames(5), 100);
  EXPECT_EQ(delay_frames(-1), 1);
}

}  // namespace
}  // namespace sparkpilot::sim
