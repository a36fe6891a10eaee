#include "route/synth/maths.h"

#include <cmath>

namespace sparkpilot::drive::synth {

SinCos sin_cos(double x) {
  // Subtracts the nearest multiple of pi/2, in two parts so that no precision is lost; then Taylor's series within
  // pi/4.
  const double quarters = std::floor(x * (2 / kPi) + 0.5);
  const double r = (x - quarters * 1.5707963267341256) - quarters * 6.0771005065061922e-11;
  const double q = r * r;
  const double s =
      r * (1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72 * (1 - q / 110 * (1 - q / 156 * (1 - q / 210)))))));
  const double c =
      1 -
      q / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56 * (1 - q / 90 * (1 - q / 132 * (1 - q / 182 * (1 - q / 240)))))));
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

namespace {

double arctan_unit(double x) {  // 0 <= x <= 1
  // Halving the angle twice leaves at most 0.2.
  for (int i = 0; i < 2; ++i) x = x / (1 + std::sqrt(1 + x * x));
  const double q = x * x;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = 1.0 / n - q * sum;
  return 4 * x * sum;
}

}  // namespace

double arctan2(double y, double x) {
  const double ax = std::fabs(x), ay = std::fabs(y);
  if (ax == 0 && ay == 0) return 0;
  double angle = ay <= ax ? arctan_unit(ay / ax) : kPi / 2 - arctan_unit(ax / ay);
  if (x < 0) angle = kPi - angle;
  return y < 0 ? -angle : angle;
}

Matrix3 rotation(const Vector3& rpy) {
  const SinCos r = sin_cos(rpy[0]), p = sin_cos(rpy[1]), y = sin_cos(rpy[2]);
  return {y.cos * p.cos,
          y.cos * p.sin * r.sin - y.sin * r.cos,
          y.cos * p.sin * r.cos + y.sin * r.sin,
          y.sin * p.cos,
          y.sin * p.sin * r.sin + y.cos * r.cos,
          y.sin * p.sin * r.cos - y.cos * r.sin,
          -p.sin,
          p.cos * r.sin,
          p.cos * r.cos};
}

Vector3 euler(const Matrix3& m) {
  const double level = std::sqrt(m[0] * m[0] + m[3] * m[3]);
  return {arctan2(m[7], m[8]), arctan2(-m[6], level), arctan2(m[3], m[0])};
}

Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double length(const Vector3& a) { return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

Step smooth_step(double x) {
  if (x <= 0) return {0, 0, 0};
  if (x >= 1) return {1, 0, 0};
  return {x * x * x * (10 + x * (6 * x - 15)), 30 * x * x * (1 - x) * (1 - x), 60 * x * (1 - x) * (1 - 2 * x)};
}

uint32_t hash(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t h = a * 0x9E3779B1U ^ (b * 0x85EBCA77U + 0x7F4A7C15U) ^ (c * 0xC2B2AE3DU + 0x165667B1U);
  h ^= h >> 15;
  h *= 0x2C1B3C6DU;
  h ^= h >> 12;
  h *= 0x297A2D39U;
  return h ^ (h >> 15);
}

}  // namespace sparkpilot::drive::synth
