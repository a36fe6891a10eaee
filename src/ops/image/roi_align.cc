// RoiAlign: pools regions of an image to a fixed size; each output is the mean or the maximum of bilinear samples (for
// the maximum, of their weighted corners, as ONNX defines it).
#include <algorithm>
#include <cmath>
#include <string>

#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::roi_align_ops {
namespace {

constexpr double kMaxSamples = 1 << 12;  // along one axis of one bin

// One axis of a bilinear sample: two pixels and the weight of the second; outside: no sample.
struct Corner {
  bool inside = false;
  int64_t low = 0, high = 0;
  double share = 0;
};

Corner corner(double at, int64_t size) {
  if (!(at >= -1) || at > static_cast<double>(size)) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {true, size - 1, size - 1, 0};
  return {true, low, low + 1, at - static_cast<double>(low)};
}

// One axis of a region: bins of `bin` from `start`, `samples` in each.
struct Extent {
  double start, bin;
  int64_t samples;
  double at(int64_t index, int64_t sample) const {
    return start +
           (static_cast<double>(index) + (static_cast<double>(sample) + 0.5) / static_cast<double>(samples)) * bin;
  }
};

Extent extent(double low, double high, double scale, bool half_pixel, int64_t bins, int64_t ratio) {
  const double offset = half_pixel ? 0.5 : 0, start = low * scale - offset;
  double size = high * scale - offset - start;
  if (!half_pixel) size = std::max(size, 1.0);  // regions with negative size count as one pixel
  const double bin = size / static_cast<double>(bins);
  if (ratio > 0) return {start, bin, ratio};
  const double samples = std::ceil(bin);
  if (samples > kMaxSamples) fail("a region from {} to {} is too large", low, high);
  return {start, bin, samples > 0 ? static_cast<int64_t>(samples) : 0};
}

template <typename T>
double pool(const T* image, int64_t width, int64_t height, const Extent& v, const Extent& h, int64_t row,
            int64_t column, bool maximum) {
  double sum = 0, top = 0;
  bool any = false;
  for (int64_t i = 0; i < v.samples; ++i) {
    const Corner y = corner(v.at(row, i), height);
    for (int64_t j = 0; j < h.samples; ++j) {
      const Corner x = corner(h.at(column, j), width);
      double parts[4] = {};
      if (y.inside && x.inside) {
        const auto pixel = [&](int64_t a, int64_t b) { return static_cast<double>(image[a * width + b]); };
        parts[0] = (1 - y.share) * (1 - x.share) * pixel(y.low, x.low);
        parts[1] = (1 - y.share) * x.share * pixel(y.low, x.high);
        parts[2] = y.share * (1 - x.share) * pixel(y.high, x.low);
        parts[3] = y.share * x.share * pixel(y.high, x.high);
      }
      sum += parts[0] + parts[1] + parts[2] + parts[3];
      const double largest = *std::max_element(parts, parts + 4);
      top = any ? std::max(top, largest) : largest;
      any = true;
    }
  }
  return maximum ? top : sum / static_cast<double>(std::max<int64_t>(1, v.samples * h.samples));
}

bool is_maximum(const Attributes& attrs) {
  const std::string mode = attrs.text("mode", "avg");
  if (mode != "avg" && mode != "max") fail("mode is \"{}\", expected avg or max", mode);
  return mode == "max";
}

bool is_half_pixel(const Attributes& attrs) {
  const std::string mode = attrs.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") fail("coordinate_transformation_mode is \"{}\"", mode);
  return mode == "half_pixel";
}

void run(const Call& c) {
  const Shape &x = c.inputs[0].shape, &y = c.outputs[0].shape;
  const bool maximum = is_maximum(c.attrs()), half_pixel = is_half_pixel(c.attrs());
  const int64_t ratio = c.attrs().integer("sampling_ratio", 0);
  const double scale = c.attrs().real("spatial_scale", 1);
  const auto* batch = c.inputs[2].as<int64_t>();
  for (int64_t i = 0; i < y[0]; ++i) {
    if (batch[i] < 0 || batch[i] >= x[0]) fail("batch index {} is {}, there are {} images", i, batch[i], x[0]);
  }
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    parallel_for(y[0] * y[1], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t region = i / y[1];
        const T* box = c.inputs[1].as<T>() + region * 4;
        const auto edge = [&](int k) { return static_cast<double>(box[k]); };
        const Extent h = extent(edge(0), edge(2), scale, half_pixel, y[3], ratio);
        const Extent v = extent(edge(1), edge(3), scale, half_pixel, y[2], ratio);
        const T* image = c.inputs[0].as<T>() + (batch[region] * x[1] + i % y[1]) * x[2] * x[3];
        T* out = c.outputs[0].as<T>() + i * y[2] * y[3];
        for (int64_t k = 0; k < y[2] * y[3]; ++k) {
          out[k] = T(static_cast<Compute<T>>(pool(image, x[3], x[2], v, h, k / y[3], k % y[3], maximum)));
        }
      }
    });
  });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  expect_same_dtype(c, 1, 0);
  expect_dtype(c, 2, TypeList<int64_t>{}, "i64");
  expect_rank(c, 0, 4, 4);
  expect_rank(c, 2, 1, 1);
  const int64_t regions = c.shape(2)[0];
  expect_shape(c, 1, {regions, 4});
  const Shape& x = c.shape(0);
  if (x[2] == 0 || x[3] == 0) fail("images {} are empty", x.str());
  is_maximum(c.attrs);
  is_half_pixel(c.attrs);
  const int64_t height = c.attrs.integer("output_height", 1), width = c.attrs.integer("output_width", 1);
  if (height < 1 || width < 1) fail("output is {} x {}", height, width);
  const int64_t ratio = c.attrs.integer("sampling_ratio", 0);
  if (ratio < 0 || static_cast<double>(ratio) > kMaxSamples) fail("sampling_ratio is {}", ratio);
  c.output(0, c.dtype(0), {regions, x[1], height, width});
}

// Until opset 15 positions were not shifted by half a pixel.
std::vector<ValueId> expand_unshifted(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  attrs.set("coordinate_transformation_mode", "output_half_pixel");
  return {e.b.add("RoiAlign", {e.in(0), e.in(1), e.in(2)}, std::move(attrs))};
}

double cost(const Problem& p) {
  const double ratio = std::max<double>(2, static_cast<double>(p.attrs().integer("sampling_ratio", 0)));
  return 11 * ratio * ratio * static_cast<double>(p.outputs[0].shape.elements());
}

std::vector<OpCase> cases() {
  const auto x = CaseInput::of({2, 3, 9, 11});
  const auto boxes = CaseInput::value(Tensor::of<float>({3, 4}, {0, 0, 8, 7, 2.5f, 1, 4, 9.5f, 6, 6, 3, 2}));
  const auto batch = CaseInput::value(Tensor::ints({0, 1, 1}));
  const Attributes size{{"output_height", int64_t{3}}, {"output_width", int64_t{2}}};
  Attributes sampled = size, largest = size;
  sampled.set("sampling_ratio", int64_t{2});
  sampled.set("coordinate_transformation_mode", "output_half_pixel");
  largest.set("mode", "max");
  largest.set("spatial_scale", 0.5f);
  return {
      {"mean", {x, boxes, batch}, size}, {"sampled", {x, boxes, batch}, sampled}, {"max", {x, boxes, batch}, largest}};
}

constexpr AttrSpec kAttrs[] = {{"coordinate_transformation_mode", AttrType::text},
                               {"mode", AttrType::text},
                               {"output_height", AttrType::integer},
                               {"output_width", AttrType::integer},
                               {"sampling_ratio", AttrType::integer},
                               {"spatial_scale", AttrType::real}};
constexpr AttrSpec kOldAttrs[] = {{"mode", AttrType::text},
                                  {"output_height", AttrType::integer},
                                  {"output_width", AttrType::integer},
                                  {"sampling_ratio", AttrType::integer},
                                  {"spatial_scale", AttrType::real}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {
    {.name = "RoiAlign",
     .doc = "Regions of an image pooled to a fixed size.",
     .since = 16,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .infer = infer,
     .cpu = kCpu,
     .no_gradient = no_gradient::kPlaces,
     .cost = cost,
     .cases = cases},
    {.name = "RoiAlign",
     .doc = "Positions not shifted by half a pixel.",
     .since = 10,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .expand = expand_unshifted},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::roi_align_ops
