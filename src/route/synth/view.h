// One camera at one moment: rays, projections, and the place on the road that every pixel sees.
//
// The level frame: origin at the device, x ahead, y right, both horizontal, z down; metres.
#pragma once

#include <vector>

#include "route/synth/world.h"

namespace sparkpilot::drive::synth {

struct Point3 {
  float x = 0, y = 0, z = 0;
};

// A road at every kStep metres.
class RoadTable {
 public:
  static constexpr double kStep = 0.5;
  struct Row {
    double north, east, height, cos, sin;  // the last two of the heading
    float curvature, bank[2];
  };
  explicit RoadTable(const Road& road);

  // The row at or before `s`, if any is.
  int64_t index(double s) const;
  double s(int64_t index) const { return first_ + static_cast<double>(index) * kStep; }
  // Those before the first and behind the last are like these.
  const Row& at(int64_t index) const;

 private:
  double first_;
  std::vector<Row> rows_;
};

// The road around the car in the level frame, tabulated.
class Strip {
 public:
  static constexpr float kReach = 640;  // metres drawn as ground

  Strip(const World& world, const RoadTable& table, const Pose& pose);

  struct Place {
    float s = 0, d = 0;  // `s` relative to the car's
  };
  // The place below or above a point; its `s` is searched for near `hint`.
  Place locate(float x, float y, float hint) const;
  // How far the ground is below the device.
  float down(const Place& place) const;
  Point3 point(float s, float d, float up = 0) const;  // a place of the ground, `up` metres above it
  double origin() const { return origin_; }            // s of the car

 private:
  struct Row {
    float x, y, tx, ty, curvature, down, bank[2];
  };
  struct Between {
    const Row& a;
    const Row& b;
    float share;
    float mix(float Row::*field) const { return a.*field + share * (b.*field - a.*field); }
  };
  Between between(float s) const;
  float down(const Between& rows, float d) const;

  std::vector<Row> rows_;
  double origin_;
  float first_;  // `s` of the first row
  float left_edge_, right_edge_;
};

class View {
 public:
  View(const World& world, const Pose& pose, const Camera& camera);
  // A camera whose axis meets the picture at (`centre_x`, `centre_y`) instead of its middle.
  View(const Pose& pose, const Camera& camera, double centre_x, double centre_y, const Matrix3& view_from_calib);

  const Camera& camera() const { return camera_; }
  Point3 ray(float u, float v) const {
    return {ray_[0] * u + ray_[1] * v + ray_[2], ray_[3] * u + ray_[4] * v + ray_[5],
            ray_[6] * u + ray_[7] * v + ray_[8]};
  }
  // Right, down, ahead of the camera; the pixel is (x / z, y / z).
  Point3 project(const Point3& p) const {
    return {pixel_[0] * p.x + pixel_[1] * p.y + pixel_[2] * p.z, pixel_[3] * p.x + pixel_[4] * p.y + pixel_[5] * p.z,
            pixel_[6] * p.x + pixel_[7] * p.y + pixel_[8] * p.z};
  }
  double heading() const { return heading_; }  // of the level frame's x

 private:
  Camera camera_;
  float ray_[9], pixel_[9];
  double heading_;
};

// The ground that pixels see, at every kSpan-th column (and one beyond the last) of every row.
class GroundMap {
 public:
  static constexpr int kSpan = 16;
  static constexpr float kFar = 1e6F;
  struct Node {
    float s = 0, d = 0, range = kFar;  // kFar: no ground, the sky
  };
  GroundMap(const View& view, const Strip& strip);

  int columns() const { return columns_; }
  const Node& at(int row, int column) const {
    return nodes_[static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column)];
  }
  // One pixel separately; `near`: a place that its ray passes above, shortly before it ends. `down`: how far the ground
  // is below the device there (0: not known), and where the ray ends.
  Node trace(float u, float v, const Node& near, float* down = nullptr) const;

 private:
  void trace_column(int column);
  const View& view_;
  const Strip& strip_;
  int columns_;
  std::vector<Node> nodes_;
};

}  // namespace sparkpilot::drive::synth
