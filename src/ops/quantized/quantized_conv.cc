// ConvInteger and QLinearConv: convolutions of 8-bit images with zero points, exact in integers.
//
// The value of padding is the zero point, so it adds nothing. Scales and zero points of the weights have one element or
// one per output channel.
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/int8/requantize.h"
#include "ops/registry.h"

namespace sparkpilot::quantized_conv_ops {
namespace {

struct ReferenceState : KernelState {
  ConvShape shape;
};

template <size_t kWeights>
std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->shape = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[kWeights].shape);
  state->workspace = state->shape.weights() * static_cast<int64_t>(sizeof(double));
  return state;
}

// Subtracts the zero points of the weights into doubles in the workspace, then convolves x minus its zero point.
template <typename Store>
void convolve_bytes(const Call& c, size_t w, const Parameter& x_zero, const Parameter& w_zero, const Store& store) {
  const ConvShape& s = c.as<ReferenceState>().shape;
  auto* weights = reinterpret_cast<double*>(c.workspace);
  const int64_t a_channel = s.in_per_group() * s.window.kernel_size();
  dispatch(ByteTypes{}, c.inputs[w].dtype, [&]<typename W>() {
    for (int64_t i = 0; i < s.weights(); ++i) weights[i] = c.inputs[w].as<W>()[i] - w_zero.at(i / a_channel);
  });
  const double zero = x_zero.at(0);
  dispatch(ByteTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    convolve(
        s, weights, [&](int64_t at) { return x[at] - zero; }, store);
  });
}

void run_integer(const Call& c) {
  auto* y = c.outputs[0].as<int32_t>();
  convolve_bytes(c, 1, Parameter::of(c, 2), Parameter::of(c, 3),
                 [&](int64_t at, int64_t, double sum) { y[at] = wrap_to_i32(sum); });
}

void run_linear(const Call& c) {
  const auto x_scale = static_cast<float>(Parameter(c.inputs[1]).at(0));
  const auto y_scale = static_cast<float>(Parameter(c.inputs[6]).at(0));
  const double y_zero = Parameter(c.inputs[7]).at(0);
  const Parameter w_scale(c.inputs[4]);
  const int32_t* bias = c.has(8) ? c.inputs[8].as<int32_t>() : nullptr;
  convolve_bytes(c, 3, Parameter(c.inputs[2]), Parameter(c.inputs[5]), [&](int64_t at, int64_t channel, double sum) {
    if (bias) sum += bias[channel];
    const float scale = x_scale * static_cast<float>(w_scale.at(channel)) / y_scale;
    store_quantized(c.outputs[0], at, static_cast<float>(sum) * scale, y_zero);
  });
}

void check_byte(const InferContext& c, int i) {
  if (!contains(ByteTypes{}, c.dtype(i))) fail("input {} is {}, expected i8 or u8", i, name(c.dtype(i)));
}

// `count` 0: one element; else one element or that many.
void check_parameter(const InferContext& c, int i, int64_t count) {
  const int64_t elements = c.shape(i).elements();
  if (elements != 1 && (count == 0 || elements != count)) {
    fail("input {} has shape {}, expected one element{}", i, c.shape(i).str(),
         count ? fmt::format(" or {}", count) : std::string());
  }
}

void check_zero_point(const InferContext& c, int i, int of, int64_t count) {
  if (c.dtype(i) != c.dtype(of)) fail("zero point is {}, expected {}", name(c.dtype(i)), name(c.dtype(of)));
  check_parameter(c, i, count);
}

void infer_integer(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1));
  check_byte(c, 0);
  check_byte(c, 1);
  if (c.has(2)) check_zero_point(c, 2, 0, 0);
  if (c.has(3)) check_zero_point(c, 3, 1, s.out_channels);
  c.output(0, DType::i32, s.output());
}

void infer_linear(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(3));
  for (const int i : {0, 3, 7}) check_byte(c, i);
  for (const int i : {1, 4, 6}) {
    if (c.dtype(i) != DType::f32) fail("scale is {}, expected f32", name(c.dtype(i)));
    check_parameter(c, i, i == 4 ? s.out_channels : 0);
  }
  check_zero_point(c, 2, 0, 0);
  check_zero_point(c, 5, 3, s.out_channels);
  check_parameter(c, 7, 0);
  if (c.has(8) && (c.dtype(8) != DType::i32 || !(c.shape(8) == Shape{s.out_channels}))) {
    fail("bias is {}{}, expected i32[{}]", name(c.dtype(8)), c.shape(8).str(), s.out_channels);
  }
  c.output(0, c.dtype(7), s.output());
}

template <size_t kWeights>
double cost(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[kWeights].shape).flops();
}
template <size_t kWeights>
double needed(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[kWeights].shape).needed();
}

using Ints = std::vector<int64_t>;

CaseInput bytes(std::initializer_list<int64_t> dims, DType dtype) {
  return CaseInput::range(dims, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
}

std::vector<OpCase> integer_cases() {
  return {{"plain", {bytes({2, 5, 9, 7}, DType::u8), bytes({6, 5, 3, 3}, DType::i8).fixed()}, {}},
          {"zero_points",
           {bytes({1, 4, 9, 7}, DType::u8), bytes({6, 4, 3, 3}, DType::u8).fixed(), bytes({}, DType::u8),
            bytes({}, DType::u8).fixed()},
           {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 1}}}},
          {"channel_zero_points",
           {bytes({1, 4, 8, 8}, DType::i8), bytes({6, 2, 3, 3}, DType::i8).fixed(), bytes({1}, DType::i8),
            bytes({6}, DType::i8).fixed()},
           {{"group", int64_t{2}}}}};
}

std::vector<OpCase> linear_cases() {
  const auto scale = [](std::initializer_list<int64_t> dims) { return CaseInput::range(dims, 0.01, 0.02).fixed(); };
  const CaseInput y_scale = CaseInput::value(Tensor::scalar(0.9f));
  return {
      {"u8",
       {bytes({1, 4, 9, 7}, DType::u8), scale({}), bytes({}, DType::u8).fixed(), bytes({6, 4, 3, 3}, DType::u8).fixed(),
        scale({}), bytes({}, DType::u8).fixed(), y_scale, bytes({}, DType::u8).fixed()},
       {{"pads", Ints{1, 0, 1, 1}}}},
      {"i8_channels_bias",
       {bytes({2, 19, 8, 6}, DType::i8), scale({}), bytes({}, DType::i8).fixed(),
        bytes({21, 19, 3, 3}, DType::i8).fixed(), scale({21}), bytes({21}, DType::i8).fixed(), y_scale,
        bytes({}, DType::i8).fixed(), CaseInput::range({21}, -9999, 9999, DType::i32).fixed()},
       {{"strides", Ints{2, 2}}}},
      {"depthwise",
       {bytes({1, 8, 9, 9}, DType::u8), scale({}), bytes({}, DType::u8).fixed(), bytes({8, 1, 3, 3}, DType::i8).fixed(),
        scale({8}), CaseInput::value(Tensor::zeros(DType::i8, Shape{8})), y_scale, bytes({}, DType::u8).fixed()},
       {{"group", int64_t{8}}, {"pads", Ints{1, 1, 1, 1}}}}};
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text}, {"dilations", AttrType::integers},
                               {"group", AttrType::integer}, {"kernel_shape", AttrType::integers},
                               {"pads", AttrType::integers}, {"strides", AttrType::integers}};
constexpr Kernel kInteger[] = {{.name = "reference", .prepare = prepare<1>, .run = run_integer}};
constexpr Kernel kLinear[] = {{.name = "reference", .prepare = prepare<3>, .run = run_linear}};

const OpDef kOps[] = {{.name = "ConvInteger",
                       .doc = "Convolution of 8-bit images as 32-bit integers.",
                       .since = 10,
                       .inputs = {2, 4},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = infer_integer,
                       .cpu = kInteger,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = cost<1>,
                       .needed = needed<1>,
                       .cases = integer_cases},
                      {.name = "QLinearConv",
                       .doc = "Convolution of quantized images, quantized again.",
                       .since = 10,
                       .inputs = {8, 9},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = infer_linear,
                       .cpu = kLinear,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = cost<3>,
                       .needed = needed<3>,
                       .cases = linear_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantized_conv_ops
