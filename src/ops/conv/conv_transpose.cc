// ConvTranspose: ONNX's transposed convolution (the gradient of Conv by its input), in one to three dimensions.
//
// y[n,o,p] = bias[o] + sum over i, q, k with p = q * stride - pad + k * dilation of x[n,i,q] * w[i,o,k], in groups.
#include <algorithm>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/conv/window_gradient.h"
#include "ops/cpu/conv/conv_columns.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/onednn/conv_onednn.h"
#include "ops/cuda/conv_candidates.h"
#include "ops/layout.h"
#include "ops/registry.h"

namespace sparkpilot::conv_transpose_ops {
namespace {

struct ReferenceState : KernelState {
  ConvShape shape;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->shape = conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  return state;
}

// The input position that kernel offset `k` maps to output position `p`, or -1.
int64_t source(const KernelWindow& w, size_t axis, int64_t p, int64_t k) {
  const int64_t at = p + w.pad_begin[axis] - k * w.dilation[axis];
  if (at < 0 || at % w.stride[axis] != 0) return -1;
  const int64_t q = at / w.stride[axis];
  return q < w.in[axis] ? q : -1;
}

// Computes one output element without its bias; `x` and `filter` point to the group's first channel and the output
// channel.
template <typename T>
double element(const ConvShape& s, const T* x, const T* filter, const KernelWindow::Dims& p) {
  const KernelWindow& w = s.window;
  const int64_t taps = w.kernel_size(), filter_step = s.out_per_group() * taps;
  double sum = 0;
  for (int64_t d = 0; d < w.kernel[0]; ++d) {
    const int64_t qd = source(w, 0, p[0], d);
    if (qd < 0) continue;
    for (int64_t h = 0; h < w.kernel[1]; ++h) {
      const int64_t qh = source(w, 1, p[1], h);
      if (qh < 0) continue;
      for (int64_t k = 0; k < w.kernel[2]; ++k) {
        const int64_t qw = source(w, 2, p[2], k);
        if (qw < 0) continue;
        const T* image = x + qd * s.x.d + qh * s.x.h + qw * s.x.w;
        const T* tap = filter + (d * w.kernel[1] + h) * w.kernel[2] + k;
        for (int64_t i = 0; i < s.in_per_group(); ++i) {
          sum += static_cast<double>(image[i * s.x.c]) * static_cast<double>(tap[i * filter_step]);
        }
      }
    }
  }
  return sum;
}

void run(const Call& c) {
  const ConvShape& s = c.as<ReferenceState>().shape;
  const KernelWindow& w = s.window;
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* bias = c.has(2) ? c.inputs[2].as<T>() : nullptr;
    const int64_t rows = s.batch * s.out_channels * w.out[0] * w.out[1];
    parallel_for(rows, row_grain(s), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const int64_t h = row % w.out[1], d = row / w.out[1] % w.out[0];
        const int64_t o = row / w.out[1] / w.out[0] % s.out_channels, n = row / w.out[1] / w.out[0] / s.out_channels;
        const int64_t group = o / s.out_per_group();
        const T* x = c.inputs[0].as<T>() + n * s.x.n + group * s.in_per_group() * s.x.c;
        const T* filter = c.inputs[1].as<T>() +
                          (group * s.in_per_group() * s.out_per_group() + o % s.out_per_group()) * w.kernel_size();
        T* y = c.outputs[0].as<T>() + n * s.y.n + o * s.y.c + d * s.y.d + h * s.y.h;
        for (int64_t i = 0; i < w.out[2]; ++i) {
          const double sum = element(s, x, filter, {d, h, i}) + (bias ? static_cast<double>(bias[o]) : 0.0);
          y[i * s.y.w] = T(static_cast<Compute<T>>(sum));
        }
      }
    });
  });
}

void infer(InferContext& c) {
  const ConvShape s = conv_transpose_shape(c.attrs, c.shape(0), c.shape(1));
  check_conv_operands(c, s.out_channels);
  c.output(0, c.dtype(0), s.output());
}

// Each input element is multiplied by each weight once.
double cost(const Problem& p) {
  const ConvShape s = conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  return 2.0 * static_cast<double>(s.batch * s.window.in_size()) * static_cast<double>(s.weights());
}
double needed(const Problem& p) {
  return inside_share(conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape).window, true);
}

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const auto x = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto w = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims).fixed(); };
  return {
      {"plain", {x({2, 5, 4, 3}), w({5, 7, 3, 3}), w({7})}, {}},
      {"strided", {x({1, 16, 5, 6}), w({16, 24, 2, 2}), w({24})}, {{"strides", Ints{2, 2}}}},
      {"weights_at_run", {x({1, 3, 5, 6}), x({3, 4, 3, 2})}, {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 0, 1}}}},
      {"output_padding",
       {x({1, 3, 4, 4}), w({3, 2, 3, 3})},
       {{"strides", Ints{3, 2}}, {"output_padding", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"output_shape", {x({1, 3, 3, 3}), w({3, 2, 3, 3})}, {{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}}},
      {"grouped", {x({2, 6, 4, 4}), w({6, 2, 3, 3}), w({6})}, {{"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
      {"dilated", {x({1, 4, 5, 5}), w({4, 3, 2, 3})}, {{"dilations", Ints{3, 2}}}},
      {"same_upper",
       {x({1, 2, 4, 5}), w({2, 3, 3, 2})},
       {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 3}}}},
      {"bands", {x({1, 20, 40, 48}), x({20, 16, 3, 3})}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"1d", {x({1, 3, 7}), w({3, 5, 4})}, {{"strides", Ints{2}}}},
      {"3d", {x({1, 2, 3, 4, 3}), w({2, 3, 2, 3, 2}), w({3})}, {{"strides", Ints{1, 2, 1}}}},
      {"f64", {CaseInput::of({1, 2, 3, 3}, DType::f64), CaseInput::of({2, 3, 2, 2}, DType::f64)}, {}},
      {"f16", {CaseInput::of({1, 2, 3, 3}, DType::f16), CaseInput::of({2, 3, 2, 2}, DType::f16)}, {}}};
}

// By the image: the convolution that it is the transpose of. By the weights: as that convolution's, with image and
// output in each other's place.
std::vector<ValueId> gradient(GradContext& c) {
  const ValueId x = c.in(0), weights = c.in(1), g = c.out_grads[0];
  const ConvShape s = conv_transpose_shape(c.node.attrs, c.b.shape(x), c.b.shape(weights));
  // The window slides over the larger image, which may have rows at its end that no window reaches.
  KernelWindow back = s.window;
  std::swap(back.in, back.out);
  const Attributes window = window_attributes(back, s.groups);
  std::vector<ValueId> out(3);
  const Term image = reached(Term(c.b, g), back);
  if (c.wants(0)) out[0] = c.b.add("Conv", {image, weights}, window);
  if (c.wants(1)) {
    Attributes by_weights = window;
    const std::span<const int64_t> kernel = back.spatial(back.kernel);
    by_weights.set("kernel_shape", Ints(kernel.begin(), kernel.end()));
    out[1] = c.b.add("sparkpilot::ConvWeightGradient", {image, x}, by_weights);
  }
  if (c.wants(2)) out[2] = sum_of_channels(Term(c.b, g));
  return out;
}

std::vector<OpCase> channels_last_cases() {
  std::vector<OpCase> all = cases();
  for (OpCase& op_case : all) {
    const Shape x = op_case.inputs[0].shape;
    std::vector<int64_t> dims(x.begin(), x.end());
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    op_case.inputs[0].shape = Shape(dims);
    op_case.attrs.set("channels_last", int64_t{1});
  }
  return all;
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},           {"dilations", AttrType::integers},
                               {"group", AttrType::integer},           {"kernel_shape", AttrType::integers},
                               {"output_padding", AttrType::integers}, {"output_shape", AttrType::integers},
                               {"pads", AttrType::integers},           {"strides", AttrType::integers}};
constexpr AttrSpec kInternalAttrs[] = {
    {"auto_pad", AttrType::text},         {"channels_last", AttrType::integer}, {"dilations", AttrType::integers},
    {"group", AttrType::integer},         {"kernel_shape", AttrType::integers}, {"output_padding", AttrType::integers},
    {"output_shape", AttrType::integers}, {"pads", AttrType::integers},         {"strides", AttrType::integers}};
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const bool last = p.attrs().integer("channels_last", 0) != 0;
  if (axis == (last ? p.outputs[0].shape.rank() - 1 : 1)) return {};  // weights are [I, O/g, spatial]
  if (input > 0) return whole_input();
  return axis == 0 ? same_axis(0) : window_axis(axis);
}

constexpr Kernel kOneDnn{.name = "onednn",
                         .accepts = conv_transpose_onednn_accepts,
                         .prepare = conv_transpose_onednn_prepare,
                         .run = onednn::run};
constexpr Kernel kReference{.name = "reference", .prepare = prepare, .run = run};
constexpr Kernel kCpu[] = {kOneDnn, kReference};
constexpr Kernel kInternalCpu[] = {
    kOneDnn,
    {.name = "columns", .accepts = conv_columns_accepts, .prepare = conv_columns_prepare, .run = conv_columns_run},
    kReference};

const OpDef kOps[] = {{.name = "ConvTranspose",
                       .doc = "Transposed convolution in one to three dimensions.",
                       .since = 1,
                       .inputs = {2, 3},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = cuda::conv_candidates(),
                       .grad = gradient,
                       .cost = cost,
                       .needed = needed,
                       .cases = cases},
                      {.name = "ConvTranspose",
                       .domain = "sparkpilot",
                       .doc = "ConvTranspose in either layout.",
                       .since = 1,
                       .inputs = {2, 3},
                       .outputs = {1, 1},
                       .attributes = kInternalAttrs,
                       .traits = {.product = true, .channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kInternalCpu,
                       .cuda = cuda::conv_candidates(),
                       .expand = expand_channels_last,
                       .cost = cost,
                       .needed = needed,
                       .cases = channels_last_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::conv_transpose_ops
