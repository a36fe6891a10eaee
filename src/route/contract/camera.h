// The cameras of openpilot's devices, and the geometry between them and the models' frames.
//
// Frames of reference, as in openpilot: device x forward, y right, z down; view (a camera) x right, y down, z forward;
// calibrated: the device's frame turned so that x is the direction of travel over the road.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace sparkpilot::drive {

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<double, 9>;  // row by row

Matrix3 multiply(const Matrix3& a, const Matrix3& b);
Vector3 multiply(const Matrix3& a, const Vector3& b);
Matrix3 transpose(const Matrix3& m);
// Fails (user) if the determinant is zero or not finite.
Matrix3 inverse(const Matrix3& m);
// Rotation matrix of roll, pitch, yaw (radians): Rz(yaw) Ry(pitch) Rx(roll).
Matrix3 rotation_from_euler(const Vector3& roll_pitch_yaw);
// The inverse of rotation_from_euler, pitch in [-pi/2, pi/2].
Vector3 euler_from_rotation(const Matrix3& rotation);

// A pinhole camera with its centre in the middle of the picture.
struct Camera {
  int width = 0, height = 0;
  double focal_length = 0;  // pixels
  // [[f, 0, w/2], [0, f, h/2], [0, 0, 1]]
  Matrix3 intrinsics() const;
  // The same camera's pictures scaled to another width, such as qcamera's.
  Camera scaled(int width, int height) const;
};

struct DeviceCameras {
  Camera road, wide, driver;  // wide: zero width if the device has none
};

// By `deviceState.deviceType` ("tici", "tizi", "mici", "neo", "pc") and `roadCameraState.sensor` ("ar0231", "ox03c10",
// "os04c10", "unknown"); empty for an unknown pair.
std::optional<DeviceCameras> device_cameras(std::string_view device_type, std::string_view sensor);
// By the width and height of the road camera's full pictures; empty for an unknown size.
std::optional<DeviceCameras> device_cameras(int width, int height);

// The models' own cameras: 512 x 256 pixels.
inline constexpr int kModelWidth = 512, kModelHeight = 256;
Matrix3 model_intrinsics();      // [[910, 0, 256], [0, 910, 47.6], [0, 0, 1]]
Matrix3 big_model_intrinsics();  // [[455, 0, 256], [0, 455, 151.8], [0, 0, 1]]

// Maps device coordinates to view coordinates: view_from_device.
Matrix3 view_from_device();
// Maps a pixel of the model's frame (homogeneous) to a pixel of the camera's picture, for the calibration `rpy`
// (liveCalibration.rpyCalib, radians; also for the wide camera the road camera's, as in openpilot). Source: openpilot,
// common/transformations/model.py, get_warp_matrix.
Matrix3 warp_matrix(const Vector3& rpy, const Matrix3& camera_intrinsics, bool big_model);

// The driver monitoring model's own camera: 1440 x 960 pixels, the middle columns and lowest rows of the
// tici's driver camera.
inline constexpr int kDriverModelWidth = 1440, kDriverModelHeight = 960;
Matrix3 driver_model_intrinsics();  // [[567, 0, 720], [0, 567, 356], [0, 0, 1]]
// Maps a pixel of that model's frame to one of the driver camera's picture. Without calibration, which is an input of
// the model. Source: openpilot, common/transformations/model.py and selfdrive/modeld/dmonitoringmodeld.py.
Matrix3 dm_warp_matrix(const Matrix3& camera_intrinsics);

}  // namespace sparkpilot::drive
