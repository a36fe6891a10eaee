// Conv: ONNX's convolution of images with channels first, in one to three dimensions.
//
// y[n,o,p] = bias[o] + sum over i, k of x[n, i, p * stride - pad + k * dilation] * w[o,i,k], in groups of channels.
#include "ops/axes.h"
#include "ops/conv/window_gradient.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/onednn/conv_onednn.h"
#include "ops/cuda/conv_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::conv_ops {
namespace {

struct ReferenceState : KernelState {
  ConvShape shape;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->shape = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  state->workspace = state->shape.weights() * static_cast<int64_t>(sizeof(double));
  return state;
}

void run(const Call& c) {
  const ConvShape& s = c.as<ReferenceState>().shape;
  auto* weights = reinterpret_cast<double*>(c.workspace);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    const T* bias = c.has(2) ? c.inputs[2].as<T>() : nullptr;
    T* y = c.outputs[0].as<T>();
    std::copy_n(c.inputs[1].as<T>(), s.weights(), weights);
    convolve(
        s, weights, [&](int64_t at) { return static_cast<double>(x[at]); },
        [&](int64_t at, int64_t channel, double sum) {
          if (bias) sum += static_cast<double>(bias[channel]);
          y[at] = T(static_cast<Compute<T>>(sum));
        });
  });
}

void infer(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1));
  check_conv_operands(c, s.out_channels);
  c.output(0, c.dtype(0), s.output());
}

double cost(const Problem& p) { return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape).flops(); }
double needed(const Problem& p) { return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape).needed(); }

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const auto x = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto w = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims).fixed(); };
  return {
      {"3x3_bias", {x({2, 5, 9, 7}), w({11, 5, 3, 3}), w({11})}, {{"pads", Ints{1, 1, 1, 1}}}},
      {"1x1", {x({1, 33, 5, 6}), w({17, 33, 1, 1})}, {}},
      {"weights_at_run", {x({1, 4, 8, 9}), x({6, 4, 3, 2}), x({6})}, {{"strides", Ints{2, 1}}}},
      {"depthwise",
       {x({2, 19, 10, 9}), w({19, 1, 5, 3}), w({19})},
       {{"group", int64_t{19}}, {"pads", Ints{2, 0, 1, 1}}}},
      {"depthwise_of_16",
       {x({2, 16, 9, 8}), w({16, 1, 3, 3}), w({16})},
       {{"group", int64_t{16}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 1}}}},
      {"deep", {x({1, 96, 7, 6}), w({40, 96, 3, 3}), w({40})}, {{"pads", Ints{1, 1, 1, 1}}}},
      {"grouped", {x({1, 12, 8, 8}), w({9, 4, 3, 3})}, {{"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
      {"dilated", {x({1, 3, 13, 17}), w({4, 3, 3, 2})}, {{"dilations", Ints{2, 3}}, {"pads", Ints{0, 1, 3, 2}}}},
      {"same_lower",
       {x({1, 3, 8, 7}), w({4, 3, 4, 3})},
       {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 2}}}},
      {"1d", {x({2, 7, 31}), w({5, 7, 4}), w({5})}, {{"strides", Ints{3}}, {"pads", Ints{2, 1}}}},
      {"3d", {x({1, 3, 5, 6, 7}), w({4, 3, 2, 3, 3}), w({4})}, {{"pads", Ints{1, 0, 1, 0, 1, 1}}}},
      {"unused_padding", {x({1, 16, 6, 6}), w({16, 16, 3, 3})}, {{"strides", Ints{4, 4}}, {"pads", Ints{1, 1, 0, 1}}}},
      {"f64", {CaseInput::of({1, 3, 5, 5}, DType::f64), CaseInput::of({2, 3, 3, 3}, DType::f64)}, {}},
      {"f16", {CaseInput::of({1, 3, 5, 5}, DType::f16), CaseInput::of({2, 3, 3, 3}, DType::f16)}, {}},
      {"bf16",
       {CaseInput::of({1, 32, 9, 7}, DType::bf16), CaseInput::of({24, 32, 3, 3}, DType::bf16).fixed(),
        CaseInput::of({24}, DType::bf16).fixed()},
       {}}};
}

// By the image: a transposed convolution, which is as large as the image. By the weights: an op of its own. By the
// bias: a sum.
std::vector<ValueId> gradient(GradContext& c) {
  const ValueId x = c.in(0), weights = c.in(1), g = c.out_grads[0];
  const ConvShape s = conv_shape(c.node.attrs, c.b.shape(x), c.b.shape(weights));
  std::vector<ValueId> out(3);
  if (c.wants(0)) out[0] = c.b.add("ConvTranspose", {g, weights}, transposed_attributes(s.window, s.groups));
  if (c.wants(1)) {
    Attributes window = window_attributes(s.window, s.groups);
    const std::span<const int64_t> kernel = s.window.spatial(s.window.kernel);
    window.set("kernel_shape", Ints(kernel.begin(), kernel.end()));
    out[1] = c.b.add("sparkpilot::ConvWeightGradient", {x, g}, window);
  }
  if (c.wants(2)) out[2] = sum_of_channels(Term(c.b, g));
  return out;
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text}, {"dilations", AttrType::integers},
                               {"group", AttrType::integer}, {"kernel_shape", AttrType::integers},
                               {"pads", AttrType::integers}, {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {
    {.name = "onednn", .accepts = conv_onednn_accepts, .prepare = conv_onednn_prepare, .run = onednn::run},
    {.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "Conv",
                       .doc = "Convolution in one to three dimensions.",
                       .since = 1,
                       .inputs = {2, 3},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_convolution,
                       .cpu = kCpu,
                       .cuda = cuda::conv_candidates(),
                       .grad = gradient,
                       .cost = cost,
                       .needed = needed,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::conv_ops
