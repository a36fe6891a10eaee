#include "route/contract/camera.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {

void expect_near(const Matrix3& got, const Matrix3& expected, double tolerance = 1e-10) {
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "entry " << i;
}

TEST(Camera, MatrixAlgebra) {
  const Matrix3 m = {2, 1, 0, -1, 3, 5, 4, 0, 1};
  expect_near(multiply(m, inverse(m)), {1, 0, 0, 0, 1, 0, 0, 0, 1}, 1e-15);
  EXPECT_EQ(transpose(m), (Matrix3{2, -1, 4, 1, 3, 0, 0, 5, 1}));
  EXPECT_EQ(multiply(m, Vector3{1, 2, 3}), (Vector3{4, 20, 7}));
  EXPECT_THROW(inverse({1, 2, 3, 2, 4, 6, 0, 0, 1}), Error);
  EXPECT_THROW(inverse({NAN, 0, 0, 0, 1, 0, 0, 0, 1}), Error);
}

TEST(Camera, EulerAnglesRoundTrip) {
  for (double roll = -3; roll <= 3; roll += 0.75) {
    for (double pitch = -1.5; pitch <= 1.5; pitch += 0.5) {
      for (double yaw = -3; yaw <= 3; yaw += 0.75) {
        const Vector3 back = euler_from_rotation(rotation_from_euler({roll, pitch, yaw}));
        EXPECT_NEAR(back[0], roll, 1e-12);
        EXPECT_NEAR(back[1], pitch, 1e-12);
        EXPECT_NEAR(back[2], yaw, 1e-12);
      }
    }
  }
  // A positive yaw turns forward to the right, a positive pitch turns it up (z points down).
  const Vector3 right = multiply(rotation_from_euler({0, 0, 0.1}), Vector3{1, 0, 0});
  EXPECT_NEAR(right[1], std::sin(0.1), 1e-15);
  const Vector3 up = multiply(rotation_from_euler({0, 0.1, 0}), Vector3{1, 0, 0});
  EXPECT_NEAR(up[2], -std::sin(0.1), 1e-15);
  // At the pole pitch stays within its bounds despite rounding errors.
  const double half_pi = std::numbers::pi / 2;
  EXPECT_NEAR(euler_from_rotation(rotation_from_euler({0, half_pi, 0}))[1], half_pi, 1e-7);
}

// Without rotation the warp is a zoom about the horizon: K_camera K_model^-1.
TEST(Camera, WarpWithoutCalibrationIsAZoom) {
  const Camera road = device_cameras("tici", "ar0231")->road;
  const double zoom = 2648.0 / 910;
  expect_near(warp_matrix({0, 0, 0}, road.intrinsics(), false),
              {zoom, 0, 964 - 256 * zoom, 0, zoom, 604 - 47.6 * zoom, 0, 0, 1}, 1e-10);
  const Camera wide = device_cameras("tici", "ar0231")->wide;
  const double wide_zoom = 567.0 / 455;
  expect_near(warp_matrix({0, 0, 0}, wide.intrinsics(), true),
              {wide_zoom, 0, 964 - 256 * wide_zoom, 0, wide_zoom, 604 - 151.8 * wide_zoom, 0, 0, 1}, 1e-10);
}

// The warp maps a road point's pixel in the model's frame to its pixel in the camera's picture.
TEST(Camera, WarpTakesAPointWhereTheCameraSeesIt) {
  const Vector3 rpy = {0.01, -0.02, 0.03}, point = {30, 2, 1.2};  // calibrated frame: 30 m ahead, 2 m right, 1.2 m down
  const Matrix3 k = device_cameras("tici", "ox03c10")->road.intrinsics();
  const Vector3 model = multiply(multiply(model_intrinsics(), view_from_device()), point);
  const Vector3 device = multiply(rotation_from_euler(rpy), point);
  const Vector3 camera = multiply(multiply(k, view_from_device()), device);
  const Vector3 warped = multiply(warp_matrix(rpy, k, false), model);
  EXPECT_NEAR(warped[0] / warped[2], camera[0] / camera[2], 1e-9);
  EXPECT_NEAR(warped[1] / warped[2], camera[1] / camera[2], 1e-9);
}

// The expected numbers are printed by tests/reference/frame_numpy.py.
TEST(Camera, WarpsAreNumPys) {
  const DeviceCameras tici = *device_cameras("tizi", "ox03c10"), mici = *device_cameras("mici", "os04c10");
  expect_near(warp_matrix({0.01, -0.02, 0.03}, tici.road.intrinsics(), false),
              {2.8764322550998207, -0.05168785137633389, 308.87940957998063, 0.009051814379859718, 2.896094570623223,
               516.3925821261494, -3.3180103063814845e-05, -2.1635954385035403e-05, 1.0088741082188803});
  expect_near(warp_matrix({0.01, -0.02, 0.03}, tici.wide.intrinsics(), true),
              {1.1815521259568946, -0.054917336591345116, 686.2366803992811, -0.027622725913898763, 1.219706096083009,
               436.86675522879, -6.636020612762969e-05, -4.327190877008022e-05, 1.0229070189257872});
  expect_near(warp_matrix({-0.04, 0.05, -0.06}, mici.road.intrinsics(), false),
              {1.294059560900064, 0.08489840776843334, 266.2686671749629, -0.025912961973806704, 1.2736433400975975,
               267.7992322451085, 6.364945541678748e-05, 5.741455865935988e-05, 0.9779258556077982});
  expect_near(warp_matrix({0, 0, 0}, device_cameras("neo", "")->road.intrinsics(), false),
              {1, 0, 326, 0, 1, 389.4, 0, 0, 1});
  expect_near(dm_warp_matrix(tici.driver.intrinsics()), {1, 0, 244, 0, 1, 248, 0, 0, 1});
  expect_near(dm_warp_matrix(mici.driver.intrinsics()), {0.75, 0, 132, 0, 0.75, 113, 0, 0, 1});
}

TEST(Camera, DevicesByNameAndBySize) {
  EXPECT_EQ(device_cameras("tici", "unknown")->road.focal_length, 2648);
  EXPECT_EQ(device_cameras("mici", "unknown")->road.width, 1344);
  EXPECT_EQ(device_cameras("tizi", "os04c10")->wide.focal_length, 425.25);
  EXPECT_EQ(device_cameras("neo", "unknown")->wide.width, 0);
  EXPECT_FALSE(device_cameras("toaster", "ar0231"));
  EXPECT_FALSE(device_cameras("tici", "imx000"));
  EXPECT_EQ(device_cameras(1928, 1208)->driver.focal_length, 567);
  EXPECT_EQ(device_cameras(1164, 874)->road.focal_length, 910);
  EXPECT_EQ(device_cameras(1344, 760)->road.focal_length, 1141.5);
  EXPECT_FALSE(device_cameras(1920, 1080));
}

TEST(Camera, ScalesWithThePicture) {
  const Camera small = device_cameras("tici", "ar0231")->road.scaled(526, 330);
  EXPECT_EQ(small.width, 526);
  EXPECT_DOUBLE_EQ(small.focal_length, 2648.0 * 526 / 1928);
  EXPECT_EQ(small.intrinsics(), (Matrix3{small.focal_length, 0, 263, 0, small.focal_length, 165, 0, 0, 1}));
}

}  // namespace
}  // namespace sparkpilot::drive
