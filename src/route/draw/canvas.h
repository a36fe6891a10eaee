// The frame of an SVG figure: header, axes, ticks and labels. Included only by the figures.
#pragma once

#include <string>
#include <vector>

#include "route/draw/markup.h"
#include "route/draw/plot.h"

namespace sparkpilot::drive {

// Larger numbers are not measurements, and their differences might not be finite.
bool plottable(double value);

struct Range {
  double low = 0, high = 1;
};
// The range of the values, if any; never empty, and with a margin above and below.
class RangeFinder {
 public:
  void add(double value);
  Range range(double room) const;

 private:
  bool any_ = false;
  double low_ = 0, high_ = 0;
};

struct LegendEntry {
  std::string name;
  size_t colour = 0;
  bool dashed = false;
};

// Opens an SVG with its style, title, description, heading and legend, and draws the axes on demand.
class Canvas {
 public:
  Canvas(const std::string& title, const std::string& description, int width, int height,
         const std::vector<LegendEntry>& legend);

  void axes(Range x, Range y, const std::string& x_label, const std::string& y_label);
  void vertical(const Mark& mark, bool label_left);
  void horizontal(const Mark& mark);
  void add(const std::string& markup) { body_ += markup; }
  // Writes a text in the middle of the empty area.
  void say(const std::string& text);

  double u(double x) const { return left_ + (x - x_.low) / (x_.high - x_.low) * (right_ - left_); }
  double v(double y) const { return bottom_ - (y - y_.low) / (y_.high - y_.low) * (bottom_ - top_); }
  double left() const { return left_; }
  double right() const { return right_; }
  double bottom() const { return bottom_; }
  std::string str() const { return body_ + "</g></svg>\n"; }

 private:
  std::string body_;
  double left_ = 56, right_ = 0, top_ = 0, bottom_ = 0;
  Range x_, y_;
};

}  // namespace sparkpilot::drive
