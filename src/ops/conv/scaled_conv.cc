// sparkpilot::ScaledConv: a convolution of an image by weights, both in E4M3, in either layout, plus bias, with an
// epilogue. What a convolution is on a GPU whose image and weights come from DequantizeLinear.
//
// Inputs: X f8e4m3fn; W f8e4m3fn, [O, I / group, kernel]; scale, f32, of one element or [O]: that of the image times
// that of the weights; bias [O] or absent; then the epilogue's operands.
//   y = epilogue(conv(X, W)[o] * scale[o] + bias[o])      of `output_dtype` (f32 without it)
#include <cmath>

#include "ops/axes.h"
#include "ops/conv/epilogue_conv.h"
#include "ops/cpu/composed.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cuda/e4m3_conv_candidates.h"
#include "ops/epilogue_nodes.h"
#include "ops/registry.h"

namespace sparkpilot::scaled_conv_ops {
namespace {

using In = cuda::ScaledConvInputs;
using ResultTypes = TypeList<float, Half, BFloat16>;
constexpr DType kCodes = DType::f8e4m3fn;

DType output_dtype(const Attributes& attrs) {
  const std::optional<DType> dtype = dtype_from_onnx(attrs.integer("output_dtype", onnx_code(DType::f32)));
  if (!dtype || !contains(ResultTypes{}, *dtype))
    fail("output_dtype {} is not f32, f16 or bf16", attrs.integer("output_dtype", 0));
  return *dtype;
}

std::unique_ptr<KernelState> prepare(const Problem& p) { return std::make_unique<EpilogueConvState>(p); }

void run(const Call& c) {
  const auto& state = c.as<EpilogueConvState>();
  const ConvShape& s = state.shape;
  double* const weights = state.weights(c);
  for (int64_t i = 0; i < s.weights(); ++i) weights[i] = load_element(kCodes, c.inputs[In::kCodes].data, i);
  const ConstView& scale = c.inputs[In::kScale];
  float* const values = state.values(c);
  convolve(
      s, weights, [&](int64_t at) { return load_element(kCodes, c.inputs[0].data, at); },
      [&](int64_t at, int64_t channel, double sum) {
        sum *= double{scale.as<float>()[scale.elements() > 1 ? channel : 0]};
        if (c.has(In::kBias)) sum += load_element(c.inputs[In::kBias].dtype, c.inputs[In::kBias].data, channel);
        values[at] = static_cast<float>(sum);
      });
  state.store(c, values);
}

void infer(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1), has_channels_last(c.attrs));
  for (const int i : {In::kImage, In::kCodes}) {
    if (c.dtype(i) != kCodes)
      fail("{} is {}, expected f8e4m3fn", i == In::kImage ? "the image" : "weight", name(c.dtype(i)));
  }
  const Shape& scale = c.shape(In::kScale);
  if (c.dtype(In::kScale) != DType::f32 || !(scale.elements() == 1 || scale == Shape{s.out_channels})) {
    fail("scale is {}{}, expected one f32 number or [{}]", name(c.dtype(In::kScale)), scale.str(), s.out_channels);
  }
  if (c.has(In::kBias) &&
      !(contains(ResultTypes{}, c.dtype(In::kBias)) && c.shape(In::kBias) == Shape{s.out_channels})) {
    fail("bias is {}{}, expected [{}] of f32, f16 or bf16", name(c.dtype(In::kBias)), c.shape(In::kBias).str(),
         s.out_channels);
  }
  check_epilogue(c, s.output(), s.out_channels);
  c.output(0, output_dtype(c.attrs), s.output());
}

// The codes as numbers of f32, which are exact.
std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const ValueId weights = b.add("DequantizeLinear", {e.in(In::kCodes), e.in(In::kScale)}, {{"axis", int64_t{0}}});
  std::vector<ValueId> inputs{cast_to(b, e.in(In::kImage), DType::f32), weights,
                              e.has(In::kBias) ? e.in(In::kBias) : ValueId{}};
  Attributes attrs = e.node.attrs;
  attrs.erase("output_dtype");
  attrs.erase("epilogue");
  move_epilogue(e, e.node.attrs.texts("epilogue"), inputs, attrs);
  return {cast_to(b, b.add("sparkpilot::Conv", inputs, attrs), output_dtype(e.node.attrs))};
}

AxisSource axes(const Problem& p, int output, int axis, size_t input) {
  if (input < In::kScale) return axes_of_convolution(p, output, axis, input);
  if (input == In::kScale && p.inputs[input].shape.elements() == 1) return whole_input();
  // Scales are as the bias of a convolution, its bias and operands as those that follow.
  return axes_of_convolution(p, output, axis, input == In::kBias ? 2 : input);
}

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

OpCase one_case(const std::string& name, const Shape& x, const Shape& weights, Attributes attrs,
                bool one_scale = false) {
  if (!attrs.has("channels_last")) attrs.set("channels_last", int64_t{1});
  return {name,
          {CaseInput::of(x, kCodes), CaseInput::of(weights, kCodes).fixed(),
           CaseInput::range({one_scale ? 1 : weights[0]}, 0.01, 0.1).fixed(), CaseInput::of({weights[0]}).fixed()},
          std::move(attrs)};
}

std::vector<OpCase> cases() {
  const Ints around{1, 1, 1, 1}, two{2, 2};
  const auto to = [](DType dtype) { return onnx_code(dtype); };
  std::vector<OpCase> all{
      one_case("pixels", {2, 9, 7, 48}, {37, 48, 1, 1}, {{"epilogue", Texts{"relu"}}}),
      one_case("pixels_to_f16", {1, 5, 6, 19}, {20, 19, 1, 1}, {{"output_dtype", to(DType::f16)}}, true),
      one_case("3x3", {2, 6, 5, 16}, {21, 16, 3, 3}, {{"pads", around}, {"epilogue", Texts{"gelu_tanh"}}}),
      one_case("3x3_deep", {1, 7, 5, 64}, {24, 64, 3, 3}, {{"pads", around}}),
      one_case("strided_to_bf16", {1, 13, 11, 12}, {33, 12, 3, 3},
               {{"pads", around}, {"strides", two}, {"output_dtype", to(DType::bf16)}}),
      one_case("first", {1, 24, 31, 6}, {16, 6, 5, 4}, {{"strides", two}, {"epilogue", Texts{"clip:0:6"}}}),
      one_case("dilated", {1, 13, 17, 20}, {9, 20, 3, 2}, {{"dilations", Ints{2, 3}}}, true),
      one_case("1d", {2, 31, 7}, {5, 7, 4}, {{"epilogue", Texts{"silu"}}}),
      one_case("grouped", {1, 8, 8, 12}, {9, 4, 3, 3}, {{"group", int64_t{3}}}),
      one_case("channels_first", {2, 19, 6, 5}, {21, 19, 3, 3}, {{"pads", around}, {"channels_last", int64_t{0}}}),
      one_case("epilogue", {2, 6, 5, 19}, {21, 19, 3, 3},
               {{"pads", around}, {"epilogue", Texts{"mul:5", "add:4", "gelu_erf"}}})};
  all.back().inputs.push_back(CaseInput::of({2, 6, 5, 21}));
  all.back().inputs.push_back(CaseInput::of({21}).fixed());
  OpCase at_run = one_case("weights_at_run", {1, 6, 7, 5}, {8, 5, 3, 3}, {});
  for (CaseInput& input : at_run.inputs) input.constant = false;
  all.push_back(at_run);
  for (OpCase& each : all) {
    if (output_dtype(each.attrs) == DType::f32) each.tolerance = 1e-6;
  }
  return all;
}

constexpr AttrSpec kAttrs[] = {
    {"auto_pad", AttrType::text},        {"channels_last", AttrType::integer}, {"dilations", AttrType::integers},
    {"epilogue", AttrType::texts},       {"group", AttrType::integer},         {"kernel_shape", AttrType::integers},
    {"output_dtype", AttrType::integer}, {"pads", AttrType::integers},         {"strides", AttrType::integers}};

constexpr Kernel kCpu[] = {composed<expand>("decoded"), {.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "ScaledConv",
                       .domain = "sparkpilot",
                       .doc = "Convolution of an image by weights, both in E4M3, in either layout, with an epilogue.",
                       .since = 1,
                       .inputs = {3, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = cuda::kScaledConv,
                       .expand = expand,
                       .cost = [](const Problem& p) { return epilogue_conv_shape(p).flops(); },
                       .needed = [](const Problem& p) { return epilogue_conv_shape(p).needed(); },
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::scaled_conv_ops
