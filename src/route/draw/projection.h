// From a model's points to pixels of a picture.
#pragma once

#include <optional>
#include <vector>

#include "route/contract/camera.h"
#include "route/log/model_record.h"

namespace sparkpilot::drive {

struct Pixel {
  double u = 0, v = 0;  // right, down; the centre of the first pixel is (0.5, 0.5)
};

// Points nearer to the camera are not projected; metres along its axis.
inline constexpr double kNearPlane = 0.5;
// Larger coordinates in a record are not measurements; metres.
inline constexpr double kFarthest = 1e4;
// Pixel coordinates are limited to this, so that they fit a drawing library's fixed point numbers.
inline constexpr double kPixelLimit = 2e4;

class Projection {
 public:
  // `intrinsics`: of the picture that pixels refer to.
  Projection(const Matrix3& intrinsics, const Vector3& rpy);

  // The pixel of a point in the calibrated frame, relative to the camera. Empty behind the near plane and for points
  // that are not finite.
  std::optional<Pixel> pixel(const Vector3& point) const;

 private:
  Matrix3 picture_from_calibrated_;
};

// A line's points between two distances ahead: cut exactly there, broken at points that are not finite or out of
// bounds. Lists of unequal lengths are cut to the shortest; a line of more than 512 points is thinned. `z_offset` is
// added to z.
std::vector<std::vector<Vector3>> runs_of(const Polyline& line, double z_offset, double from_x, double to_x);

// The outline of a band that lies flat on the road about a run: up its left side, back down its right one; empty if
// fewer than two points are visible. `half_width` in metres, but never narrower than `least` pixels on each side.
std::vector<Pixel> band(const Projection& projection, const std::vector<Vector3>& run, double half_width, double least);

// z of a line at the distance x, linear between points; empty beyond its ends.
std::optional<double> height_at(const Polyline& line, double x);

}  // namespace sparkpilot::drive
