#include "route/contract/camera.h"

#include <cmath>

#include "base/error.h"

namespace sparkpilot::drive {

Matrix3 multiply(const Matrix3& a, const Matrix3& b) {
  Matrix3 c{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 3; ++k) c[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    }
  }
  return c;
}

Vector3 multiply(const Matrix3& a, const Vector3& b) {
  Vector3 c{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 3; ++k) c[i] += a[3 * i + k] * b[k];
  }
  return c;
}

Matrix3 transpose(const Matrix3& m) { return {m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]}; }

Matrix3 inverse(const Matrix3& m) {
  const Matrix3 adjugate = {m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
                            m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
                            m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  const double determinant = m[0] * adjugate[0] + m[1] * adjugate[3] + m[2] * adjugate[6];
  if (!std::isfinite(determinant) || determinant == 0)
    fail("a 3x3 matrix with determinant {} has no inverse", determinant);
  Matrix3 out{};
  for (size_t i = 0; i < 9; ++i) out[i] = adjugate[i] / determinant;
  return out;
}

Matrix3 rotation_from_euler(const Vector3& rpy) {
  const double cr = std::cos(rpy[0]), sr = std::sin(rpy[0]);
  const double cp = std::cos(rpy[1]), sp = std::sin(rpy[1]);
  const double cy = std::cos(rpy[2]), sy = std::sin(rpy[2]);
  return {cy * cp,
          cy * sp * sr - sy * cr,
          cy * sp * cr + sy * sr,
          sy * cp,
          sy * sp * sr + cy * cr,
          sy * sp * cr - cy * sr,
          -sp,
          cp * sr,
          cp * cr};
}

Vector3 euler_from_rotation(const Matrix3& r) {
  return {std::atan2(r[7], r[8]), std::asin(std::fmax(-1, std::fmin(1, -r[6]))), std::atan2(r[3], r[0])};
}

Matrix3 Camera::intrinsics() const { return {focal_length, 0, width / 2.0, 0, focal_length, height / 2.0, 0, 0, 1}; }

Camera Camera::scaled(int new_width, int new_height) const {
  return {new_width, new_height, focal_length * new_width / width};
}

namespace {

constexpr Camera kEonRoad{1164, 874, 910}, kEonDriver{816, 612, 650};
constexpr Camera kTiciRoad{1928, 1208, 2648}, kTiciWide{1928, 1208, 567};
constexpr Camera kOsRoad{1344, 760, 1141.5}, kOsWide{1344, 760, 425.25};
constexpr DeviceCameras kEon{kEonRoad, {}, kEonDriver};
constexpr DeviceCameras kTici{kTiciRoad, kTiciWide, kTiciWide};
constexpr DeviceCameras kOs{kOsRoad, kOsWide, kOsWide};

}  // namespace

std::optional<DeviceCameras> device_cameras(std::string_view device_type, std::string_view sensor) {
  if (device_type == "neo") return kEon;
  const bool mici = device_type == "mici";
  if (!mici && device_type != "tici" && device_type != "tizi" && device_type != "pc" && device_type != "unknown")
    return {};
  // Logs older than the field say "unknown": a tici's AR0231.
  if (sensor == "os04c10" || (mici && sensor == "unknown")) return kOs;
  if (sensor == "ar0231" || sensor == "ox03c10" || sensor == "unknown") return kTici;
  return {};
}

std::optional<DeviceCameras> device_cameras(int width, int height) {
  for (const DeviceCameras& device : {kEon, kTici, kOs}) {
    if (device.road.width == width && device.road.height == height) return device;
  }
  return {};
}

Matrix3 model_intrinsics() { return {910, 0, 256, 0, 910, 47.6, 0, 0, 1}; }
Matrix3 big_model_intrinsics() { return {455, 0, 256, 0, 455, 0.5 * (256 + 47.6), 0, 0, 1}; }

Matrix3 view_from_device() { return {0, 1, 0, 0, 0, 1, 1, 0, 0}; }

Matrix3 warp_matrix(const Vector3& rpy, const Matrix3& camera_intrinsics, bool big_model) {
  const Matrix3 view = view_from_device();
  const Matrix3 model_from_calibrated = multiply(big_model ? big_model_intrinsics() : model_intrinsics(), view);
  const Matrix3 camera_from_calibrated = multiply(multiply(camera_intrinsics, view), rotation_from_euler(rpy));
  return multiply(camera_from_calibrated, inverse(model_from_calibrated));
}

Matrix3 driver_model_intrinsics() { return {567, 0, 720, 0, 567, 356, 0, 0, 1}; }

Matrix3 dm_warp_matrix(const Matrix3& camera_intrinsics) {
  return inverse(multiply(driver_model_intrinsics(), inverse(camera_intrinsics)));
}

}  // namespace sparkpilot::drive
