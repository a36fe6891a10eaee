// GridSample reads an image at the positions that a grid holds; AffineGrid makes such grids.
//
// Positions run from -1 to 1 across the image, x first. Any number of spatial axes.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::grid_sample_ops {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

Mode mode_of(const Attributes& attrs) {
  const std::string mode = attrs.text("mode", "linear");
  if (mode == "nearest") return Mode::nearest;
  if (mode == "linear" || mode == "bilinear") return Mode::linear;  // "bilinear" until opset 19
  if (mode == "cubic" || mode == "bicubic") return Mode::cubic;
  fail("mode is \"{}\", expected nearest, linear or cubic", mode);
}

Padding padding_of(const Attributes& attrs) {
  const std::string padding = attrs.text("padding_mode", "zeros");
  if (padding == "zeros") return Padding::zeros;
  if (padding == "border") return Padding::border;
  if (padding == "reflection") return Padding::reflection;
  fail("padding_mode is \"{}\", expected zeros, border or reflection", padding);
}

// The pixels of one axis that a position reads; index -1: a zero outside the image.
struct Taps {
  int count = 1;
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{1, 0, 0, 0};
};

struct Sampler {
  Mode mode;
  Padding padding;
  bool align_corners;

  // Reflects x at the edges until it is inside.
  double reflected(double x, int64_t size) const {
    const double low = align_corners ? 0 : -0.5, high = static_cast<double>(size) - (align_corners ? 1 : 0.5);
    const double span = high - low;
    if (x >= low && x <= high) return x;
    if (span <= 0) return 0;
    const double distance = x < low ? low - x : x - high;
    const double rest = std::fmod(distance, span);
    const bool even = std::fmod(std::floor(distance / span), 2.0) == 0;
    return (x < low) == even ? low + rest : high - rest;
  }

  // The index of the pixel to read, or -1 for a zero.
  int64_t pixel(double index, int64_t size) const {
    const auto last = static_cast<double>(size - 1);
    if (padding == Padding::zeros) return index >= 0 && index <= last ? static_cast<int64_t>(index) : -1;
    if (padding == Padding::reflection) index = reflected(index, size);
    return static_cast<int64_t>(std::clamp(index, 0.0, last));
  }

  // `n` is the normalised position; NaN counts as one pixel before the first.
  Taps taps(double n, int64_t size) const {
    const auto length = static_cast<double>(size);
    double x = align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
    if (std::isnan(x) || (std::isinf(x) && padding == Padding::reflection)) x = -1;
    if (mode == Mode::nearest) x = std::nearbyint(x);
    const bool outside = x < (align_corners ? 0 : -0.5) || x > length - (align_corners ? 1 : 0.5);
    // Cubic weights are those of the unclamped position; only the pixels that it reads are clamped.
    if (outside && padding == Padding::border && mode != Mode::cubic) x = std::clamp(x, 0.0, length - 1);
    if (outside && padding == Padding::reflection) x = reflected(x, size);
    const double base = std::floor(x), r = x - base;
    Taps out;
    if (mode == Mode::nearest) {
      out.index[0] = pixel(std::nearbyint(x), size);
      return out;
    }
    if (mode == Mode::linear) {
      out.count = 2;
      out.weight = {1 - r, r, 0, 0};
    } else {
      constexpr double a = -0.75;
      const auto near = [](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
      const auto far = [](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
      out.count = 4;
      out.weight = {far(r + 1), near(r), near(1 - r), far(2 - r)};
    }
    const double first = mode == Mode::linear ? base : base - 1;
    for (int i = 0; i < out.count; ++i) out.index[static_cast<size_t>(i)] = pixel(first + i, size);
    return out;
  }
};

// The weighted sum over the axes of `taps`. `step` is the stride of the first axis in elements.
template <typename T>
double sample(const T* x, std::span<const Taps> taps, std::span<const int64_t> sizes, int64_t step) {
  if (taps.empty()) return static_cast<double>(*x);
  const int64_t next = sizes.size() > 1 ? step / sizes[1] : 1;
  const Taps& t = taps.front();
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(t.count); ++i) {
    if (t.index[i] < 0 || t.weight[i] == 0) continue;
    sum += t.weight[i] * sample(x + t.index[i] * step, taps.subspan(1), sizes.subspan(1), next);
  }
  return sum;
}

void run_sample(const Call& c) {
  const ConstView &x = c.inputs[0], &grid = c.inputs[1];
  const Sampler sampler{mode_of(c.attrs()), padding_of(c.attrs()), c.attrs().integer("align_corners", 0) != 0};
  const Shape& shape = x.shape;
  const int dims = shape.rank() - 2;
  const int64_t channels = shape[1], image = shape.elements(2, shape.rank());
  const int64_t points = grid.shape.elements(1, grid.shape.rank() - 1);
  dispatch(NumericTypes{}, x.dtype, [&]<typename T>() {
    T* y = c.outputs[0].as<T>();
    parallel_for(shape[0] * points, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::array<Taps, Shape::kMaxRank> all;
        const std::span<Taps> taps(all.data(), static_cast<size_t>(dims));
        for (int d = 0; d < dims; ++d) {
          const double n = load_element(grid.dtype, grid.data, i * dims + dims - 1 - d);
          taps[static_cast<size_t>(d)] = sampler.taps(n, shape[d + 2]);
        }
        const int64_t batch = i / points, point = i % points;
        for (int64_t k = 0; k < channels; ++k) {
          const T* from = x.as<T>() + (batch * channels + k) * image;
          store_element(x.dtype, y, (batch * channels + k) * points + point,
                        sample<T>(from, taps, shape.dims().subspan(2), image / shape[2]));
        }
      }
    });
  });
}

void infer_sample(InferContext& c) {
  mode_of(c.attrs);
  padding_of(c.attrs);
  expect_dtype(c, 0, NumericTypes{}, "a number type");
  expect_float(c, 1);
  expect_rank(c, 0, 3, Shape::kMaxRank);
  const Shape &x = c.shape(0), &grid = c.shape(1);
  const int rank = x.rank();
  if (grid.rank() != rank || grid[0] != x[0] || grid[rank - 1] != rank - 2) {
    fail("grid {} does not fit images {}: expected rank {}, batch {} and {} coordinates", grid.str(), x.str(), rank,
         x[0], rank - 2);
  }
  for (int i = 2; i < rank; ++i) {
    if (x[i] == 0) fail("images {} are empty", x.str());
  }
  Shape y = x;
  for (int i = 2; i < rank; ++i) y.set(i, grid[i - 1]);
  c.output(0, c.dtype(0), Shape(y.dims()));
}

double sample_cost(const Problem& p) {
  const Mode mode = mode_of(p.attrs());
  const double taps = std::pow(mode == Mode::nearest ? 1 : mode == Mode::linear ? 2 : 4, p.inputs[0].shape.rank() - 2);
  return 2 * taps * static_cast<double>(p.outputs[0].shape.elements());
}

// ---------------------------------------------------------------- AffineGrid
// The i-th of `size` positions along an axis.
double position(int64_t i, int64_t size, bool align_corners) {
  const auto at = static_cast<double>(i), length = static_cast<double>(size);
  if (!align_corners) return (2 * at + 1) / length - 1;
  return size == 1 ? -1 : 2 * at / (length - 1) - 1;
}

void run_grid(const Call& c) {
  const Shape& y = c.outputs[0].shape;
  const int dims = y.rank() - 2;
  const bool align_corners = c.attrs().integer("align_corners", 0) != 0;
  const int64_t points = y.elements(1, y.rank() - 1);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    parallel_for(y[0] * points, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::array<double, 4> at{};  // x, y, z, 1
        int64_t rest = i % points;
        for (int d = 0; d < dims; ++d) {
          const int64_t size = y[dims - d];
          at[static_cast<size_t>(d)] = position(rest % size, size, align_corners);
          rest /= size;
        }
        at[static_cast<size_t>(dims)] = 1;
        const T* theta = c.inputs[0].as<T>() + i / points * dims * (dims + 1);
        for (int d = 0; d < dims; ++d) {
          double sum = 0;
          for (int k = 0; k <= dims; ++k) {
            sum += static_cast<double>(theta[d * (dims + 1) + k]) * at[static_cast<size_t>(k)];
          }
          c.outputs[0].as<T>()[i * dims + d] = T(static_cast<Compute<T>>(sum));
        }
      }
    });
  });
}

void infer_grid(InferContext& c) {
  expect_float(c, 0);
  const std::vector<int64_t> size = c.ints(1);
  if (size.size() != 4 && size.size() != 5) fail("size has {} values, expected 4 or 5", size.size());
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  expect_shape(c, 0, {size[0], dims, dims + 1});
  std::vector<int64_t> y(size.begin() + 1, size.end());
  y[0] = size[0];
  y.push_back(dims);
  c.output(0, c.dtype(0), Shape(y));
}

std::vector<OpCase> sample_cases() {
  const auto x = CaseInput::of({2, 3, 5, 7}), grid = CaseInput::range({2, 4, 6, 2}, -1.7, 1.7);
  const int64_t one = 1;
  return {{"linear", {x, grid}},
          {"nearest", {x, grid}, {{"mode", "nearest"}, {"padding_mode", "border"}}},
          {"cubic", {x, grid}, {{"mode", "cubic"}, {"padding_mode", "reflection"}, {"align_corners", one}}},
          {"bilinear", {x, grid}, {{"mode", "bilinear"}, {"padding_mode", "reflection"}}},
          {"volume", {CaseInput::of({1, 2, 3, 4, 5}), CaseInput::range({1, 2, 3, 4, 3}, -1.2, 1.2)}},
          {"bytes", {CaseInput::range({1, 1, 4, 4}, 0, 255, DType::u8), CaseInput::range({1, 3, 3, 2}, -1, 1)}}};
}

std::vector<OpCase> grid_cases() {
  const int64_t one = 1;
  return {
      {"plane", {CaseInput::of({2, 2, 3}), CaseInput::value(Tensor::ints({2, 1, 5, 7}))}},
      {"volume", {CaseInput::of({1, 3, 4}), CaseInput::value(Tensor::ints({1, 2, 3, 4, 5}))}, {{"align_corners", one}}},
      {"point",
       {CaseInput::of({1, 2, 3}, DType::f64), CaseInput::value(Tensor::ints({1, 1, 1, 3}))},
       {{"align_corners", one}}}};
}

// A position is a matrix times (x, y, 1); without being moved it is (x, y).
std::vector<ValueId> gradient_of_grid(GradContext& c) {
  const Term g(c.b, c.out_grads[0]);
  const Shape y = g.shape();
  const int64_t dims = y.rank() - 2, points = y.elements(1, y.rank() - 1);
  Tensor unmoved = Tensor::zeros(g.dtype(), Shape{1, dims, dims + 1});
  for (int64_t i = 0; i < dims; ++i) store_element(g.dtype(), unmoved.raw(), i * (dims + 2), 1);
  std::vector<int64_t> size{1, 1};
  size.insert(size.end(), y.begin() + 1, y.end() - 1);
  const Term at(c.b, c.b.add("AffineGrid", {c.b.constant(std::move(unmoved)), c.b.ints(size)}, c.node.attrs));
  const Term one(c.b, c.b.add("Expand", {g.number(1), c.b.ints({points, 1})}));
  const ValueId positions = c.b.add("Concat", {at.as(Shape{points, dims}), one}, {{"axis", int64_t{1}}});
  return {c.b.add("MatMul", {g.as(Shape{y[0], points, dims}).swapped(std::vector<int64_t>{0, 2, 1}), positions})};
}

constexpr AttrSpec kSampleAttrs[] = {
    {"align_corners", AttrType::integer}, {"mode", AttrType::text}, {"padding_mode", AttrType::text}};
constexpr AttrSpec kGridAttrs[] = {{"align_corners", AttrType::integer}};
constexpr Kernel kSample[] = {{.name = "reference", .run = run_sample}};
constexpr Kernel kGrid[] = {{.name = "reference", .run = run_grid}};

const OpDef kOps[] = {
    {.name = "GridSample",
     .doc = "An image read at the positions of a grid.",
     .since = 16,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kSampleAttrs,
     .infer = infer_sample,
     .cpu = kSample,
     .no_gradient = no_gradient::kPlaces,
     .cost = sample_cost,
     .cases = sample_cases},
    {.name = "AffineGrid",
     .doc = "A grid of positions moved by affine matrices.",
     .since = 20,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kGridAttrs,
     .infer = infer_grid,
     .cpu = kGrid,
     .grad = gradient_of_grid,
     .cases = grid_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::grid_sample_ops
