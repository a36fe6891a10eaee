#include "route/draw/layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "route/draw/blend.h"

namespace sparkpilot::drive {
namespace {

constexpr std::pair<int, int> kClean{1 << 30, 0};
constexpr int kWhole = 32;  // pixels: blended ranges begin and end at multiples of it, for whole vectors

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) fail_internal("cairo: {}", cairo_status_to_string(status));
}

}  // namespace

Layer::Layer(int width, int height) : width_(width), height_(height) {
  surface_.reset(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, width, height));
  check(cairo_surface_status(surface_.get()));
  cairo_.reset(cairo_create(surface_.get()));
  check(cairo_status(cairo_.get()));
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);  // sub-pixel colours would become noise in the
                                                                    // chroma planes
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
  cairo_set_font_options(cairo_.get(), options);
  cairo_font_options_destroy(options);
  cairo_set_line_join(cairo_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_set_antialias(cairo_.get(), CAIRO_ANTIALIAS_FAST);
  dirty_.assign(static_cast<size_t>(height), kClean);
}

void Layer::clear() {
  cairo_surface_flush(surface_.get());
  unsigned char* data = cairo_image_surface_get_data(surface_.get());
  const int stride = cairo_image_surface_get_stride(surface_.get());
  for (size_t row = 0; row < dirty_.size(); ++row) {
    const auto [begin, end] = dirty_[row];
    if (begin < end)
      std::memset(data + row * static_cast<size_t>(stride) + 4 * begin, 0, 4 * static_cast<size_t>(end - begin));
    dirty_[row] = kClean;
  }
  cairo_surface_mark_dirty(surface_.get());
}

void Layer::touch(double x0, double y0, double x1, double y1) {
  const int left = std::clamp(static_cast<int>(std::floor(x0)), 0, width_),
            right = std::clamp(static_cast<int>(std::ceil(x1)), 0, width_),
            top = std::clamp(static_cast<int>(std::floor(y0)), 0, height_),
            bottom = std::clamp(static_cast<int>(std::ceil(y1)), 0, height_);
  for (int row = top; row < bottom; ++row) {
    auto& [begin, end] = dirty_[static_cast<size_t>(row)];
    begin = std::min(begin, left);
    end = std::max(end, right);
  }
}

void Layer::outline(const std::vector<Pixel>& points, bool closed, double margin) {
  cairo_new_path(cairo_.get());
  double x0 = kPixelLimit, y0 = kPixelLimit, x1 = -kPixelLimit, y1 = -kPixelLimit;
  for (const Pixel& p : points) {
    cairo_line_to(cairo_.get(), p.u, p.v);
    x0 = std::min(x0, p.u);
    y0 = std::min(y0, p.v);
    x1 = std::max(x1, p.u);
    y1 = std::max(y1, p.v);
  }
  if (closed) cairo_close_path(cairo_.get());
  touch(x0 - margin, y0 - margin, x1 + margin, y1 + margin);
}

void Layer::fill(const std::vector<Pixel>& points, Colour colour, double alpha) {
  if (points.size() < 3) return;
  outline(points, true, 1);
  cairo_set_source_rgba(cairo_.get(), colour.r, colour.g, colour.b, alpha);
  cairo_fill(cairo_.get());
}

void Layer::fill_fading(const std::vector<Pixel>& points, Colour colour, double near_v, double near_alpha, double far_v,
                        double far_alpha) {
  if (points.size() < 3) return;
  outline(points, true, 1);
  cairo_pattern_t* fade = cairo_pattern_create_linear(0, near_v, 0, far_v);
  cairo_pattern_add_color_stop_rgba(fade, 0, colour.r, colour.g, colour.b, near_alpha);
  cairo_pattern_add_color_stop_rgba(fade, 1, colour.r, colour.g, colour.b, far_alpha);
  cairo_set_source(cairo_.get(), fade);
  cairo_fill(cairo_.get());
  cairo_pattern_destroy(fade);
}

void Layer::stroke(const std::vector<Pixel>& points, Colour colour, double alpha, double width, double dash,
                   bool closed) {
  if (points.size() < 2) return;
  outline(points, closed, width + 1);
  cairo_set_source_rgba(cairo_.get(), colour.r, colour.g, colour.b, alpha);
  cairo_set_line_width(cairo_.get(), width);
  cairo_set_dash(cairo_.get(), &dash, dash > 0 ? 1 : 0, 0);
  cairo_stroke(cairo_.get());
}

void Layer::rounded_box(double x, double y, double width, double height, double radius, Colour colour, double alpha) {
  constexpr double kQuarter = std::numbers::pi / 2;
  cairo_new_path(cairo_.get());
  cairo_arc(cairo_.get(), x + width - radius, y + radius, radius, -kQuarter, 0);
  cairo_arc(cairo_.get(), x + width - radius, y + height - radius, radius, 0, kQuarter);
  cairo_arc(cairo_.get(), x + radius, y + height - radius, radius, kQuarter, 2 * kQuarter);
  cairo_arc(cairo_.get(), x + radius, y + radius, radius, 2 * kQuarter, 3 * kQuarter);
  cairo_close_path(cairo_.get());
  touch(x - 1, y - 1, x + width + 1, y + height + 1);
  cairo_set_source_rgba(cairo_.get(), colour.r, colour.g, colour.b, alpha);
  cairo_fill(cairo_.get());
}

void Layer::circle(double x, double y, double radius, Colour colour, double alpha, double line_width) {
  const double reach = radius + line_width + 1;
  touch(x - reach, y - reach, x + reach, y + reach);
  cairo_new_path(cairo_.get());
  cairo_arc(cairo_.get(), x, y, radius, 0, 2 * std::numbers::pi);
  cairo_set_source_rgba(cairo_.get(), colour.r, colour.g, colour.b, alpha);
  cairo_set_line_width(cairo_.get(), line_width);
  cairo_set_dash(cairo_.get(), nullptr, 0, 0);
  cairo_stroke(cairo_.get());
}

void Layer::font(double size, bool bold) {
  cairo_select_font_face(cairo_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo_.get(), std::round(size));
}

double Layer::text_width(const std::string& text, double size, bool bold) {
  font(size, bold);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo_.get(), one_line(text).c_str(), &extents);
  return extents.x_advance;
}

void Layer::text(double x, double baseline, const std::string& raw, double size, Colour colour, double alpha,
                 Align align, double rim, bool bold) {
  const std::string text = one_line(raw);
  font(size, bold);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo_.get(), text.c_str(), &extents);
  if (align == Align::centre) x -= extents.x_advance / 2;
  if (align == Align::right) x -= extents.x_advance;
  x = std::round(x);  // whole pixels: letters look alike from frame to frame, and their images are reused
  baseline = std::round(baseline);
  const double margin = rim + 2;
  touch(x + extents.x_bearing - margin, baseline + extents.y_bearing - margin,
        x + extents.x_bearing + extents.width + margin, baseline + extents.y_bearing + extents.height + margin);
  const auto show = [&](double dx, double dy) {
    cairo_move_to(cairo_.get(), x + dx, baseline + dy);
    cairo_show_text(cairo_.get(), text.c_str());
  };
  if (rim > 0) {
    cairo_set_source_rgba(cairo_.get(), 0, 0, 0, 0.5 * alpha);
    const double d = rim * std::numbers::sqrt2 / 2;
    const std::array<std::pair<double, double>, 8> around = {
        {{rim, 0}, {-rim, 0}, {0, rim}, {0, -rim}, {d, d}, {d, -d}, {-d, d}, {-d, -d}}};
    for (const auto& [dx, dy] : around) show(dx, dy);
  }
  cairo_set_source_rgba(cairo_.get(), colour.r, colour.g, colour.b, alpha);
  show(0, 0);
}

void Layer::clip(double x, double y, double width, double height) {
  cairo_save(cairo_.get());
  cairo_rectangle(cairo_.get(), x, y, width, height);
  cairo_clip(cairo_.get());
}

void Layer::unclip() { cairo_restore(cairo_.get()); }

void Layer::blend_onto(YuvImage& image) {
  check(cairo_status(cairo_.get()));
  cairo_surface_flush(surface_.get());
  const unsigned char* data = cairo_image_surface_get_data(surface_.get());
  const ptrdiff_t stride = cairo_image_surface_get_stride(surface_.get());
  const auto pixels = [&](ptrdiff_t row, int x) {
    return reinterpret_cast<const uint32_t*>(data + row * stride) + x;  // Cairo's rows begin at word boundaries
  };
  for (ptrdiff_t row = 0; row < height_; row += 2) {
    const auto above = dirty_[static_cast<size_t>(row)], below = dirty_[static_cast<size_t>(row) + 1];
    const int begin = std::min(above.first, below.first) / kWhole * kWhole, end = std::max(above.second, below.second);
    if (begin >= end) continue;
    const int whole = std::min(width_, (end + kWhole - 1) / kWhole * kWhole);
    uint8_t* y = image.y() + row * width_ + begin;
    const ptrdiff_t chroma = row / 2 * (width_ / 2) + begin / 2;
    blend_rows(pixels(row, begin), pixels(row + 1, begin), static_cast<size_t>(whole - begin),
               {y, y + width_, image.u() + chroma, image.v() + chroma});
  }
}

}  // namespace sparkpilot::drive

// Fontconfig stores its patterns as offsets instead of pointers, so a leak checker reports its memory as lost.
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SPARKPILOT_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SPARKPILOT_ADDRESS_SANITIZER
#endif
#ifdef SPARKPILOT_ADDRESS_SANITIZER
// x265 3.5 frees less than it takes when an encoder is closed; its leaks are listed here because a program has only one
// such list. NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig\nleak:libx265\n"; }
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
// NOLINTEND(bugprone-reserved-identifier)
#endif
