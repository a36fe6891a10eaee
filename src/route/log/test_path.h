// For tests: the helical drive of tests/reference/driven_path_numpy.py as a device would log it.
#pragma once

#include <cmath>

#include "route/log/driven_path.h"
#include "route/log/model_record.h"

namespace sparkpilot::drive {

inline constexpr double kHelixRadius = 80, kHelixSpeed = 15, kHelixClimb = 0.04, kHelixRoll = 0.03;
inline constexpr uint64_t kHelixStart = 5'000'000'000;  // ns

inline uint64_t helix_time(double seconds) { return kHelixStart + static_cast<uint64_t>(std::llround(seconds * 1e9)); }

struct HelixPlace {
  Vector3 position_ecef{};
  Matrix3 ecef_from_calibrated{};
};

inline HelixPlace helix(double seconds) {
  const double latitude = 37.6 * M_PI / 180, longitude = -122.4 * M_PI / 180, heading = 0.7;
  const double turn = kHelixSpeed * std::cos(kHelixClimb) * seconds / kHelixRadius;
  const Vector3 ned{kHelixRadius * (std::sin(heading + turn) - std::sin(heading)),
                    kHelixRadius * (std::cos(heading) - std::cos(heading + turn)),
                    -kHelixSpeed * std::sin(kHelixClimb) * seconds};
  const double sa = std::sin(latitude), ca = std::cos(latitude), so = std::sin(longitude), co = std::cos(longitude);
  const Matrix3 ecef_from_ned{-sa * co, -so, -ca * co, -sa * so, co, -ca * so, ca, 0, -sa};
  const Vector3 moved = multiply(ecef_from_ned, ned);
  return {{-2711096.074180729 + moved[0], -4272003.837059692 + moved[1], 3870370.788262634 + moved[2]},
          multiply(ecef_from_ned, rotation_from_euler({kHelixRoll, kHelixClimb, heading + turn}))};
}

// 20 Hz, both ends included.
inline Samples<LocationSample> helix_location(double seconds) {
  Samples<LocationSample> out;
  for (int i = 0; i <= std::lround(seconds * 20); ++i) {
    const HelixPlace place = helix(i / 20.0);
    out.add(helix_time(i / 20.0), {place.position_ecef, euler_from_rotation(place.ecef_from_calibrated)});
  }
  return out;
}

// The same drive by a device mounted askew.
inline Samples<PoseSample> helix_pose(double seconds, const Vector3& calibration) {
  const Matrix3 device_from_calibrated = rotation_from_euler(calibration);
  const double rate = kHelixSpeed * std::cos(kHelixClimb) / kHelixRadius;
  const Vector3 turn = multiply(transpose(rotation_from_euler({kHelixRoll, kHelixClimb, 0})), Vector3{0, 0, rate});
  Samples<PoseSample> out;
  for (int i = 0; i <= std::lround(seconds * 20); ++i)
    out.add(helix_time(i / 20.0),
            {multiply(device_from_calibrated, Vector3{kHelixSpeed, 0, 0}), multiply(device_from_calibrated, turn)});
  return out;
}

// The helix as a model that knows it would plan it, seen from any of its points: they are all alike.
inline ModelRecord helix_plan(uint32_t frame_id, double seconds) {
  ModelRecord plan;
  plan.frame_id = frame_id;
  plan.timestamp_eof = helix_time(seconds);
  const HelixPlace here = helix(seconds);
  const Matrix3 back = transpose(here.ecef_from_calibrated);
  for (int i = 0; i < 33; ++i) {
    const double t = 10.0 * i * i / 1024;
    const HelixPlace there = helix(seconds + t);
    Vector3 step{};
    for (size_t k = 0; k < 3; ++k) step[k] = there.position_ecef[k] - here.position_ecef[k];
    const Vector3 p = multiply(back, step), e = euler_from_rotation(multiply(back, there.ecef_from_calibrated));
    for (auto* line : {&plan.position, &plan.orientation}) line->t.push_back(static_cast<float>(t));
    plan.position.x.push_back(static_cast<float>(p[0]));
    plan.position.y.push_back(static_cast<float>(p[1]));
    plan.position.z.push_back(static_cast<float>(p[2]));
    plan.orientation.x.push_back(static_cast<float>(e[0]));
    plan.orientation.y.push_back(static_cast<float>(e[1]));
    plan.orientation.z.push_back(static_cast<float>(e[2]));
  }
  return plan;
}

}  // namespace sparkpilot::drive
