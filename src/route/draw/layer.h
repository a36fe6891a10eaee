// A transparent sheet that is drawn on with Cairo and blended over a YUV picture without converting the picture to RGB.
//
// Colours are full-range BT.601, as openpilot's screen and JPEG interpret the device's pictures.
#pragma once

#include <cairo/cairo.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "route/contract/image.h"
#include "route/draw/projection.h"

namespace sparkpilot::drive {

struct Colour {
  double r = 0, g = 0, b = 0;  // 0 to 1
};

enum class Align { left, centre, right };

class Layer {
 public:
  // Fails (internal) if Cairo does. The size must be positive and even.
  Layer(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }

  // Removes what was drawn since the last clear().
  void clear();
  // Blends what was drawn into `image`, of the layer's size. Only pixels that were drawn on change. Fails (internal) if
  // Cairo had an error while drawing.
  void blend_onto(YuvImage& image);

  // The following take finite coordinates within kPixelLimit.
  void fill(const std::vector<Pixel>& outline, Colour colour, double alpha);
  // Filled with an alpha that changes from `near_alpha` at row `near_v` to `far_alpha` at row `far_v`.
  void fill_fading(const std::vector<Pixel>& outline, Colour colour, double near_v, double near_alpha, double far_v,
                   double far_alpha);
  // `dash`: length of strokes and gaps in pixels, 0 for a solid line.
  void stroke(const std::vector<Pixel>& line, Colour colour, double alpha, double width, double dash = 0,
              bool closed = false);
  void rounded_box(double x, double y, double width, double height, double radius, Colour colour, double alpha);
  void circle(double x, double y, double radius, Colour colour, double alpha, double line_width);

  // `baseline` is the row on which letters stand. A dark rim of `rim` pixels keeps it readable on bright pictures.
  // Draws only valid UTF-8.
  void text(double x, double baseline, const std::string& text, double size, Colour colour, double alpha = 1,
            Align align = Align::left, double rim = 0, bool bold = false);
  double text_width(const std::string& text, double size, bool bold = false);

  // Until the next unclip(), nothing outside is drawn.
  void clip(double x, double y, double width, double height);
  void unclip();

 private:
  void outline(const std::vector<Pixel>& points, bool closed, double margin);
  void touch(double x0, double y0, double x1, double y1);
  void font(double size, bool bold);

  struct Delete {
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
    void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
  };
  int width_, height_;
  std::unique_ptr<cairo_surface_t, Delete> surface_;
  std::unique_ptr<cairo_t, Delete> cairo_;
  std::vector<std::pair<int, int>> dirty_;  // of every row: first column and one after the last
};

}  // namespace sparkpilot::drive
