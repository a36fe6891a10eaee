#include "ops/cpu/move/resize_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ir/resize.h"

namespace sparkpilot {
namespace {

template <typename Value, size_t kCount>
Value word(const Attributes& attrs, std::string_view key, std::string_view fallback,
           const std::array<std::pair<std::string_view, Value>, kCount>& words) {
  const std::string text = attrs.text(key, fallback);
  for (const auto& [name, value] : words) {
    if (name == text) return value;
  }
  std::string known;
  for (const auto& entry : words) known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.first);
  fail("{} is \"{}\", expected one of {}", key, text, known);
}

using M = ResizeMode;

// The input position of output position x. Nearest pixels are chosen in f32, the type of the scale: there 1.5 / 0.6f is
// 2.5, not slightly less, so a position midway between two pixels is recognised as such.
template <typename Real>
Real source_position(const ResizeExtent& extent, M::Coordinates coordinates, Real x) {
  struct {
    Real in, out, scale, length, start, end;
  } const e{static_cast<Real>(extent.in),     static_cast<Real>(extent.out),   static_cast<Real>(extent.scale),
            static_cast<Real>(extent.length), static_cast<Real>(extent.start), static_cast<Real>(extent.end)};
  constexpr Real half = 0.5;
  const Real last = e.in - 1;
  switch (coordinates) {
    case M::half_pixel: return (x + half) / e.scale - half;
    case M::half_pixel_symmetric: {
      const Real missing = 1 - e.out / e.length;
      return e.in / 2 * missing + (x + half) / e.scale - half;
    }
    case M::pytorch_half_pixel: return extent.out == 1 ? 0 : (x + half) / e.scale - half;
    case M::align_corners: return e.length == 1 ? 0 : x * last / (e.length - 1);
    case M::asymmetric: return x / e.scale;
    case M::tf_half_pixel_for_nn: return (x + half) / e.scale;
    case M::tf_crop_and_resize:
      if (e.length == 1) return half * (e.start + e.end) * last;
      return e.start * last + x * (e.end - e.start) * last / (e.length - 1);
  }
  return 0;
}

double rounded(double x, M::Rounding rounding) {
  switch (rounding) {
    case M::prefer_floor: return std::ceil(x - 0.5);
    case M::prefer_ceil: return std::floor(x + 0.5);
    case M::floor: return std::floor(x);
    case M::ceil: return std::ceil(x);
    case M::by_scale: break;  // settled by axis
  }
  return 0;
}

// The weight of an input pixel at this distance.
double filter(const M& mode, double distance) {
  const double x = std::abs(distance), a = mode.cubic_a;
  if (mode.kind == M::linear) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Clamped to the bounds; 0 for NaN.
int32_t clamped(double index, int64_t size) {
  return static_cast<int32_t>(index > 0 ? std::min(index, static_cast<double>(size - 1)) : 0.0);
}

// The float operand's values; empty if it is absent.
std::vector<double> reals_of(const Tensor& tensor) {
  std::vector<double> out;
  if (!tensor.present()) return out;
  if (!is_float(tensor.dtype())) fail("scales or roi is {}, expected a float type", name(tensor.dtype()));
  for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(load_element(tensor.dtype(), tensor.raw(), i));
  return out;
}

// The axes that the operands refer to, in memory order.
std::vector<int> axes_of(const Shape& x, const Attributes& attrs) {
  std::vector<int64_t> axes = attrs.integers("axes");
  if (!attrs.has("axes")) {
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  const bool channels_last = attrs.integer("channels_last", 0) != 0;
  std::vector<int> out;
  for (const int64_t raw : axes) {
    const int axis = normalize_axis(raw, x.rank());
    const int at = !channels_last || axis == 0 ? axis : axis == 1 ? x.rank() - 1 : axis - 1;
    if (std::find(out.begin(), out.end(), at) != out.end()) fail("axis {} is named twice", raw);
    out.push_back(at);
  }
  return out;
}

void set_scales(std::vector<ResizeExtent>& extents, const std::vector<int>& axes, const std::vector<double>& scales,
                bool crop) {
  if (scales.size() != axes.size()) fail("{} scales given for {} axes", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeExtent& e = extents[static_cast<size_t>(axes[i])];
    if (!(scales[i] > 0) || !std::isfinite(scales[i])) fail("scale {} is {}, expected above 0", i, scales[i]);
    e.scale = scales[i];
    e.length = static_cast<double>(e.in) * e.scale;
    const double span = crop ? e.end - e.start : 1;
    // In f32, the type of the scale: 10 * 0.7f is 7, not 6.
    const float out = std::floor(static_cast<float>(static_cast<double>(e.in) * span) * static_cast<float>(e.scale));
    if (!(out >= 0) || out > static_cast<float>(Shape::kMaxElements))
      fail("axis {} would have {} elements", axes[i], out);
    e.out = static_cast<int64_t>(out);
  }
}

void set_sizes(std::vector<ResizeExtent>& extents, const std::vector<int>& axes, const std::vector<int64_t>& sizes,
               std::string_view policy) {
  if (sizes.size() != axes.size()) fail("{} sizes given for {} axes", sizes.size(), axes.size());
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeExtent& e = extents[static_cast<size_t>(axes[i])];
    if (sizes[i] < 0 || sizes[i] > Shape::kMaxElements) fail("size {} is {}", i, sizes[i]);
    if (e.in == 0 && sizes[i] != 0) fail("axis {} is empty and cannot become {}", axes[i], sizes[i]);
    e.out = sizes[i];
    e.length = static_cast<double>(e.out);
    e.scale = e.in == 0 ? 1 : e.length / static_cast<double>(e.in);
    if (e.in == 0) continue;
    common = policy == "not_larger" ? std::min(common, e.scale) : std::max(common, e.scale);
  }
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller") fail("keep_aspect_ratio_policy is \"{}\"", policy);
  for (const int axis : axes) {
    ResizeExtent& e = extents[static_cast<size_t>(axis)];
    if (e.in == 0) continue;
    e.scale = common;
    e.length = common * static_cast<double>(e.in);
    if (e.length > static_cast<double>(Shape::kMaxElements)) fail("axis {} would have {} elements", axis, e.length);
    e.out = static_cast<int64_t>(std::floor(e.length + 0.5));
  }
}

// Sets the taps of position x of an axis with weights, clamped at the edges.
void set_taps(ResizeAxis& axis, const ResizeExtent& e, const M& mode, int64_t x, double at) {
  const double shrink = mode.antialias ? std::min(e.scale, 1.0) : 1.0;
  const double base = std::floor(at), ratio = at - base;
  const auto first = 1 - axis.taps / 2;
  const auto slot = [&](int64_t tap) { return static_cast<size_t>(tap * axis.out + x); };
  double sum = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const auto step = static_cast<double>(first + tap);
    double weight = filter(mode, (step - ratio) * shrink);
    const double index = base + step;
    if (mode.exclude_outside && (index < 0 || index >= static_cast<double>(e.in))) weight = 0;
    axis.index[slot(tap)] = clamped(index, e.in);
    axis.weight[slot(tap)] = weight;
    sum += weight;
  }
  if ((mode.antialias || mode.exclude_outside) && sum != 0) {
    for (int64_t tap = 0; tap < axis.taps; ++tap) axis.weight[slot(tap)] /= sum;
  }
}

}  // namespace

ResizeMode::ResizeMode(const Attributes& attrs) {
  using Named = std::pair<std::string_view, Kind>;
  kind = word(attrs, "mode", "nearest",
              std::array{Named{"nearest", nearest}, Named{"linear", linear}, Named{"cubic", cubic}});
  using Place = std::pair<std::string_view, Coordinates>;
  coordinates = word(attrs, "coordinate_transformation_mode", "half_pixel",
                     std::array{Place{"half_pixel", half_pixel}, Place{"half_pixel_symmetric", half_pixel_symmetric},
                                Place{"pytorch_half_pixel", pytorch_half_pixel}, Place{"align_corners", align_corners},
                                Place{"asymmetric", asymmetric}, Place{"tf_half_pixel_for_nn", tf_half_pixel_for_nn},
                                Place{"tf_crop_and_resize", tf_crop_and_resize}});
  using Round = std::pair<std::string_view, Rounding>;
  rounding = word(attrs, "nearest_mode", "round_prefer_floor",
                  std::array{Round{"round_prefer_floor", prefer_floor}, Round{"round_prefer_ceil", prefer_ceil},
                             Round{"floor", floor}, Round{"ceil", ceil}, Round{kRoundByScale, by_scale}});
  cubic_a = attrs.real("cubic_coeff_a", -0.75f);
  antialias = attrs.integer("antialias", 0) != 0;
  exclude_outside = attrs.integer("exclude_outside", 0) != 0;
  extrapolation = attrs.real("extrapolation_value", 0);
}

std::vector<ResizeExtent> resize_extents(const Shape& x, const Attributes& attrs, const ResizeOperands& operands) {
  const std::vector<int> axes = axes_of(x, attrs);
  std::vector<ResizeExtent> extents;
  for (const int64_t in : x) extents.push_back({.in = in, .out = in, .length = static_cast<double>(in)});
  const bool crop = ResizeMode(attrs).coordinates == ResizeMode::tf_crop_and_resize;
  if (crop) {
    const std::vector<double> roi = reals_of(operands.roi);
    if (roi.size() != 2 * axes.size()) fail("roi has {} numbers for {} axes", roi.size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      const double start = roi[i], end = roi[axes.size() + i];
      if (!std::isfinite(start) || !std::isfinite(end)) fail("roi of axis {} is [{}, {}]", axes[i], start, end);
      extents[static_cast<size_t>(axes[i])].start = start;
      extents[static_cast<size_t>(axes[i])].end = end;
    }
  }
  const bool scales = operands.scales.present() && operands.scales.elements() > 0;
  const bool sizes = operands.sizes.present() && operands.sizes.elements() > 0;
  if (scales == sizes && x.rank() > 0) fail("expected either scales or sizes, {} given", scales ? "both" : "none");
  if (scales) set_scales(extents, axes, reals_of(operands.scales), crop);
  if (sizes) {
    set_sizes(extents, axes, operands.sizes.to_ints(), attrs.text("keep_aspect_ratio_policy", "stretch"));
  }
  return extents;
}

bool resize_operands_constant(const Problem& p) {
  for (size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.has(i) && !p.is_constant(i)) return false;
  }
  return true;
}

ResizeOperands resize_operands(const Problem& p) {
  const auto at = [&](size_t i) { return i < p.constants.size() ? p.constants[i] : Tensor(); };
  return {at(1), at(2), at(3)};
}

ResizeAxis resize_axis(const ResizeExtent& e, const ResizeMode& mode) {
  ResizeAxis axis{.in = e.in, .out = e.out};
  const bool whole = mode.coordinates != ResizeMode::tf_crop_and_resize || (e.start == 0 && e.end == 1);
  axis.identity = e.in == e.out && e.scale == 1 && whole;
  if (axis.identity || e.out == 0) return axis;
  if (e.in == 0) fail("an empty axis cannot become {}", e.out);
  if (e.in > INT32_MAX) fail("an axis of {} elements is too long to resize", e.in);
  if (mode.kind != ResizeMode::nearest) {
    const double reach = (mode.kind == ResizeMode::cubic ? 2 : 1) / (mode.antialias ? std::min(e.scale, 1.0) : 1.0);
    // Only a region of interest far from the image needs more weights than this.
    const double weights = (2 * reach + 2) * static_cast<double>(e.out);
    if (weights > 16 * static_cast<double>(e.in + e.out) + 64)
      fail("{} weights to resize {} to {}", weights, e.in, e.out);
    axis.taps = 2 * static_cast<int64_t>(std::ceil(reach));
    axis.weight.resize(static_cast<size_t>(axis.taps * e.out));
  }
  axis.index.resize(static_cast<size_t>(axis.taps * e.out));
  if (mode.coordinates == ResizeMode::tf_crop_and_resize) axis.replaced.resize(static_cast<size_t>(e.out));
  for (int64_t x = 0; x < e.out; ++x) {
    const double at = mode.kind == ResizeMode::nearest ? source_position(e, mode.coordinates, static_cast<float>(x))
                                                       : source_position(e, mode.coordinates, static_cast<double>(x));
    if (!axis.replaced.empty()) axis.replaced[static_cast<size_t>(x)] = at < 0 || at > static_cast<double>(e.in - 1);
    if (mode.kind == ResizeMode::nearest) {
      const ResizeMode::Rounding rounding = mode.rounding != ResizeMode::by_scale ? mode.rounding
                                            : e.scale < 1                         ? ResizeMode::ceil
                                                                                  : ResizeMode::floor;
      axis.index[static_cast<size_t>(x)] = clamped(rounded(at, rounding), e.in);
    } else {
      set_taps(axis, e, mode, x, at);
    }
  }
  return axis;
}

}  // namespace sparkpilot
