// Places on the earth (WGS 84): geodetic, ECEF, and north-east-down at a place.
#pragma once

#include "route/contract/camera.h"

namespace sparkpilot::drive::synth {

struct Geodetic {
  double latitude = 0, longitude = 0;  // radians
  double altitude = 0;                 // metres over the ellipsoid
};

Vector3 ecef_from_geodetic(const Geodetic& place);
// Bowring's formula: below a micrometre for places near the ground.
Geodetic geodetic_from_ecef(const Vector3& ecef);
// Columns: north, east, down.
Matrix3 ecef_from_ned(const Geodetic& place);

}  // namespace sparkpilot::drive::synth
