#include "route/log/quaternion.h"

#include <cmath>
#include <utility>

namespace sparkpilot::drive {

Quaternion operator*(const Quaternion& a, const Quaternion& b) {
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

Quaternion conjugate(const Quaternion& q) { return {q.w, -q.x, -q.y, -q.z}; }

Vector3 rotate(const Quaternion& q, const Vector3& v) {
  const Quaternion r = q * Quaternion{0, v[0], v[1], v[2]} * conjugate(q);
  return {r.x, r.y, r.z};
}

Quaternion normalized(const Quaternion& q) {
  const double length = std::sqrt(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
  if (!std::isfinite(length) || length == 0) return {};
  return {q.w / length, q.x / length, q.y / length, q.z / length};
}

Quaternion quaternion_from_euler(const Vector3& rpy) {
  const auto half_turn = [&](size_t axis) { return std::pair(std::cos(rpy[axis] / 2), std::sin(rpy[axis] / 2)); };
  const auto [cr, sr] = half_turn(0);
  const auto [cp, sp] = half_turn(1);
  const auto [cy, sy] = half_turn(2);
  return Quaternion{cy, 0, 0, sy} * Quaternion{cp, 0, sp, 0} * Quaternion{cr, sr, 0, 0};
}

Vector3 euler_from_quaternion(const Quaternion& q) {
  return {std::atan2(2 * (q.w * q.x + q.y * q.z), 1 - 2 * (q.x * q.x + q.y * q.y)),
          std::asin(std::fmax(-1, std::fmin(1, 2 * (q.w * q.y - q.z * q.x)))),
          std::atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))};
}

Quaternion quaternion_from_rotation_vector(const Vector3& v) {
  const double angle = std::hypot(v[0], v[1], v[2]);
  // sin(a / 2) / a, whose limit at 0 is a half
  const double scale = angle < 1e-8 ? 0.5 : std::sin(angle / 2) / angle;
  return normalized({std::cos(angle / 2), v[0] * scale, v[1] * scale, v[2] * scale});
}

Quaternion slerp(const Quaternion& a, Quaternion b, double share) {
  double cosine = a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z;
  if (cosine < 0) {
    b = {-b.w, -b.x, -b.y, -b.z};
    cosine = -cosine;
  }
  double from = 1 - share, to = share;
  if (cosine < 1 - 1e-9) {  // if the rotations are closer, the chord equals the arc
    const double angle = std::acos(cosine);
    from = std::sin(from * angle) / std::sin(angle);
    to = std::sin(to * angle) / std::sin(angle);
  }
  return normalized({from * a.w + to * b.w, from * a.x + to * b.x, from * a.y + to * b.y, from * a.z + to * b.z});
}

}  // namespace sparkpilot::drive
