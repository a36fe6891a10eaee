// DeformConv: a convolution whose taps are moved by learned offsets and weighted by a mask (Dai et al., "Deformable
// convolutional networks", ICCV 2017; Zhu et al., "Deformable ConvNets v2", CVPR 2019), for images of two dimensions.
//
// Between pixels the image is interpolated bilinearly; outside it is zero.
#include <cmath>

#include "base/parallel.h"
#include "ops/cpu/conv/conv_shape.h"
#include "ops/registry.h"

namespace sparkpilot::deform_conv_ops {
namespace {

struct DeformShape {
  ConvShape conv;
  int64_t offset_groups = 1;
};

DeformShape deform_shape(const Attributes& attrs, const Shape& x, const Shape& weights) {
  if (x.rank() != 4) fail("input has shape {}, only images of two dimensions are supported", x.str());
  DeformShape s{conv_shape(attrs, x, weights), attrs.integer("offset_group", 1)};
  if (s.offset_groups < 1 || s.conv.in_channels % s.offset_groups != 0) {
    fail("{} channels do not divide into {} offset groups", s.conv.in_channels, s.offset_groups);
  }
  return s;
}

struct ReferenceState : KernelState {
  DeformShape shape;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->shape = deform_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  return state;
}

template <typename T>
double sample(const T* plane, int64_t height, int64_t width, double h, double w) {
  if (!(h > -1 && w > -1 && h < static_cast<double>(height) && w < static_cast<double>(width))) return 0;
  const auto h0 = static_cast<int64_t>(std::floor(h)), w0 = static_cast<int64_t>(std::floor(w));
  const double fh = h - static_cast<double>(h0), fw = w - static_cast<double>(w0);
  const auto at = [&](int64_t i, int64_t j) {
    return i < 0 || j < 0 || i >= height || j >= width ? 0.0 : static_cast<double>(plane[i * width + j]);
  };
  return (1 - fh) * ((1 - fw) * at(h0, w0) + fw * at(h0, w0 + 1)) +
         fh * ((1 - fw) * at(h0 + 1, w0) + fw * at(h0 + 1, w0 + 1));
}

template <typename T>
void run_as(const Call& c, const DeformShape& shape) {
  const ConvShape& s = shape.conv;
  const KernelWindow& w = s.window;
  const int64_t taps = w.kernel_size(), area = w.out_size(), in_area = w.in_size(), in_group = s.in_per_group();
  const int64_t per_offset_group = s.in_channels / shape.offset_groups;
  const T* mask = c.has(4) ? c.inputs[4].as<T>() : nullptr;
  parallel_for(s.batch * s.out_channels * area, 1 + 16384 / (1 + in_group * taps), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t position = i % area, oc = i / area % s.out_channels, n = i / area / s.out_channels;
      const int64_t oh = position / w.out[2], ow = position % w.out[2];
      double sum = c.has(3) ? static_cast<double>(c.inputs[3].as<T>()[oc]) : 0.0;
      for (int64_t k = 0; k < in_group; ++k) {
        const int64_t channel = oc / s.out_per_group() * in_group + k;
        const int64_t group = n * shape.offset_groups + channel / per_offset_group;
        const T* plane = c.inputs[0].as<T>() + (n * s.in_channels + channel) * in_area;
        const T* filter = c.inputs[1].as<T>() + (oc * in_group + k) * taps;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const T* move = c.inputs[2].as<T>() + (group * taps + tap) * 2 * area + position;
          const double h = static_cast<double>(oh * w.stride[1] - w.pad_begin[1] + tap / w.kernel[2] * w.dilation[1]) +
                           static_cast<double>(move[0]);
          const double v = static_cast<double>(ow * w.stride[2] - w.pad_begin[2] + tap % w.kernel[2] * w.dilation[2]) +
                           static_cast<double>(move[area]);
          double value = sample(plane, w.in[1], w.in[2], h, v) * static_cast<double>(filter[tap]);
          if (mask) value *= static_cast<double>(mask[(group * taps + tap) * area + position]);
          sum += value;
        }
      }
      c.outputs[0].as<T>()[i] = T(static_cast<Compute<T>>(sum));
    }
  });
}

void run(const Call& c) {
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() { run_as<T>(c, c.as<ReferenceState>().shape); });
}

void infer(InferContext& c) {
  const DeformShape shape = deform_shape(c.attrs, c.shape(0), c.shape(1));
  const ConvShape& s = shape.conv;
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  const auto expect = [&](int i, const Shape& wanted) {
    if (c.dtype(i) != c.dtype(0)) fail("input {} is {}, expected {}", i, name(c.dtype(i)), name(c.dtype(0)));
    if (!(c.shape(i) == wanted)) fail("input {} has shape {}, expected {}", i, c.shape(i).str(), wanted.str());
  };
  const int64_t taps = shape.offset_groups * s.window.kernel_size(), h = s.window.out[1], w = s.window.out[2];
  expect(1, c.shape(1));
  expect(2, Shape{s.batch, taps * 2, h, w});
  if (c.has(3)) expect(3, Shape{s.out_channels});
  if (c.has(4)) expect(4, Shape{s.batch, taps, h, w});
  c.output(0, c.dtype(0), s.output());
}

// A bilinear sample costs about ten FLOPs more than a plain tap.
double cost(const Problem& p) { return 6 * deform_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape).conv.flops(); }

std::vector<OpCase> cases() {
  using Ints = std::vector<int64_t>;
  const auto f = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  return {{"plain", {f({2, 3, 6, 5}), f({4, 3, 3, 2}), f({2, 12, 4, 4})}, {}},
          {"mask_bias_groups",
           {f({1, 4, 6, 5}), f({6, 2, 3, 3}), f({1, 36, 3, 3}), f({6}), f({1, 18, 3, 3})},
           {{"group", int64_t{2}}, {"offset_group", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}}},
          {"f16",
           {CaseInput::of({1, 2, 4, 4}, DType::f16), CaseInput::of({2, 2, 2, 2}, DType::f16),
            CaseInput::of({1, 8, 2, 2}, DType::f16)},
           {{"dilations", Ints{2, 2}}}}};
}

constexpr AttrSpec kAttrs[] = {{"dilations", AttrType::integers},    {"group", AttrType::integer},
                               {"kernel_shape", AttrType::integers}, {"offset_group", AttrType::integer},
                               {"pads", AttrType::integers},         {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {{.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "DeformConv",
                       .doc = "Convolution with moved and weighted taps.",
                       .since = 19,
                       .inputs = {3, 5},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kPlaces,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::deform_conv_ops
