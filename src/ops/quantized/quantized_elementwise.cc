// sparkpilot::QAdd and sparkpilot::ByteTable: elementwise ops directly on quantized tensors.
//
//   QAdd       v = fma(float(a - a_zero), a_scale, float(b - b_zero) * b_scale)        f32, one rounding each
//              y = clamp(round_to_even(v) + y_zero, low, high)
//              where the input scales are divided by the output scale.
//   ByteTable  y = table[x], the byte of x read as u8: any function of one quantized element.
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/int8/int8_rows.h"
#include "ops/cpu/int8/requantize.h"
#include "ops/cuda/quantized_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::quantized_elementwise_ops {
namespace {

struct Sum {
  Int8Sum s;
  DType dtype = DType::u8;
};

bool is_byte(DType dtype) { return contains(ByteTypes{}, dtype); }

// Reads the attributes of a QAdd; fails (user).
Sum sum_of(const Attributes& attrs) {
  Sum out;
  const std::optional<DType> dtype = dtype_from_onnx(attrs.integer("y_dtype"));
  if (!dtype || !is_byte(*dtype)) fail("y_dtype {} is not u8 or i8", attrs.integer("y_dtype"));
  out.dtype = *dtype;
  const int64_t least = *dtype == DType::i8 ? -128 : 0;
  const int64_t low = attrs.integer("low", least), high = attrs.integer("high", least + 255);
  const int64_t zero = attrs.integer("y_zero", 0);
  if (low < least || high > least + 255 || low > high || zero < least || zero > least + 255) {
    fail("zero point {}, range [{},{}]: outside {}", zero, low, high, name(*dtype));
  }
  const auto zero_of = [&](const char* key) {
    const int64_t v = attrs.integer(key, 0);
    if (v < -128 || v > 255) fail("{} is {}", key, v);
    return static_cast<int32_t>(v);
  };
  out.s = {.a_zero = zero_of("a_zero"),
           .b_zero = zero_of("b_zero"),
           .zero = static_cast<int32_t>(zero),
           .a_scale = attrs.real("a_scale", 1),
           .b_scale = attrs.real("b_scale", 1),
           .low = static_cast<float>(low - zero),
           .high = static_cast<float>(high - zero)};
  if (!std::isfinite(out.s.a_scale) || !std::isfinite(out.s.b_scale)) fail("scales must be finite");
  return out;
}

struct AddState : KernelState {
  Sum sum;
};

std::unique_ptr<KernelState> prepare_add(const Problem& p) {
  auto state = std::make_unique<AddState>();
  state->sum = sum_of(p.attrs());
  return state;
}

void add_reference(const Call& c) {
  const ConstView &a = c.inputs[0], &b = c.inputs[1];
  const Int8Sum& s = c.as<AddState>().sum.s;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const auto x = static_cast<float>(load_element(a.dtype, a.data, i) - s.a_zero);
    const float product = static_cast<float>(load_element(b.dtype, b.data, i) - s.b_zero) * s.b_scale;
    const float v = std::nearbyint(std::fma(x, s.a_scale, product));
    store_element(c.outputs[0].dtype, c.outputs[0].data, i, std::fmin(std::fmax(v, s.low), s.high) + s.zero);
  }
}

void add_simd(const Call& c) {
  const ConstView &a = c.inputs[0], &b = c.inputs[1];
  const View& y = c.outputs[0];
  const Int8Sum& s = c.as<AddState>().sum.s;
  parallel_for(a.elements(), 65536, [&](int64_t first, int64_t last) {
    const auto at = [&](const void* data) { return static_cast<const std::byte*>(data) + first; };
    add_int8(a.dtype, at(a.data), b.dtype, at(b.data), y.dtype, static_cast<std::byte*>(y.data) + first, last - first,
             s);
  });
}

void infer_add(InferContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (!is_byte(c.dtype(i))) fail("input {} is {}, expected u8 or i8", i, name(c.dtype(i)));
  }
  if (!(c.shape(0) == c.shape(1))) fail("shapes {} and {} differ", c.shape(0).str(), c.shape(1).str());
  c.output(0, sum_of(c.attrs).dtype, c.shape(0));
}

const Tensor& table_of(const Attributes& attrs) {
  const Tensor& table = attrs.tensor("table");
  if (!is_byte(table.dtype()) || !(table.shape() == Shape{256})) {
    fail("table is {}{}, expected 256 elements of u8 or i8", name(table.dtype()), table.shape().str());
  }
  return table;
}

void run_table(const Call& c) {
  const auto* table = static_cast<const uint8_t*>(table_of(c.attrs()).raw());
  const auto* x = static_cast<const uint8_t*>(c.inputs[0].data);
  auto* y = static_cast<uint8_t*>(c.outputs[0].data);
  parallel_for(c.inputs[0].elements(), 32768, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) y[i] = table[x[i]];
  });
}

void run_table_simd(const Call& c) {
  const auto* table = static_cast<const uint8_t*>(table_of(c.attrs()).raw());
  const auto* x = static_cast<const uint8_t*>(c.inputs[0].data);
  auto* y = static_cast<uint8_t*>(c.outputs[0].data);
  parallel_for(c.inputs[0].elements(), 65536,
               [&](int64_t first, int64_t last) { look_up_bytes(table, x + first, y + first, last - first); });
}

void infer_table(InferContext& c) {
  if (!is_byte(c.dtype(0))) fail("input is {}, expected u8 or i8", name(c.dtype(0)));
  c.output(0, table_of(c.attrs).dtype(), c.shape(0));
}

CaseInput bytes(const Shape& shape, DType dtype) {
  return CaseInput::range(shape, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
}

std::vector<OpCase> add_cases() {
  const auto attrs = [](DType y, int64_t a_zero, int64_t b_zero, int64_t y_zero) {
    return Attributes{{"a_zero", a_zero},        {"b_zero", b_zero},  {"y_zero", y_zero},
                      {"y_dtype", onnx_code(y)}, {"a_scale", 0.731f}, {"b_scale", 0.402f}};
  };
  Attributes clamped = attrs(DType::u8, 3, 90, 100);
  clamped.set("low", int64_t{100});
  clamped.set("high", int64_t{180});
  return {{"u8", {bytes({3, 5, 37}, DType::u8), bytes({3, 5, 37}, DType::u8)}, attrs(DType::u8, 128, 90, 101)},
          {"clamped", {bytes({1, 999}, DType::u8), bytes({1, 999}, DType::u8)}, clamped},
          {"mixed", {bytes({4099}, DType::i8), bytes({4099}, DType::u8)}, attrs(DType::i8, -128, 77, 5)},
          {"short", {bytes({5}, DType::i8), bytes({5}, DType::i8)}, attrs(DType::u8, 0, 1, 2)}};
}

std::vector<OpCase> table_cases() {
  Tensor squares(DType::u8, Shape{256}), halves(DType::i8, Shape{256});
  for (size_t i = 0; i < 256; ++i) {
    squares.data<uint8_t>()[i] = static_cast<uint8_t>(i * i / 255);
    halves.data<int8_t>()[i] = static_cast<int8_t>(static_cast<int>(i) / 2 - 64);
  }
  return {{"u8", {bytes({3, 5, 37}, DType::u8)}, {{"table", squares}}},
          {"i8_from_u8", {bytes({70000}, DType::u8)}, {{"table", halves}}},
          {"u8_from_i8", {bytes({2, 9}, DType::i8)}, {{"table", squares}}}};
}

constexpr AttrSpec kAddAttrs[] = {{"a_scale", AttrType::real},          {"a_zero", AttrType::integer},
                                  {"b_scale", AttrType::real},          {"b_zero", AttrType::integer},
                                  {"high", AttrType::integer},          {"low", AttrType::integer},
                                  {"y_dtype", AttrType::integer, true}, {"y_zero", AttrType::integer}};
constexpr AttrSpec kTableAttrs[] = {{"table", AttrType::tensor, true}};
AxisSource axes_of_table(const Problem&, int, int axis, size_t input) {
  return input == 0 ? same_axis(axis) : whole_input();
}

constexpr Kernel kAdd[] = {{.name = "simd", .prepare = prepare_add, .run = add_simd},
                           {.name = "reference", .prepare = prepare_add, .run = add_reference}};
constexpr Kernel kTable[] = {{.name = "simd", .run = run_table_simd}, {.name = "reference", .run = run_table}};

const OpDef kOps[] = {{.name = "QAdd",
                       .domain = "sparkpilot",
                       .doc = "Sum of two quantized tensors, quantized.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAddAttrs,
                       .traits = {.elementwise = true, .finite = true},
                       .infer = infer_add,
                       .cpu = kAdd,
                       .cuda = cuda::kQAdd,
                       .no_gradient = no_gradient::kQuantized,
                       .cases = add_cases},
                      {.name = "ByteTable",
                       .domain = "sparkpilot",
                       .doc = "A function of one byte, by its table.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kTableAttrs,
                       .traits = {.elementwise = true, .finite = true},
                       .infer = infer_table,
                       .axes = axes_of_table,
                       .cpu = kTable,
                       .cuda = cuda::kByteTable,
                       .no_gradient = no_gradient::kQuantized,
                       .cases = table_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantized_elementwise_ops
