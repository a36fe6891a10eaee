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

// Nothing nearer to the camera is projected; metres along its axis.
inline constexpr double kNearPlane = 0.5;
// Coordinates in a record that are larger are no measurement; metres.
inline constexpr double kFarthest = 1e4;
// Pixels are held within this, which a drawing library's fixed point numbers can take.
inline constexpr double kPixelLimit = 2e4;

class Projection {
 public:
  // `intrinsics`: of the picture that pixels are told of.
  Projection(const Matrix3& intrinsics, const Vector3& rpy);

  // Of a point in the calibrated frame, relative to the camera. Empty behind the near plane and for what is not finite.
  std::optional<Pixel> pixel(const Vector3& point) const;

 private:
  Matrix3 picture_from_calibrated_;
};

// A line's points between two distances ahead: cut exactly there, broken where a point is not finite or out of
// all bounds. Lists of unequal lengths count as long as the shortest; a line of more than 512 points is thinned.
// `z_offset` is added to z.
std::vector<std::vector<Vector3>> runs_of(const Polyline& line, double z_offset, double from_x, double to_x);

// The outline of a band that lies flat on the road about a run: up its left side, back down its right one; empty where
// fewer than two points can be seen. `half_width` in metres, but never narrower than `least` pixels a side.
std::vector<Pixel> band(const Projection& projection, const std::vector<Vector3>& run, double half_width, double least);

// z of a line at the distance x, linear between points; empty beyond its ends.
std::optional<double> height_at(const Polyline& line, double x);

}  // namespace sparkpilot::drive
