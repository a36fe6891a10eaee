#include "route/synth/geodesy.h"

#include <cmath>

#include "route/synth/maths.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr double kMajor = 6378137.0, kFlattening = 1 / 298.257223563;
constexpr double kMinor = kMajor * (1 - kFlattening);
constexpr double kSquared = kFlattening * (2 - kFlattening);  // the first eccentricity, squared
constexpr double kSecondSquared = kSquared / (1 - kSquared);

}  // namespace

Vector3 ecef_from_geodetic(const Geodetic& place) {
  const SinCos lat = sin_cos(place.latitude), lon = sin_cos(place.longitude);
  const double n = kMajor / std::sqrt(1 - kSquared * lat.sin * lat.sin);
  const double level = (n + place.altitude) * lat.cos;
  return {level * lon.cos, level * lon.sin, (n * (1 - kSquared) + place.altitude) * lat.sin};
}

Geodetic geodetic_from_ecef(const Vector3& p) {
  const double level = std::sqrt(p[0] * p[0] + p[1] * p[1]);
  double tan_reduced = kMajor * p[2] / (kMinor * level);
  double latitude = 0;
  for (int i = 0; i < 3; ++i) {
    const double scale = 1 / std::sqrt(1 + tan_reduced * tan_reduced);
    const double c = scale, s = tan_reduced * scale;
    latitude = arctan2(p[2] + kSecondSquared * kMinor * s * s * s, level - kSquared * kMajor * c * c * c);
    const SinCos lat = sin_cos(latitude);
    tan_reduced = (1 - kFlattening) * lat.sin / lat.cos;
  }
  const SinCos lat = sin_cos(latitude);
  const double n = kMajor / std::sqrt(1 - kSquared * lat.sin * lat.sin);
  // Both forms are exact; together they hold from the equator to the poles.
  const double altitude = level * lat.cos + p[2] * lat.sin - n * (1 - kSquared * lat.sin * lat.sin);
  return {latitude, arctan2(p[1], p[0]), altitude};
}

Matrix3 ecef_from_ned(const Geodetic& place) {
  const SinCos lat = sin_cos(place.latitude), lon = sin_cos(place.longitude);
  return {-lat.sin * lon.cos,
          -lon.sin,
          -lat.cos * lon.cos,  //
          -lat.sin * lon.sin,
          lon.cos,
          -lat.cos * lon.sin,  //
          lat.cos,
          0,
          -lat.sin};
}

}  // namespace sparkpilot::drive::synth
