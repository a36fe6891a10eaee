// Unit quaternions: rotations that are integrated and interpolated. Hamilton's convention, (w, x, y, z), as in
// openpilot and comma2k19; `a_from_b` rotates coordinates of b into those of a.
#pragma once

#include "route/contract/camera.h"

namespace sparkpilot::drive {

struct Quaternion {
  double w = 1, x = 0, y = 0, z = 0;
};

Quaternion operator*(const Quaternion& a, const Quaternion& b);
Quaternion conjugate(const Quaternion& q);
Vector3 rotate(const Quaternion& q, const Vector3& v);
// Length one; the identity if the length is zero or not finite.
Quaternion normalized(const Quaternion& q);

// Of roll, pitch, yaw (radians): the rotation of rotation_from_euler(), and back with pitch in [-pi/2, pi/2].
Quaternion quaternion_from_euler(const Vector3& roll_pitch_yaw);
Vector3 euler_from_quaternion(const Quaternion& q);
// Of an axis times its angle in radians.
Quaternion quaternion_from_rotation_vector(const Vector3& v);
// From `a` (share 0) to `b` (share 1) by the shorter way, at constant speed.
Quaternion slerp(const Quaternion& a, Quaternion b, double share);

}  // namespace sparkpilot::drive
