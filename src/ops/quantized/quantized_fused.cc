// sparkpilot::QConv and sparkpilot::QGemm: convolutions and products of bytes with constant weights, requantized.
//
//   s = bias[c] + sum of (x - x_zero) * w                          in integers, exact
//   v = fma(float(s), multiplier[c], shift[c])                     f32; the conversion and the sum round once each
//   y = clamp(round_to_even(v) + y_zero, low, high)                u8 and i8; y = v for f32, y = s for i32
//
// An activation that only clamps is expressed by `low` and `high`. QuantizeLinear divides by its scale, but the
// multiplier is the quotient of the three scales, so y may differ by one step if v is a tie to within its rounding. It
// does not differ from QLinearConv and QLinearMatMul, which multiply too.
#include <cmath>

#include "ops/axes.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/int8/int8_conv.h"
#include "ops/cpu/int8/requantize.h"
#include "ops/cuda/quantized_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::quantized_fused_ops {
namespace {

bool channels_last(const Attributes& attrs) { return attrs.integer("channels_last", 0) != 0; }

// How the references convert a sum to an element of the output.
struct Finish {
  QuantizedOutput q;
  const int32_t* bias;
  const float *multiplier, *shift;
  View y;

  explicit Finish(const Call& c)
      : q(QuantizedOutput::of(c.attrs())),
        bias(c.has(3) ? c.inputs[3].as<int32_t>() : nullptr),
        multiplier(c.inputs[2].as<float>()),
        shift(c.has(4) ? c.inputs[4].as<float>() : nullptr),
        y(c.outputs[0]) {}
  void operator()(int64_t at, int64_t channel, double sum) const {
    if (bias) sum += bias[channel];
    if (q.dtype == DType::i32) {
      y.as<int32_t>()[at] = wrap_to_i32(sum);
      return;
    }
    const float v = std::fma(static_cast<float>(sum), multiplier[channel], shift ? shift[channel] : 0.0f);
    if (q.dtype == DType::f32) y.as<float>()[at] = v;
    else store_element(q.dtype, y.data, at, std::fmin(std::fmax(std::nearbyint(v) + q.zero, q.low), q.high));
  }
};

double zero_of(const Call& c) {
  return c.has(5) ? load_element(c.inputs[5].dtype, c.inputs[5].data, 0)
                  : static_cast<double>(c.attrs().integer("x_zero", 0));
}

struct ReferenceState : KernelState {
  ConvShape shape;
};

std::unique_ptr<KernelState> prepare_conv(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->shape = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, channels_last(p.attrs()));
  state->workspace = state->shape.weights() * static_cast<int64_t>(sizeof(double));
  return state;
}

void run_conv(const Call& c) {
  const ConvShape& s = c.as<ReferenceState>().shape;
  auto* weights = reinterpret_cast<double*>(c.workspace);
  std::copy_n(c.inputs[1].as<int8_t>(), s.weights(), weights);
  const double zero = zero_of(c);
  const Finish finish(c);
  dispatch(ByteTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    convolve(
        s, weights, [&](int64_t at) { return x[at] - zero; }, finish);
  });
}

void run_gemm(const Call& c) {
  const Shape &x = c.inputs[0].shape, &y = c.outputs[0].shape;
  const int64_t depth = x[x.rank() - 1], columns = y[y.rank() - 1], rows = y.elements() / std::max<int64_t>(columns, 1);
  const bool transposed = c.attrs().integer("transB", 0) != 0;
  const int8_t* w = c.inputs[1].as<int8_t>();
  const double zero = zero_of(c);
  const Finish finish(c);
  parallel_for(rows, 1 + 65536 / (1 + depth * columns), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < depth; ++p) {
          sum += (load_element(c.inputs[0].dtype, c.inputs[0].data, i * depth + p) - zero) *
                 w[transposed ? j * depth + p : p * columns + j];
        }
        finish(i * columns + j, j, sum);
      }
    }
  });
}

void check_operands(const InferContext& c, int64_t channels) {
  if (!contains(ByteTypes{}, c.dtype(0))) fail("input is {}, expected u8 or i8", name(c.dtype(0)));
  if (c.dtype(1) != DType::i8) fail("weight is {}, expected i8", name(c.dtype(1)));
  const auto check = [&](int i, std::string_view what, DType dtype) {
    if (c.has(i) && (c.dtype(i) != dtype || !(c.shape(i) == Shape{channels}))) {
      fail("{} is {}{}, expected {}[{}]", what, name(c.dtype(i)), c.shape(i).str(), name(dtype), channels);
    }
  };
  check(2, "multiplier", DType::f32);
  check(3, "bias", DType::i32);
  check(4, "shift", DType::f32);
  if (c.has(5) && (c.dtype(5) != c.dtype(0) || c.shape(5).elements() != 1)) {
    fail("zero point is {}{}, expected one element of {}", name(c.dtype(5)), c.shape(5).str(), name(c.dtype(0)));
  }
}

void infer_conv(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1), channels_last(c.attrs));
  check_operands(c, s.out_channels);
  c.output(0, QuantizedOutput::of(c.attrs).dtype, s.output());
}

void infer_gemm(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const bool transposed = c.attrs.integer("transB", 0) != 0;
  if (w.rank() != 2 || x.rank() < 1 || w[transposed ? 1 : 0] != x[x.rank() - 1]) {
    fail("{} and {} do not multiply", x.str(), w.str());
  }
  const int64_t columns = w[transposed ? 0 : 1];
  check_operands(c, columns);
  c.output(0, QuantizedOutput::of(c.attrs).dtype, x.with(x.rank() - 1, columns));
}

double conv_cost(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, channels_last(p.attrs())).flops();
}
double conv_needed(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, channels_last(p.attrs())).needed();
}
double gemm_cost(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  return 2.0 * static_cast<double>(p.outputs[0].shape.elements()) * static_cast<double>(x[x.rank() - 1]);
}

// ---------------------------------------------------------------- cases
using Ints = std::vector<int64_t>;

CaseInput bytes(const Shape& shape, DType dtype = DType::u8) {
  return CaseInput::range(shape, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
}
CaseInput weights(const Shape& shape) { return bytes(shape, DType::i8).fixed(); }
CaseInput bias(int64_t n) { return CaseInput::range({n}, -20000, 20000, DType::i32).fixed(); }
CaseInput multiplier(int64_t n, double size = 0.003) { return CaseInput::range({n}, size / 4, size).fixed(); }

Attributes with(Attributes attrs, DType y, int64_t x_zero, int64_t y_zero) {
  attrs.set("y_dtype", int64_t{onnx_code(y)});
  attrs.set("x_zero", x_zero);
  attrs.set("y_zero", y_zero);
  return attrs;
}
Attributes image(Attributes attrs, DType y = DType::u8, int64_t x_zero = 117, int64_t y_zero = 120) {
  attrs.set("channels_last", int64_t{1});
  return with(std::move(attrs), y, x_zero, y_zero);
}

std::vector<OpCase> conv_cases() {
  const Ints same{1, 1, 1, 1}, two{2, 2};
  Attributes clamped = image({{"low", int64_t{120}}, {"high", int64_t{201}}});
  return {
      {"1x1", {bytes({1, 9, 7, 48}), weights({37, 48, 1, 1}), multiplier(37), bias(37)}, image({})},
      {"1x1_rows", {bytes({1, 27, 10, 64}), weights({112, 64, 1, 1}), multiplier(112), bias(112)}, clamped},
      {"1x1_odd",
       {bytes({2, 5, 5, 19}), weights({16, 19, 1, 1}), multiplier(16), CaseInput::none(),
        CaseInput::range({16}, -40, 40).fixed()},
       image({}, DType::i8, 3, -7)},
      {"1x1_signed",
       {bytes({1, 8, 9, 24}, DType::i8), weights({144, 24, 1, 1}), multiplier(144), bias(144)},
       image({}, DType::i8, -5, 9)},
      {"strided",
       {bytes({1, 15, 13, 6}), weights({32, 6, 3, 3}), multiplier(32), bias(32)},
       image({{"strides", two}, {"pads", same}})},
      {"dense",
       {bytes({2, 9, 8, 20}), weights({21, 20, 3, 2}), multiplier(21, 0.001), bias(21)},
       image({{"pads", Ints{1, 0, 2, 1}}, {"dilations", Ints{1, 2}}})},
      {"dense_pieces",
       {bytes({1, 9, 10, 32}), weights({20, 32, 3, 3}), multiplier(20, 0.001), bias(20)},
       image({{"pads", same}, {"strides", two}})},
      {"signed_dense",
       {bytes({1, 7, 9, 5}, DType::i8), weights({8, 5, 3, 3}), multiplier(8), bias(8)},
       image({{"pads", same}}, DType::u8, -128, 0)},
      {"grouped",
       {bytes({1, 8, 8, 12}), weights({9, 4, 3, 3}), multiplier(9), bias(9)},
       image({{"group", int64_t{3}}, {"pads", same}})},
      {"depthwise",
       {bytes({2, 10, 9, 32}), weights({32, 1, 3, 3}), multiplier(32, 0.02), bias(32)},
       image({{"group", int64_t{32}}, {"pads", same}})},
      {"depthwise_19",
       {bytes({1, 7, 37, 19}), weights({19, 1, 5, 5}), multiplier(19, 0.01), bias(19)},
       image({{"group", int64_t{19}}, {"pads", Ints{2, 2, 2, 2}}}, DType::i8, 3, -20)},
      {"depthwise_strided",
       {bytes({1, 17, 12, 144}), weights({144, 1, 3, 3}), multiplier(144, 0.02), bias(144)},
       image({{"group", int64_t{144}}, {"strides", two}, {"pads", same}, {"low", int64_t{120}}})},
      {"depthwise_two_filters",
       {bytes({1, 9, 8, 6}), weights({12, 1, 3, 3}), multiplier(12, 0.02), bias(12)},
       image({{"group", int64_t{6}}, {"strides", two}, {"pads", same}})},
      {"depthwise_dilated",
       {bytes({1, 11, 9, 80}), weights({80, 1, 3, 2}), multiplier(80, 0.02), bias(80)},
       image({{"group", int64_t{80}}, {"dilations", Ints{2, 3}}, {"pads", Ints{0, 2, 3, 4}}})},
      {"depthwise_signed",
       {bytes({1, 8, 9, 33}, DType::i8), weights({33, 1, 3, 3}), multiplier(33, 0.02), bias(33)},
       image({{"group", int64_t{33}}, {"pads", same}}, DType::i8, -7, 4)},
      {"1d", {bytes({2, 31, 7}), weights({5, 7, 4}), multiplier(5), bias(5)}, image({})},
      {"3d", {bytes({1, 5, 6, 7, 3}), weights({4, 3, 2, 3, 3}), multiplier(4), bias(4)}, image({})},
      {"floats",
       {bytes({1, 9, 7, 16}), weights({11, 16, 1, 1}), multiplier(11), bias(11)},
       image({}, DType::f32, 9, 0)},
      {"integers",
       {bytes({1, 9, 7, 16}), weights({11, 16, 3, 3}), multiplier(11), CaseInput::none(), CaseInput::none(), bytes({})},
       image({{"pads", same}}, DType::i32, 0, 0)},
      {"channels_first",
       {bytes({1, 4, 9, 7}), weights({6, 4, 3, 3}), multiplier(6), bias(6)},
       with({{"pads", same}}, DType::u8, 100, 30)}};
}

std::vector<OpCase> gemm_cases() {
  const auto plain = [](DType y, int64_t x_zero, int64_t y_zero) { return with({}, y, x_zero, y_zero); };
  const Attributes transposed = with({{"transB", int64_t{1}}}, DType::u8, 40, 128);
  return {
      {"row", {bytes({1, 640}), weights({640, 72}), multiplier(72), bias(72)}, plain(DType::u8, 3, 90)},
      {"two_rows", {bytes({2, 64}), weights({64, 9}), multiplier(9), bias(9)}, plain(DType::f32, 128, 0)},
      {"matrix", {bytes({3, 41, 96}), weights({80, 96}), multiplier(80), bias(80)}, transposed},
      {"odd", {bytes({29, 37}), weights({37, 33}), multiplier(33)}, plain(DType::i8, 7, 3)},
      {"signed", {bytes({13, 38}, DType::i8), weights({38, 17}), multiplier(17), bias(17)}, plain(DType::i8, -3, 3)},
      {"integers",
       {bytes({5, 37}, DType::i8), weights({37, 9}), multiplier(9), CaseInput::none(), CaseInput::none(),
        bytes({}, DType::i8)},
       plain(DType::i32, 0, 0)},
      {"tall", {bytes({300, 24}), weights({24, 49}), multiplier(49, 0.01), bias(49)}, plain(DType::u8, 3, 90)}};
}

// Axis map: rows of all axes except the last are independent; weights and tables are used whole.
AxisSource axes_of_rows(const Problem& p, int, int axis, size_t input) {
  if (axis == p.outputs[0].shape.rank() - 1) return {};
  return input == 0 ? same_axis(axis) : whole_input();
}

constexpr AttrSpec kConvAttrs[] = {
    {"auto_pad", AttrType::text},  {"channels_last", AttrType::integer}, {"dilations", AttrType::integers},
    {"group", AttrType::integer},  {"high", AttrType::integer},          {"kernel_shape", AttrType::integers},
    {"low", AttrType::integer},    {"pads", AttrType::integers},         {"strides", AttrType::integers},
    {"x_zero", AttrType::integer}, {"y_dtype", AttrType::integer, true}, {"y_zero", AttrType::integer}};
constexpr AttrSpec kGemmAttrs[] = {{"high", AttrType::integer},          {"low", AttrType::integer},
                                   {"transB", AttrType::integer},        {"x_zero", AttrType::integer},
                                   {"y_dtype", AttrType::integer, true}, {"y_zero", AttrType::integer}};
constexpr Kernel kConv[] = {
    {.name = "int8", .accepts = int8_conv_accepts, .prepare = int8_conv_prepare, .run = int8_conv_run},
    {.name = "reference", .prepare = prepare_conv, .run = run_conv}};
constexpr Kernel kGemm[] = {
    {.name = "int8", .accepts = int8_gemm_accepts, .prepare = int8_gemm_prepare, .run = int8_gemm_run},
    {.name = "reference", .run = run_gemm}};

const OpDef kOps[] = {{.name = "QConv",
                       .domain = "sparkpilot",
                       .doc = "Convolution of bytes by constant weights, requantized, in either layout.",
                       .since = 1,
                       .inputs = {3, 6},
                       .outputs = {1, 1},
                       .attributes = kConvAttrs,
                       .traits = {.multiply_adds = true, .channels_last = true, .finite = true},
                       .infer = infer_conv,
                       .axes = axes_of_entries,
                       .cpu = kConv,
                       .cuda = cuda::kQConv,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = conv_cost,
                       .needed = conv_needed,
                       .cases = conv_cases},
                      {.name = "QGemm",
                       .domain = "sparkpilot",
                       .doc = "Rows of bytes times a constant matrix, requantized.",
                       .since = 1,
                       .inputs = {3, 6},
                       .outputs = {1, 1},
                       .attributes = kGemmAttrs,
                       .traits = {.multiply_adds = true, .finite = true},
                       .infer = infer_gemm,
                       .axes = axes_of_rows,
                       .cpu = kGemm,
                       .cuda = cuda::kQGemm,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = gemm_cost,
                       .cases = gemm_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantized_fused_ops
