// Objects on the ground, as flat shapes of one picture, painted in their order with soft edges.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "route/contract/image.h"
#include "route/synth/noise.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {

struct Point2 {
  float x = 0, y = 0;
};

struct Shape {
  static constexpr int kMax = 10;
  std::array<Point2, kMax> points;  // of a convex polygon; for an ellipse its centre and half axes
  int count = 0;                    // 0: an ellipse
  Colour top, bottom;               // shaded from top to bottom
  float alpha = 1;
  float rough = 0;  // amplitude of noise in steps of luma, also on an ellipse's edge
  uint32_t dice = 0;
  int bottom_row = 0;  // hidden below this row (the ground before it)
};

class DrawList {
 public:
  explicit DrawList(const View& view) : view_(view) {}

  // A flat convex polygon of at most six corners in the level frame; the part behind the camera is cut off.
  void polygon(std::span<const Point3> corners, const Colour& top, const Colour& bottom, float alpha = 1);
  // An upright ellipse around `middle`, half `width` wide, half `height` high; `rough` in steps of luma.
  void blob(const Point3& middle, float width, float height, const Colour& top, const Colour& bottom, float rough,
            uint32_t dice, float alpha = 1);
  // Hides, below a row, the shapes added from here on.
  void hide_below(int row) { bottom_row_ = row; }

  const std::vector<Shape>& shapes() const { return shapes_; }
  // Paints all shapes into the rows [begin, end), both even.
  void paint(YuvImage& picture, int begin, int end, const Noise& noise) const;

 private:
  const View& view_;
  std::vector<Shape> shapes_;
  int bottom_row_ = 1 << 20;
};

}  // namespace sparkpilot::drive::synth
