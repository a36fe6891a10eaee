// Functions that libm rounds differently on different machines, made of +, -, *, / and square roots: the same bits
// everywhere. Good to about 1e-15 for angles up to some thousands of radians.
#pragma once

#include <cstdint>

#include "route/contract/camera.h"

namespace sparkpilot::drive::synth {

inline constexpr double kPi = 3.14159265358979323846;

struct SinCos {
  double sin, cos;
};
SinCos sin_cos(double x);
double arctan2(double y, double x);

// rotation_from_euler and euler_from_rotation of route/contract/camera.h, made of these functions.
Matrix3 rotation(const Vector3& roll_pitch_yaw);
Vector3 euler(const Matrix3& rotation);

inline Vector3 operator+(const Vector3& a, const Vector3& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
inline Vector3 operator-(const Vector3& a, const Vector3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
inline Vector3 operator*(double k, const Vector3& a) { return {k * a[0], k * a[1], k * a[2]}; }
Vector3 cross(const Vector3& a, const Vector3& b);
double length(const Vector3& a);

// 0 at 0, 1 at 1, level at both ends and beyond them; two derivatives continuous.
struct Step {
  double value, slope, bend;  // of x: the value, its first and second derivative
};
Step smooth_step(double x);

template <typename T>
T clamped(T x, T low, T high) {
  return x < low ? low : (x > high ? high : x);
}

// 32 bits for three numbers: position-dependent noise.
uint32_t hash(uint32_t a, uint32_t b, uint32_t c);

}  // namespace sparkpilot::drive::synth
