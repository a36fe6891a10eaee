// A road: its course, its height, the paint on it.
//
// Ground coordinates are north, east, down in metres from the route's origin; `s` is metres along the reference line,
// `d` metres to its right. Lanes of the own direction lie between the reference line and +d if traffic keeps right;
// everything is mirrored if it keeps left.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "route/synth/maths.h"

namespace sparkpilot::drive::synth {

// A seed chooses among the first three, unless a kind is asked for.
enum class RoadKind { highway, rural, city, winding };
inline constexpr std::array<std::string_view, 4> kRoadKinds{"highway", "rural", "city", "winding"};

enum class Paint : uint8_t { none, solid, dashed, twin };
struct LaneLine {
  double offset = 0;  // d of its middle
  Paint paint = Paint::none;
  bool yellow = false;
};
inline constexpr double kLineHalfWidth = 0.075, kTwinGap = 0.15;  // a twin's lines lie at +- kTwinGap
inline constexpr double kDashLength = 3.05, kDashPeriod = 12.2;

struct RoadPoint {
  double north = 0, east = 0, heading = 0, curvature = 0;  // curvature: positive to the right
  double height = 0, slope = 0;                            // positive upwards; height's derivative by s
};

class Road {
 public:
  Road() = default;
  // From `first` to `last` metres; no bend is tighter than `most_curvature`.
  Road(uint64_t seed, RoadKind kind, bool keep_left, double first, double last, double most_curvature);

  RoadPoint at(double s) const;
  // How far the land rises next to the road: on the left (0) or the right (1).
  double bank(double s, int hand) const;
  // North, east, down of the ground at (s, d).
  Vector3 place(double s, double d) const;

  double first() const { return first_; }
  double last() const { return first_ + static_cast<double>(knots_.size() - 2); }
  RoadKind kind() const { return kind_; }
  bool keep_left() const { return side_ < 0; }
  double side() const { return side_; }  // +1: traffic keeps right
  int lanes() const { return forward_; }
  int oncoming_lanes() const { return backward_; }
  double lane_width() const { return lane_width_; }
  // Middle of a lane: 0 is next to the reference line, -1 the first oncoming one.
  double lane_centre(int lane) const { return side_ * (lane + 0.5) * lane_width_; }
  // The boundary on the left or right of a lane as a driver in it sees it; `step` 1 is the one beyond.
  LaneLine boundary(int lane, bool right, int step) const;
  const std::vector<LaneLine>& lines() const { return lines_; }
  double left_edge() const { return edges_[0]; }  // d where the pavement ends
  double right_edge() const { return edges_[1]; }

 private:
  struct Knot {
    double north, east, heading, curvature;
  };
  struct Wave {
    double size, number, phase;
  };
  void lay_out(uint64_t seed);
  void bend(uint64_t seed, double length, double most_curvature);
  Knot along(const Knot& from, double change, double u) const;
  LaneLine line(int index) const;

  RoadKind kind_ = RoadKind::rural;
  double side_ = 1, first_ = 0, lane_width_ = 3.6;
  int forward_ = 1, backward_ = 1;
  double edges_[2] = {0, 0};
  std::vector<LaneLine> lines_;
  std::vector<Knot> knots_;  // a metre apart
  Wave hills_[3]{}, banks_[2][2]{};
  double bank_base_[2] = {0, 0};
};

}  // namespace sparkpilot::drive::synth
