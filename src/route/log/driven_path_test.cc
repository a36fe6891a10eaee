#include "route/log/driven_path.h"

#include <gtest/gtest.h>

#include <limits>

#include "route/log/test_path.h"
#include "route/test_files.h"
#include "sparkpilot/error.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What tests/reference/driven_path_numpy.py prints.
struct Truth {
  double horizon;
  Vector3 position, orientation;
};
const Truth kTruth[] = {
    {1, {14.912543877, 1.399164399, -0.045489216}, {-0.006924635, 0.006281301, 0.187095543}},
    {2, {29.304025755, 5.547271154, -0.194334444}, {-0.012560447, 0.013740901, 0.374156413}},
    {4, {54.548332452, 21.415998456, -0.860954065}, {-0.019231815, 0.031121454, 0.748249484}},
    {6, {72.236548379, 45.399166818, -2.073621038}, {-0.019087416, 0.049737213, 1.122498033}},
};

void expect_truth(const DrivenPath& path, double seconds, double metres, double radians) {
  for (const Truth& truth : kTruth) {
    const auto point = path.ahead(helix_time(seconds), truth.horizon);
    ASSERT_TRUE(point) << truth.horizon;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(point->position[i], truth.position[i], metres) << truth.horizon << " s, axis " << i;
      EXPECT_NEAR(point->orientation[i], truth.orientation[i], radians) << truth.horizon << " s, axis " << i;
    }
  }
}

Samples<Vector3> constant(const Vector3& rpy) {
  Samples<Vector3> out;
  out.add(helix_time(1), rpy);
  return out;
}

TEST(DrivenPath, LocationIsTheHelixThatNumpyComputes) {
  const DrivenPath path = DrivenPath::from_location(helix_location(20));
  EXPECT_EQ(path.source(), "liveLocationKalman");
  expect_truth(path, 3, 1e-6, 1e-8);
  // A helix looks the same from all its points; a chord between samples is off by 0.9 mm at most.
  expect_truth(path, 7.0123, 3e-3, 1e-5);
}

TEST(DrivenPath, PoseIntegratesToTheSamePath) {
  const Vector3 calibration{0.01, 0.05, -0.03};
  const DrivenPath path = DrivenPath::from_pose(helix_pose(20, calibration), constant(calibration));
  EXPECT_EQ(path.source(), "livePose");
  expect_truth(path, 3, 2e-3, 1e-6);
  expect_truth(path, 12.345, 5e-3, 1e-5);
}

TEST(DrivenPath, PoseWithoutCalibrationTakesTheDirectionOfTravel) {
  const DrivenPath path = DrivenPath::from_pose(helix_pose(20, {0, 0.05, -0.03}), {});
  expect_truth(path, 3, 2e-3, 1e-6);
}

TEST(DrivenPath, LocationWithSpeedsIsIntegrated) {
  Samples<LocationSample> samples;
  const Samples<PoseSample> speeds = helix_pose(20, {});
  auto speed = speeds.begin();
  for (auto [time, sample] : helix_location(20)) {
    sample.velocity_calibrated = speed->second.velocity_device;
    sample.angular_velocity_calibrated = (speed++)->second.angular_velocity_device;
    // A filter that settles: its position and orientation jump at first, but its speeds are right.
    sample.position_ecef[1] += 1e-9 * static_cast<double>(time - kHelixStart) * 3;
    if (time > helix_time(5)) sample.orientation_ecef[2] += 0.6;
    samples.add(time, sample);
  }
  expect_truth(DrivenPath::from_location(samples), 3, 2e-3, 1e-6);
}

TEST(DrivenPath, PoseIsPreferredAndOneSampleIsNone) {
  Timeline timeline;
  EXPECT_FALSE(DrivenPath::from(timeline));
  timeline.pose = helix_pose(0, {});
  EXPECT_FALSE(DrivenPath::from(timeline));
  timeline.location = helix_location(10);
  EXPECT_EQ(DrivenPath::from(timeline)->source(), "liveLocationKalman");
  timeline.pose = helix_pose(10, {});
  EXPECT_EQ(DrivenPath::from(timeline)->source(), "livePose");
}

TEST(DrivenPath, InverseOrientationsAreTold) {
  Samples<LocationSample> inverse;
  for (const auto& [time, sample] : helix_location(20)) {
    const Matrix3 rotation = transpose(rotation_from_euler(sample.orientation_ecef));
    inverse.add(time, {sample.position_ecef, euler_from_rotation(rotation)});
  }
  expect_truth(DrivenPath::from_location(inverse), 3, 1e-6, 1e-8);
}

TEST(DrivenPath, OrderDoublesAndNanDoNotMatter) {
  const auto samples = helix_location(20);
  Samples<LocationSample> shuffled;
  for (int part = 6; part >= 0; --part) {
    int i = 0;
    for (const auto& [time, sample] : samples) {
      if (i++ % 7 == part) shuffled.add(time, sample);
    }
  }
  LocationSample broken = samples.begin()->second;
  broken.position_ecef[1] = kNan;
  shuffled.add(helix_time(4.01), broken);
  broken = samples.begin()->second;
  broken.orientation_ecef[2] = std::numeric_limits<double>::infinity();
  shuffled.add(helix_time(5.01), broken);
  shuffled.add(samples.begin()->first, samples.begin()->second);
  const DrivenPath path = DrivenPath::from_location(shuffled);
  EXPECT_EQ(path.poses().size(), samples.size());
  expect_truth(path, 3, 1e-6, 1e-8);
}

TEST(DrivenPath, BothEndsAreEnds) {
  const DrivenPath path = DrivenPath::from_location(helix_location(10));
  EXPECT_TRUE(path.ahead(helix_time(0), 10));
  EXPECT_TRUE(path.ahead(helix_time(10), -10));
  EXPECT_FALSE(path.ahead(helix_time(4.01), 6));
  EXPECT_FALSE(path.ahead(helix_time(0) - 1, 1));
  EXPECT_FALSE(path.ahead(0, 1));
  EXPECT_FALSE(path.ahead(std::numeric_limits<uint64_t>::max(), 1));
  EXPECT_FALSE(path.ahead(helix_time(3), kNan));
  EXPECT_FALSE(DrivenPath({}, "").ahead(0, 0));
  EXPECT_FALSE(DrivenPath({}, "").motion(0));
  const DrivenPath one({{helix_time(0), {1, 2, 3}, {}}}, "");
  EXPECT_EQ(one.ahead(helix_time(0), 0)->position, Vector3{});
  EXPECT_FALSE(one.ahead(helix_time(0), 0.1));
  EXPECT_FALSE(one.motion(helix_time(0)));
}

template <typename Sample>
Samples<Sample> without(const Samples<Sample>& samples, double from, double to) {
  Samples<Sample> out;
  for (const auto& [time, sample] : samples) {
    if (time <= helix_time(from) || time >= helix_time(to)) out.add(time, sample);
  }
  return out;
}

TEST(DrivenPath, GapsAboveHalfASecondAreNotBridged) {
  const DrivenPath small = DrivenPath::from_location(without(helix_location(20), 8, 8.45));
  EXPECT_TRUE(small.ahead(helix_time(8.2), 1));
  const DrivenPath paths[] = {DrivenPath::from_location(without(helix_location(20), 8, 8.6)),
                              DrivenPath::from_pose(without(helix_pose(20, {}), 8, 8.6), constant({}))};
  for (const DrivenPath& path : paths) {
    EXPECT_TRUE(path.ahead(helix_time(7), 1));
    EXPECT_FALSE(path.ahead(helix_time(7), 1.01));
    EXPECT_FALSE(path.ahead(helix_time(7), 2));
    EXPECT_FALSE(path.ahead(helix_time(8.3), 0));
    EXPECT_TRUE(path.motion(helix_time(8)));
    EXPECT_FALSE(path.motion(helix_time(8.3)));
    expect_truth(path, 9, 2e-3, 1e-6);
  }
}

TEST(DrivenPath, AResetOfTheFilterParts) {
  Samples<LocationSample> samples;
  for (auto [time, sample] : helix_location(20)) {
    if (time > helix_time(8)) sample.position_ecef[0] += 30;
    samples.add(time, sample);
  }
  const DrivenPath path = DrivenPath::from_location(samples);
  EXPECT_FALSE(path.ahead(helix_time(7), 2));
  expect_truth(path, 9, 1e-6, 1e-8);
}

TEST(DrivenPath, MotionOfACircle) {
  const DrivenPath path = DrivenPath::from_location(helix_location(20));
  for (const double seconds : {0.0, 3.02, 20.0}) {
    const auto motion = path.motion(helix_time(seconds));
    ASSERT_TRUE(motion);
    EXPECT_NEAR(motion->speed, kHelixSpeed, 0.01);
    EXPECT_NEAR(motion->yaw_rate / motion->speed, 1 / kHelixRadius, 3e-5);
  }
}

TEST(DrivenPath, CalibrationFromMotion) {
  const Vector3 velocities[] = {{kNan, 0, 0}, {0.1, 4, 0}, {20, 2, -1}, {10, 1, -0.5}};
  const auto rpy = calibration_from_motion(velocities);
  ASSERT_TRUE(rpy);
  const Vector3 along = multiply(transpose(rotation_from_euler(*rpy)), velocities[2]);
  EXPECT_NEAR(along[0], std::hypot(20, 2, 1), 1e-9);
  EXPECT_FALSE(calibration_from_motion(std::span(velocities).first(2)));
  EXPECT_FALSE(calibration_from_motion({}));
}

void save(const std::filesystem::path& file, const Tensor& array) { save_npy(file, array.view()); }

// A folder of global_pose with the helix, ten seconds at 20 Hz, seen by a device pitched down by 0.06.
void write_global_pose(const std::filesystem::path& folder) {
  constexpr int kRows = 201;
  std::vector<double> times, positions, orientations, velocities;
  for (int i = 0; i < kRows; ++i) {
    const HelixPlace place = helix(i / 20.0);
    const Quaternion calibrated = quaternion_from_euler(euler_from_rotation(place.ecef_from_calibrated));
    const Quaternion device = calibrated * conjugate(quaternion_from_euler({0, 0.06, 0}));
    const Vector3 velocity = multiply(place.ecef_from_calibrated, Vector3{kHelixSpeed, 0, 0});
    times.push_back(static_cast<double>(helix_time(i / 20.0)) * 1e-9);
    positions.insert(positions.end(), place.position_ecef.begin(), place.position_ecef.end());
    orientations.insert(orientations.end(), {device.w, device.x, device.y, device.z});
    velocities.insert(velocities.end(), velocity.begin(), velocity.end());
  }
  save(folder / "frame_times", Tensor::of<double>({kRows}, times));
  save(folder / "frame_positions", Tensor::of<double>({kRows, 3}, positions));
  save(folder / "frame_orientations", Tensor::of<double>({kRows, 4}, orientations));
  save(folder / "frame_velocities", Tensor::of<double>({kRows, 3}, velocities));
}

TEST(GlobalPose, CalibratesItselfAndTakesOtherTimes) {
  const TempFolder folder;
  write_global_pose(folder.path());
  const DrivenPath path = DrivenPath::from_global_pose(folder.path());
  EXPECT_EQ(path.source(), "global_pose");
  expect_truth(path, 3, 1e-4, 1e-6);
  const uint64_t times[] = {7, 50'000'007};
  const DrivenPath two = DrivenPath::from_global_pose(folder.path(), times, Vector3{0, 0.06, 0});
  ASSERT_EQ(two.poses().size(), 2u);
  EXPECT_NEAR(two.ahead(7, 0.05)->position[0], 0.75, 1e-4);
}

TEST(GlobalPose, HostileArraysAreRefused) {
  const auto refused = [](const char* file, const Tensor& array) {
    const TempFolder folder;
    write_global_pose(folder.path());
    save(folder / file, array);
    try {
      DrivenPath::from_global_pose(folder.path());
      return std::string("taken");
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      return std::string(error.kind() == ErrorKind::user ? "refused" : "wrong kind");
    }
  };
  EXPECT_EQ(refused("frame_times", Tensor::zeros(DType::f64, {201, 2})), "refused");
  EXPECT_EQ(refused("frame_times", Tensor::zeros(DType::f64, {})), "refused");
  EXPECT_EQ(refused("frame_positions", Tensor::zeros(DType::f64, {200, 3})), "refused");
  EXPECT_EQ(refused("frame_positions", Tensor::zeros(DType::i64, {201, 3})), "refused");
  EXPECT_EQ(refused("frame_orientations", Tensor::zeros(DType::f64, {201, 3})), "refused");
  EXPECT_EQ(refused("frame_velocities", Tensor::zeros(DType::f64, {603})), "refused");
  const TempFolder empty;
  EXPECT_THROW(DrivenPath::from_global_pose(empty.path()), Error);

  // Invalid rows are ignored.
  const TempFolder folder;
  write_global_pose(folder.path());
  save(folder / "frame_orientations", Tensor::zeros(DType::f64, {201, 4}));
  EXPECT_TRUE(DrivenPath::from_global_pose(folder.path()).poses().empty());
  write_global_pose(folder.path());
  save(folder / "frame_times", Tensor::of<double>({201}, std::vector<double>(201, kNan)));
  EXPECT_TRUE(DrivenPath::from_global_pose(folder.path()).poses().empty());
}

TEST(GlobalPose, Comma2k19Sample) {
  const auto folder = asset("comma2k19_example1/global_pose");
  if (folder.empty()) GTEST_SKIP() << "comma2k19's sample is not here";
  const DrivenPath path = DrivenPath::from_global_pose(folder);
  ASSERT_EQ(path.poses().size(), 1200u);
  double length = 0;
  for (size_t i = 1; i < 1200; ++i) {
    const auto step = path.ahead(path.poses()[i - 1].time,
                                 1e-9 * static_cast<double>(path.poses()[i].time - path.poses()[i - 1].time));
    ASSERT_TRUE(step);
    const Vector3& p = step->position;
    length += std::hypot(p[0], p[1], p[2]);
    EXPECT_LT(std::hypot(p[1], p[2]) / p[0], 0.05);  // along x within 3 degrees
  }
  EXPECT_NEAR(length, 1011.897, 0.01 * 1011.897);  // the integral of the speeds
  const auto& a = path.poses()[600];
  const auto point = path.ahead(a.time, 1e-9 * static_cast<double>(path.poses()[640].time - a.time));
  ASSERT_TRUE(point);
  EXPECT_NEAR(point->position[0], 32.058502578, 0.01);
  EXPECT_NEAR(point->position[1], -0.022939983, 0.01);
  EXPECT_NEAR(point->position[2], -0.077202274, 0.01);
  EXPECT_NEAR(point->orientation[2], 0.000673916, 1e-4);
}

}  // namespace
}  // namespace sparkpilot::drive
