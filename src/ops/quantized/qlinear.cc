// The ops of domain com.microsoft that ONNX Runtime's quantizer writes with QuantFormat.QOperator. Each expands to
// DequantizeLinear, the op in f32, QuantizeLinear; the pass `int8` converts that to integer ops.
//
// A tensor is u8 or i8 and has a scale and a zero point of one element each; an absent zero point is 0. Only the
// weights of QGemm may have one of each per column. All tensors of a node have the same type, except in QGemm.
#include <algorithm>

#include "ops/cpu/conv/pool_shape.h"
#include "ops/layout.h"
#include "ops/registry.h"

namespace sparkpilot::qlinear_ops {
namespace {

constexpr std::string_view kDomain = "com.microsoft";

void expect_present(const ExpandContext& e, size_t i, std::string_view what) {
  if (!e.has(i)) fail("input {} ({}) is missing", i, what);
}

// The type of the tensor at input `i`.
DType byte_dtype(const ExpandContext& e, size_t i) {
  expect_present(e, i, "a quantized tensor");
  const DType dtype = e.b.dtype(e.in(i));
  if (dtype != DType::u8 && dtype != DType::i8) fail("input {} is {}, expected u8 or i8", i, name(dtype));
  return dtype;
}

// Checks the scale and zero point at inputs `i` and `i + 1` for a tensor of that type: one element each, or `columns`
// elements each.
void check_parameters(const ExpandContext& e, size_t i, DType dtype, int64_t columns = 1) {
  const auto check = [&](size_t at, std::string_view what, DType expected) {
    const DType got = e.b.dtype(e.in(at));
    if (got != expected) fail("{} (input {}) is {}, expected {}", what, at, name(got), name(expected));
    const Shape& shape = e.b.shape(e.in(at));
    if (shape.rank() > 1 || (shape.elements() != 1 && shape.elements() != columns)) {
      fail("{} (input {}) has shape {}, expected one element{}", what, at, shape.str(),
           columns == 1 ? std::string() : fmt::format(" or [{}]", columns));
    }
  };
  expect_present(e, i, "a scale");
  check(i, "scale", DType::f32);
  if (!e.has(i + 1)) return;
  check(i + 1, "zero point", dtype);
  const int64_t scales = e.b.shape(e.in(i)).elements(), zeros = e.b.shape(e.in(i + 1)).elements();
  if (scales != zeros) fail("{} scales and {} zero points (inputs {} and {})", scales, zeros, i, i + 1);
}

// `x` of that type dequantized, with scale and zero point at inputs `i` and `i + 1`.
ValueId dequantized(const ExpandContext& e, ValueId x, DType dtype, size_t i) {
  check_parameters(e, i, dtype);
  return e.b.add("DequantizeLinear", {x, e.in(i), e.in(i + 1)});
}
// The tensor at input `x`, which must have that type, dequantized.
ValueId dequantized(const ExpandContext& e, size_t x, DType dtype, size_t i) {
  if (const DType got = byte_dtype(e, x); got != dtype) fail("input {} is {}, expected {}", x, name(got), name(dtype));
  return dequantized(e, e.in(x), dtype, i);
}

ValueId quantized(const ExpandContext& e, ValueId y, DType dtype, size_t i) {
  check_parameters(e, i, dtype);
  const ValueId zero = e.has(i + 1) ? e.in(i + 1) : e.b.scalar(dtype, 0);
  return e.b.add("QuantizeLinear", {y, e.in(i), zero});
}

// Inputs: A, scale, zero point, B, scale, zero point, the output's scale, zero point.
std::vector<ValueId> expand_binary(ExpandContext& e, std::string_view op) {
  const DType dtype = byte_dtype(e, 0);
  const ValueId a = dequantized(e, 0, dtype, 1), b = dequantized(e, 3, dtype, 4);
  return {quantized(e, e.b.add(op, {a, b}), dtype, 6)};
}

// Inputs: X, scale, zero point, the output's scale, zero point.
std::vector<ValueId> expand_unary(ExpandContext& e, std::string_view op) {
  const DType dtype = byte_dtype(e, 0);
  return {quantized(e, e.b.add(op, {dequantized(e, 0, dtype, 1)}, e.node.attrs), dtype, 3)};
}

// Inputs: X, scale, zero point, the output's scale, zero point. `opset` selects the version of ONNX's Softmax.
std::vector<ValueId> expand_softmax(ExpandContext& e) {
  constexpr int kAlongOneAxis = 13;
  const DType dtype = byte_dtype(e, 0);
  const bool matrix = e.node.attrs.integer("opset", 0) < kAlongOneAxis;
  Builder b(e.b.graph(), e.node.name, matrix ? kAlongOneAxis - 1 : e.b.opset());
  const int64_t axis = e.node.attrs.integer("axis", -1);  // the default is -1 in both versions
  return {quantized(e, b.add("Softmax", {dequantized(e, 0, dtype, 1)}, {{"axis", axis}}), dtype, 3)};
}

// With `count_include_pad` this op counts the whole window, including the part of a last window of `ceil_mode` that is
// beyond the padding: adds that part as padding.
void pad_overhang(Attributes& attrs, const Shape& x) {
  if (attrs.integer("ceil_mode", 0) == 0 || attrs.integer("count_include_pad", 0) == 0) return;
  const KernelWindow w = pool_shape(attrs, x).window;
  const auto dims = static_cast<size_t>(w.dims), skip = KernelWindow::kMaxDims - dims;
  std::vector<int64_t> pads(2 * dims);
  for (size_t i = 0; i < dims; ++i) {
    const size_t k = skip + i;
    pads[i] = w.pad_begin[k];
    pads[dims + i] = std::max<int64_t>(0, (w.out[k] - 1) * w.stride[k] + w.kernel[k] - w.in[k] - w.pad_begin[k]);
  }
  attrs.set("pads", pads);
  attrs.erase("auto_pad");
  attrs.erase("ceil_mode");
}

// Inputs: X, scale, zero point, the output's scale, zero point. Only bytes are transposed.
std::vector<ValueId> expand_pool(ExpandContext& e, std::string_view op) {
  const DType dtype = byte_dtype(e, 0);
  Attributes attrs = e.node.attrs;
  const bool channels_last = attrs.integer("channels_last", 0) != 0;
  attrs.erase("channels_last");
  const int rank = e.b.shape(e.in(0)).rank();
  if (rank < 3) fail("input 0 has rank {}, expected at least 3", rank);
  const ValueId x = channels_last ? channels_last_to_first(e.b, e.in(0)) : e.in(0);
  pad_overhang(attrs, e.b.shape(x));
  const ValueId y = quantized(e, e.b.add(op, {dequantized(e, x, dtype, 1)}, attrs), dtype, 3);
  return {channels_last ? channels_first_to_last(e.b, y) : y};
}

// Inputs: the output's scale and zero point, then tensor, scale and zero point of each input.
std::vector<ValueId> expand_concat(ExpandContext& e) {
  const size_t count = e.node.inputs.size();
  if (count < 4 || count % 3 == 0) fail("{} inputs are not 2 and 3 for each tensor", count);
  const DType dtype = byte_dtype(e, 2);
  std::vector<ValueId> parts;
  for (size_t i = 2; i < count; i += 3) parts.push_back(dequantized(e, i, dtype, i + 1));
  return {quantized(e, e.b.add("Concat", parts, e.node.attrs), dtype, 0)};
}

// y = alpha * a_scale * b_scale * ((A - a_zero)(B - b_zero) + C), as floats if the output has no scale. Inputs: A,
// scale, zero point, B, scale, zero point, C, the output's scale, zero point.
std::vector<ValueId> expand_gemm(ExpandContext& e) {
  Builder& b = e.b;
  const Attributes& attrs = e.node.attrs;
  const DType a_dtype = byte_dtype(e, 0), w_dtype = byte_dtype(e, 3);
  for (const size_t i : {0, 3}) {
    if (b.shape(e.in(i)).rank() != 2) fail("input {} has shape {}, expected a matrix", i, b.shape(e.in(i)).str());
  }
  ValueId a = e.in(0);
  if (attrs.integer("transA", 0) != 0) a = b.add("Transpose", {a}, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId floats = dequantized(e, a, a_dtype, 1);

  const int64_t transposed = attrs.integer("transB", 0) != 0;
  const int axis = transposed != 0 ? 0 : 1;
  check_parameters(e, 4, w_dtype, b.shape(e.in(3))[axis]);
  ValueId w_scale = e.in(4);
  if (const float alpha = attrs.real("alpha", 1); alpha != 1) {
    w_scale = b.add("Mul", {w_scale, b.constant(Tensor::scalar(alpha))});
  }
  const ValueId weights = b.add("DequantizeLinear", {e.in(3), w_scale, e.in(5)}, {{"axis", int64_t{axis}}});

  std::vector<ValueId> operands{floats, weights};
  if (e.has(6)) {
    if (b.dtype(e.in(6)) != DType::i32) fail("C is {}, expected i32", name(b.dtype(e.in(6))));
    const ValueId c = b.add("Cast", {e.in(6)}, {{"to", onnx_code(DType::f32)}});
    operands.push_back(b.add("Mul", {c, b.add("Mul", {e.in(1), w_scale})}));
  }
  const ValueId y = b.add("Gemm", operands, {{"transB", transposed}});
  if (e.has(7) != e.has(8)) fail("the output's scale and zero point come together");
  return {e.has(7) ? quantized(e, y, byte_dtype(e, 8), 7) : y};
}

// ---------------------------------------------------------------- cases
using Ints = std::vector<int64_t>;
constexpr int64_t kOn = 1;

CaseInput bytes(const Shape& shape, DType dtype = DType::u8) {
  return CaseInput::range(shape, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
}
CaseInput scale(float v) { return CaseInput::value(Tensor::scalar(v)); }
CaseInput scale1(float v) { return CaseInput::value(Tensor::of<float>(Shape{1}, std::vector<float>{v})); }
CaseInput u8(uint8_t v) { return CaseInput::value(Tensor::scalar(v)); }
CaseInput i8(int8_t v) { return CaseInput::value(Tensor::scalar(v)); }

OpCase make(std::string case_name, std::vector<CaseInput> inputs, Attributes attrs = {}) {
  // A tie may round either way.
  return {.name = std::move(case_name), .inputs = std::move(inputs), .attrs = std::move(attrs), .tolerance = 0.01};
}

std::vector<OpCase> binary_cases() {
  const CaseInput none = CaseInput::none(), x = bytes({2, 5, 7, 3}), y = bytes({2, 5, 7, 3}, DType::i8);
  return {make("u8", {x, scale(0.02f), u8(120), bytes({2, 5, 7, 3}), scale(0.05f), u8(7), scale(0.06f), u8(31)}),
          make("i8", {y, scale1(0.02f), i8(-3), y, scale1(0.01f), i8(90), scale1(0.02f), i8(-20)}),
          make("broadcast", {x, scale(0.02f), u8(120), bytes({5, 1, 1}), scale(0.05f), u8(7), scale(0.06f), u8(31)}),
          make("number", {x, scale(0.02f), u8(120), bytes({1}).fixed(), scale(0.05f), u8(7), scale(0.06f), u8(31)}),
          make("no_zero_points", {y, scale(0.02f), none, y, scale(0.05f), none, scale(0.06f)})};
}

std::vector<OpCase> unary_cases() {
  return {make("u8", {bytes({3, 37}), scale(0.03f), u8(120), scale(0.004f), u8(0)}),
          make("i8", {bytes({2, 3, 5, 7}, DType::i8), scale1(0.06f), i8(-3), scale1(0.02f), i8(-90)}),
          make("no_zero_points", {bytes({65}, DType::i8), scale(0.03f), CaseInput::none(), scale(0.02f)}),
          make("output_zero_point_only", {bytes({65}), scale(0.03f), CaseInput::none(), scale(0.02f), u8(9)})};
}

std::vector<OpCase> leaky_relu_cases() {
  std::vector<OpCase> all = unary_cases();
  all[0].attrs.set("alpha", 0.3f);
  all[2].attrs.set("alpha", -0.5f);
  return all;
}

std::vector<OpCase> softmax_cases() {
  const int64_t old = 12, current = 13;
  return {make("rows", {bytes({5, 37}), scale(0.06f), u8(120), scale(1.0f / 256), u8(0)}, {{"opset", current}}),
          make("channels", {bytes({2, 5, 7, 3}, DType::i8), scale1(0.03f), i8(9), scale1(1.0f / 256), i8(-128)},
               {{"opset", current}, {"axis", kOn}}),
          make("matrix", {bytes({2, 3, 5}), scale(0.06f), u8(120), scale(1.0f / 256), u8(0)}, {{"opset", old}})};
}

std::vector<OpCase> pool_cases() {
  const CaseInput none = CaseInput::none();
  const Ints k3{3, 3}, s2{2, 2};
  return {make("padding", {bytes({2, 9, 7, 5}), scale(0.02f), u8(120), scale(0.011f), u8(100)},
               {{"kernel_shape", k3}, {"strides", s2}, {"pads", Ints{1, 0, 1, 1}}}),
          make("channels_last", {bytes({1, 7, 6, 9}, DType::i8), scale1(0.02f), i8(-3), scale1(0.02f), i8(4)},
               {{"channels_last", kOn}, {"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 1, 0, 1}}}),
          make("ceil", {bytes({1, 3, 8, 10}), scale(0.02f), u8(120), scale(0.011f), u8(100)},
               {{"kernel_shape", k3}, {"strides", s2}, {"ceil_mode", kOn}}),
          make("ceil_count_padding", {bytes({1, 3, 8, 10}), scale(0.02f), u8(20), scale(0.02f), u8(100)},
               {{"kernel_shape", k3},
                {"strides", s2},
                {"pads", Ints{1, 1, 1, 1}},
                {"ceil_mode", kOn},
                {"count_include_pad", kOn}}),
          make("same", {bytes({1, 3, 7, 7}), scale(0.02f), none, scale(0.02f)},
               {{"kernel_shape", k3}, {"strides", s2}, {"auto_pad", "SAME_LOWER"}}),
          make("1d", {bytes({2, 5, 17}), scale(0.02f), u8(3), scale(0.02f), u8(4)},
               {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}})};
}

std::vector<OpCase> global_pool_cases() {
  const int64_t off = 0;
  return {make("u8", {bytes({2, 35, 7, 5}), scale(0.02f), u8(120), scale(0.003f), u8(128)}, {{"channels_last", off}}),
          make("channels_last", {bytes({2, 7, 5, 35}), scale(0.02f), u8(120), scale(0.003f), u8(128)},
               {{"channels_last", kOn}}),
          make("i8_1d", {bytes({3, 5, 19}, DType::i8), scale1(0.02f), i8(-3), scale1(0.01f), i8(4)})};
}

std::vector<OpCase> concat_cases() {
  const CaseInput none = CaseInput::none();
  return {
      make("channels",
           {scale(0.04f), u8(9), bytes({1, 3, 5, 7}), scale(0.02f), u8(120), bytes({1, 2, 5, 7}), scale(0.05f), u8(7)},
           {{"axis", kOn}}),
      make("same_scales",
           {scale(0.04f), i8(9), bytes({3, 5}, DType::i8), scale1(0.04f), i8(9), bytes({1, 5}, DType::i8), scale(0.02f),
            i8(0), bytes({2, 5}, DType::i8), scale(0.04f), i8(9)},
           {{"axis", int64_t{-2}}}),
      make("no_zero_points", {scale(0.04f), none, bytes({3, 5}), scale(0.03f), none, bytes({3, 1}), scale(0.05f)},
           {{"axis", kOn}})};
}

std::vector<OpCase> gemm_cases() {
  const CaseInput none = CaseInput::none();
  const auto scales = [](int64_t n) { return CaseInput::range({n}, 0.002, 0.01).fixed(); };
  const auto sums = [](const Shape& shape) { return CaseInput::range(shape, -9000, 9000, DType::i32).fixed(); };
  const CaseInput weights = bytes({17, 9}, DType::i8).fixed(), transposed = bytes({9, 17}, DType::i8).fixed();
  return {
      make("u8", {bytes({5, 17}), scale(0.02f), u8(120), weights, scale(0.01f), i8(0), sums({9}), scale(0.3f), u8(99)}),
      make("columns",
           {bytes({5, 17}), scale(0.02f), u8(120), transposed, scales(9), bytes({9}, DType::i8).fixed(), sums({9}),
            scale(0.2f), u8(140)},
           {{"transB", kOn}}),
      make("i8_floats", {bytes({5, 17}, DType::i8), scale1(0.02f), i8(-7), weights, scales(9),
                         CaseInput::value(Tensor::zeros(DType::i8, Shape{9}))}),
      make("transposed_a",
           {bytes({17, 5}), scale(0.02f), u8(120), bytes({17, 9}).fixed(), scale1(0.01f), u8(131), sums({1, 9}),
            scale(0.1f), u8(99)},
           {{"transA", kOn}, {"alpha", 0.25f}}),
      make("column_of_sums",
           {bytes({5, 17}), scale(0.02f), u8(120), weights, scales(9), none, sums({5, 1}), scale(0.3f), u8(99)}),
      make("weights_at_run", {bytes({5, 17}), scale(0.02f), none, bytes({17, 9}), scale(0.01f)})};
}

// ---------------------------------------------------------------- the records
constexpr AttrSpec kAlpha[] = {{"alpha", AttrType::real}};
constexpr AttrSpec kSoftmax[] = {{"axis", AttrType::integer}, {"opset", AttrType::integer, true}};
constexpr AttrSpec kPool[] = {{"auto_pad", AttrType::text},
                              {"ceil_mode", AttrType::integer},
                              {"channels_last", AttrType::integer},
                              {"count_include_pad", AttrType::integer},
                              {"kernel_shape", AttrType::integers, true},
                              {"pads", AttrType::integers},
                              {"strides", AttrType::integers}};
constexpr AttrSpec kGlobalPool[] = {{"channels_last", AttrType::integer}};
constexpr AttrSpec kConcat[] = {{"axis", AttrType::integer, true}};
constexpr AttrSpec kGemm[] = {{"alpha", AttrType::real}, {"transA", AttrType::integer}, {"transB", AttrType::integer}};

constexpr OpDef record(std::string_view name, std::string_view doc, Arity inputs, std::span<const AttrSpec> attributes,
                       ExpandFn expand, CasesFn cases) {
  return {.name = name,
          .domain = kDomain,
          .doc = doc,
          .inputs = inputs,
          .outputs = {1, 1},
          .attributes = attributes,
          .expand = expand,
          .cases = cases};
}

const OpDef kOps[] = {
    record(
        "QLinearAdd", "a + b of quantized tensors, quantized.", {2, 8}, {},
        [](ExpandContext& e) { return expand_binary(e, "Add"); }, binary_cases),
    record(
        "QLinearMul", "a b of quantized tensors, quantized.", {2, 8}, {},
        [](ExpandContext& e) { return expand_binary(e, "Mul"); }, binary_cases),
    record(
        "QLinearSigmoid", "Sigmoid of a quantized tensor, quantized.", {2, 5}, {},
        [](ExpandContext& e) { return expand_unary(e, "Sigmoid"); }, unary_cases),
    record(
        "QLinearLeakyRelu", "LeakyRelu of a quantized tensor, quantized.", {2, 5}, kAlpha,
        [](ExpandContext& e) { return expand_unary(e, "LeakyRelu"); }, leaky_relu_cases),
    record("QLinearSoftmax", "Softmax of a quantized tensor, quantized.", {2, 5}, kSoftmax, expand_softmax,
           softmax_cases),
    record(
        "QLinearAveragePool", "The mean of each window of a quantized image, quantized, in either layout.", {2, 5},
        kPool, [](ExpandContext& e) { return expand_pool(e, "AveragePool"); }, pool_cases),
    record(
        "QLinearGlobalAveragePool", "The mean of each channel of a quantized image, quantized, in either layout.",
        {2, 5}, kGlobalPool, [](ExpandContext& e) { return expand_pool(e, "GlobalAveragePool"); }, global_pool_cases),
    record("QLinearConcat", "Quantized tensors joined along an axis, quantized alike.", {1, kMany}, kConcat,
           expand_concat, concat_cases),
    record("QGemm", "Product of two quantized matrices plus a third of i32, quantized or as floats.", {2, 9}, kGemm,
           expand_gemm, gemm_cases),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::qlinear_ops
