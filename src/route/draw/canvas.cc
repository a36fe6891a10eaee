#include "route/draw/canvas.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive {
namespace {

// Okabe and Ito's colours, adapted so that they are visible on white paper and on a dark page.
constexpr const char* kStyle =
    ".sp{--paper:#fdfdfc;--ink:#1f2328;--soft:#667079;--grid:#e4e7ea;--c0:#0072b2;--c1:#d98200;--c2:#008f68;--c3:#"
    "b0568c;--c4:#c63d1f;"
    "--c5:#7b858e;font:12px system-ui,-apple-system,'Segoe UI',sans-serif;font-variant-numeric:tabular-nums}"
    "@media(prefers-color-scheme:dark){.sp{--paper:#14181c;--ink:#e6e9ec;--soft:#98a3ad;--grid:#2c333a;--c0:#56b4e9;--"
    "c1:#ffb03a;"
    "--c2:#35c99b;--c3:#e39ac4;--c4:#ff7a5c;--c5:#a8b2bb}}"
    "@media "
    "print{.sp{--paper:#fff;--ink:#000;--soft:#444;--grid:#ddd;--c0:#0072b2;--c1:#d98200;--c2:#008f68;--c3:#b0568c;"
    "--c4:#c63d1f;--c5:#7b858e}}"
    ".sp text{fill:var(--soft)}.sp .sp-h{fill:var(--ink);font-size:14px;font-weight:600}.sp .sp-i{fill:var(--ink)}"
    ".sp .sp-o{fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:4;stroke-linejoin:round}"
    ".sp-g{stroke:var(--grid);fill:none}.sp-a{stroke:var(--soft);fill:none}"
    ".sp-m{stroke:var(--soft);stroke-dasharray:3 3;fill:none}"
    ".sp-l{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}"
    ".sp-d{stroke-width:5}"
    ".c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}"
    ".c5{stroke:var(--c5)}.sp-b{fill:var(--c0);fill-opacity:.75}";

constexpr double kLetter = 6.7, kLegendRow = 18;

std::string line(const char* what, double x0, double y0, double x1, double y1) {
  return fmt::format(R"(<path class="{}" d="M{} {}L{} {}"/>)", what, coordinate(x0), coordinate(y0), coordinate(x1),
                     coordinate(y1));
}

std::string words(const char* what, double x, double y, const char* anchor, const std::string& text) {
  return fmt::format(R"(<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>)", what, coordinate(x), coordinate(y),
                     anchor, escape(text));
}

}  // namespace

bool plottable(double value) { return std::abs(value) <= 1e30; }

void RangeFinder::add(double value) {
  if (!plottable(value)) return;
  low_ = any_ ? std::min(low_, value) : value;
  high_ = any_ ? std::max(high_, value) : value;
  any_ = true;
}

Range RangeFinder::range(double room) const {
  if (!any_) return {0, 1};
  // The smallest range whose numbers can be distinguished on an axis.
  const double least = std::max(1e-12, 1e-6 * std::max(std::abs(low_), std::abs(high_)));
  if (high_ - low_ < least) {
    const double half = low_ == 0 ? 0.5 : std::max(0.05 * std::abs(low_), least);
    return {low_ - half, high_ + half};
  }
  return {low_ - room * (high_ - low_), high_ + room * (high_ - low_)};
}

Canvas::Canvas(const std::string& title, const std::string& description, int width, int height,
               const std::vector<LegendEntry>& legend) {
  width = std::clamp(width, 300, 4000);
  height = std::clamp(height, 160, 4000);
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sp\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\"><style>{2}</style><title>{3}</title><desc>{4}</desc><g>",
      width, height, kStyle, escape(title), escape(description));
  double y = 0;
  if (!title.empty()) body_ += words("sp-h", 0, y += 16, "start", shortened(title, static_cast<size_t>(width / 8)));
  double x = width;  // full: the first entry begins a row
  for (const LegendEntry& entry : legend) {
    const std::string name = shortened(entry.name, 40);
    const double wide = 26 + kLetter * static_cast<double>(letters(name)) + 16;
    if (x + wide > width && (x > 0 || y == 0)) {
      x = 0;
      y += kLegendRow + 2;
    }
    body_ += fmt::format(R"(<path class="sp-l c{}"{} style="stroke-width:3" d="M{} {}h18"/>)", entry.colour,
                         entry.dashed ? R"( stroke-dasharray="5 4")" : "", coordinate(x + 2), coordinate(y - 4));
    body_ += words("sp-i", x + 26, y, "start", name);
    x += wide;
  }
  top_ = y + 28;  // below the unit of the vertical axis
  right_ = width - 12;
  bottom_ = std::max(top_ + 20, height - 38.0);
}

void Canvas::axes(Range x, Range y, const std::string& x_label, const std::string& y_label) {
  x_ = x;
  y_ = y;
  const Ticks across = nice_ticks(x.low, x.high, static_cast<int>((right_ - left_) / 90));
  const Ticks up = nice_ticks(y.low, y.high, std::max(2, static_cast<int>((bottom_ - top_) / 38)));
  for (const double at : up.at) {
    body_ += line("sp-g", left_, v(at), right_, v(at)) + words("", left_ - 8, v(at) + 4, "end", number(at, up.step));
  }
  for (const double at : across.at) {
    body_ += line("sp-a", u(at), bottom_, u(at), bottom_ + 4) +
             words("", u(at), bottom_ + 17, "middle", number(at, across.step));
  }
  body_ += line("sp-a", left_, bottom_, right_, bottom_);
  body_ += words("", 0, top_ - 9, "start", y_label) + words("", right_, bottom_ + 33, "end", x_label);
  // For the read-out: where the axes lie and what they measure.
  body_ += fmt::format(R"(<g class="sp-area" data-box="{} {} {} {}" data-range="{:.9g} {:.9g} {:.9g} {:.9g}">)",
                       coordinate(left_), coordinate(top_), coordinate(right_), coordinate(bottom_), x.low, x.high,
                       y.low, y.high) +
           "</g>";
}

void Canvas::vertical(const Mark& mark, bool label_left) {
  if (!(mark.at >= x_.low && mark.at <= x_.high)) return;
  body_ += line("sp-m", u(mark.at), top_ - 4, u(mark.at), bottom_);
  body_ += words("sp-o", u(mark.at) + (label_left ? -5 : 5), top_ + 7, label_left ? "end" : "start",
                 shortened(mark.label, 30));
}

void Canvas::horizontal(const Mark& mark) {
  if (!(mark.at >= y_.low && mark.at <= y_.high)) return;
  body_ += line("sp-m", left_, v(mark.at), right_, v(mark.at));
  body_ += words("sp-o", right_, v(mark.at) - 5, "end", shortened(mark.label, 30));
}

void Canvas::say(const std::string& text) {
  body_ += words("", (left_ + right_) / 2, (top_ + bottom_) / 2 + 4, "middle", text);
}

}  // namespace sparkpilot::drive
