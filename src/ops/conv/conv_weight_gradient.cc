// The gradient of a convolution's weights.
//
// dw[o, i, k] = sum over n, p of x[n, i, p * stride - pad + k * dilation] * dy[n, o, p], in groups of channels.
#include "ops/cpu/conv/conv_loop.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

// The convolution's weights [O, I / groups, kernel].
Shape weights_shape(const Attributes& attrs, const Shape& x, const Shape& dy) {
  const int64_t groups = attrs.integer("group", 1);
  if (x.rank() < 3 || dy.rank() != x.rank())
    fail("an image {} and the gradient {} of its convolution", x.str(), dy.str());
  if (groups < 1 || x[1] % groups != 0) fail("{} channels in {} groups", x[1], groups);
  std::vector<int64_t> dims{dy[1], x[1] / groups};
  for (const int64_t size : attrs.integers("kernel_shape")) dims.push_back(size);
  return Shape(dims);
}

ConvShape shape_of(const Attributes& attrs, const Shape& x, const Shape& dy) {
  ConvShape s = conv_shape(attrs, x, weights_shape(attrs, x, dy));
  if (!(s.output() == dy)) fail("the gradient is {}, the convolution gives {}", dy.str(), s.output().str());
  return s;
}

void infer(InferContext& c) {
  if (!is_float(c.dtype(0)) || c.dtype(1) != c.dtype(0)) fail("{} and {}", name(c.dtype(0)), name(c.dtype(1)));
  shape_of(c.attrs, c.shape(0), c.shape(1));
  c.output(0, c.dtype(0), weights_shape(c.attrs, c.shape(0), c.shape(1)));
}

void run(const Call& c) {
  const ConvShape s = shape_of(c.attrs(), c.inputs[0].shape, c.inputs[1].shape);
  const KernelWindow& w = s.window;
  const int64_t taps = w.kernel_size(), in_group = s.in_per_group();
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    const T* dy = c.inputs[1].as<T>();
    T* dw = c.outputs[0].as<T>();
    parallel_for(s.out_channels * in_group, 1, [&](int64_t first, int64_t last) {
      for (int64_t filter = first; filter < last; ++filter) {
        const int64_t o = filter / in_group, i = o / s.out_per_group() * in_group + filter % in_group;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t kw = tap % w.kernel[2], kh = tap / w.kernel[2] % w.kernel[1],
                        kd = tap / w.kernel[2] / w.kernel[1];
          double sum = 0;
          for (int64_t n = 0; n < s.batch; ++n) {
            for (int64_t od = 0; od < w.out[0]; ++od) {
              const int64_t d = od * w.stride[0] - w.pad_begin[0] + kd * w.dilation[0];
              if (d < 0 || d >= w.in[0]) continue;
              for (int64_t oh = 0; oh < w.out[1]; ++oh) {
                const int64_t h = oh * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
                if (h < 0 || h >= w.in[1]) continue;
                const T* row = x + n * s.x.n + i * s.x.c + d * s.x.d + h * s.x.h;
                const T* from = dy + n * s.y.n + o * s.y.c + od * s.y.d + oh * s.y.h;
                for (int64_t ow = 0; ow < w.out[2]; ++ow) {
                  const int64_t at = ow * w.stride[2] - w.pad_begin[2] + kw * w.dilation[2];
                  if (at < 0 || at >= w.in[2]) continue;
                  sum += static_cast<double>(row[at * s.x.w]) * static_cast<double>(from[ow * s.y.w]);
                }
              }
            }
          }
          dw[filter * taps + tap] = T(static_cast<Compute<T>>(sum));
        }
      }
    });
  });
}

double cost(const Problem& p) { return shape_of(p.attrs(), p.inputs[0].shape, p.inputs[1].shape).flops(); }

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const auto of = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  return {
      {"3x3", {of({2, 5, 9, 7}), of({2, 11, 9, 7})}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"1x1", {of({3, 17, 5, 6}), of({3, 9, 5, 6})}, {{"kernel_shape", Ints{1, 1}}}},
      {"depthwise",
       {of({2, 19, 10, 9}), of({2, 19, 9, 8})},
       {{"kernel_shape", Ints{5, 3}}, {"group", int64_t{19}}, {"pads", Ints{2, 0, 1, 1}}}},
      {"grouped",
       {of({1, 12, 8, 8}), of({1, 9, 3, 3})},
       {{"kernel_shape", Ints{3, 3}}, {"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
      {"dilated",
       {of({1, 3, 13, 17}), of({1, 4, 12, 18})},
       {{"kernel_shape", Ints{3, 2}}, {"dilations", Ints{2, 3}}, {"pads", Ints{0, 1, 3, 3}}}},
      {"1d", {of({2, 7, 31}), of({2, 5, 11})}, {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}, {"pads", Ints{2, 1}}}},
      {"f64",
       {CaseInput::of({1, 3, 5, 5}, DType::f64), CaseInput::of({1, 2, 3, 3}, DType::f64)},
       {{"kernel_shape", Ints{3, 3}}}}};
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text}, {"dilations", AttrType::integers},
                               {"group", AttrType::integer}, {"kernel_shape", AttrType::integers, true},
                               {"pads", AttrType::integers}, {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "ConvWeightGradient",
                       .domain = "sparkpilot",
                       .doc = "The gradient of Conv's weights, from its image and the gradient of its output.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> conv_weight_gradient_ops() { return kOps; }

}  // namespace sparkpilot
