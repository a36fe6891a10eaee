// QuantizeLinear   y = saturate(round_to_even(x / scale) + zero point)
// DequantizeLinear y = (x - zero point) * scale
// with one scale per tensor, one for each index of an axis, or one for each block along an axis.
//
// To float types of 8 and 4 bits, x / scale is rounded to a value of that type; their zero point must be 0.
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/int8/quantize_rows.h"
#include "ops/cuda/quantize_candidates.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::quantize_ops {
namespace {

// How scales are assigned to elements.
struct Granularity {
  int64_t axis_size = 1, inner = 1;  // of the data: size of the axis, elements after it
  int64_t block = 1, scales = 1;     // indices of the axis that share a scale; number of scales along the axis
  bool blocked = false;              // every position outside the axis has separate scales

  int64_t scale_of(int64_t flat) const {
    if (scales == 1 && !blocked) return 0;
    const int64_t at = flat / inner % axis_size / block;
    return blocked ? (flat / inner / axis_size * scales + at) * inner + flat % inner : at;
  }
};

Granularity granularity_of(const Shape& x, const Shape& scale, const Attributes& attrs) {
  const int64_t block = attrs.integer("block_size", 0);
  if (block < 0) fail("block_size is {}", block);
  if (scale.elements() == 1 && scale.rank() <= 1 && block == 0) return {};
  const int axis = normalize_axis(attrs.integer("axis", 1), x.rank());
  Granularity g{.axis_size = x[axis], .inner = x.elements(axis + 1, x.rank())};
  if (block == 0) {
    if (!(scale == Shape{x[axis]})) {
      fail("scale has shape {}, expected one number or [{}] for axis {} of {}", scale.str(), x[axis], axis, x.str());
    }
    g.scales = g.axis_size;
    return g;
  }
  g.blocked = true;
  g.block = block;
  g.scales = x[axis] / block + (x[axis] % block != 0);
  if (!(scale == x.with(axis, g.scales))) {
    fail("scale has shape {}, expected {} for blocks of {}", scale.str(), x.with(axis, g.scales).str(), block);
  }
  return g;
}

bool is_quantized(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e8m0: return false;
    default: return is_float(dtype) || (is_integer(dtype) && bits(dtype) <= 16);
  }
}

bool is_scale(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f8e8m0;
}

double lowest(DType dtype) { return is_signed(dtype) ? -std::ldexp(1.0, bits(dtype) - 1) : 0; }
double highest(DType dtype) { return std::ldexp(1.0, bits(dtype) - (is_signed(dtype) ? 1 : 0)) - 1; }

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f16: return Half(static_cast<float>(value));
    case DType::bf16: return BFloat16(static_cast<float>(value));
    case DType::f32: return static_cast<float>(value);
    default: return value;
  }
}

// The dtype that x / scale is rounded to.
DType division_dtype(const Attributes& attrs, DType scale) {
  const int64_t code = attrs.integer("precision", 0);
  if (code == 0) return scale == DType::f16 || scale == DType::bf16 ? scale : DType::f32;
  const std::optional<DType> dtype = dtype_from_onnx(code);
  if (!dtype || !contains(FloatTypes{}, *dtype)) fail("precision {} is no float type", code);
  return *dtype;
}

// Elements of packed types share bytes, so tasks begin at multiples of 1024.
template <typename Fn>
void for_elements(int64_t count, Fn fn) {
  constexpr int64_t kChunk = 1024;
  parallel_for((count + kChunk - 1) / kChunk, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kChunk; i < std::min(count, end * kChunk); ++i) fn(i);
  });
}

void quantize_reference(const Call& c) {
  const ConstView &x = c.inputs[0], &scale = c.inputs[1];
  const View& y = c.outputs[0];
  const Granularity g = granularity_of(x.shape, scale.shape, c.attrs());
  const DType division = division_dtype(c.attrs(), scale.dtype);
  const bool saturate = c.attrs().integer("saturate", 1) != 0, to_float = is_float(y.dtype);
  const double low = lowest(y.dtype), high = highest(y.dtype);
  for_elements(x.elements(), [&](int64_t i) {
    const int64_t at = g.scale_of(i);
    const double zero = c.has(2) ? load_element(y.dtype, c.inputs[2].data, at) : 0.0;
    const double step = round_to(division, load_element(scale.dtype, scale.data, at));
    double v = round_to(division, round_to(division, load_element(x.dtype, x.data, i)) / step);
    if (to_float) {
      store_element(y.dtype, y.data, i, v + zero, saturate);
      return;
    }
    v = std::nearbyint(v) + zero;
    store_element(y.dtype, y.data, i, v >= low ? std::min(v, high) : low);  // NaN becomes the lowest
  });
}

void dequantize_reference(const Call& c) {
  const ConstView &x = c.inputs[0], &scale = c.inputs[1];
  const View& y = c.outputs[0];
  const Granularity g = granularity_of(x.shape, scale.shape, c.attrs());
  for_elements(x.elements(), [&](int64_t i) {
    const int64_t at = g.scale_of(i);
    const double zero = c.has(2) ? load_element(x.dtype, c.inputs[2].data, at) : 0.0;
    const double step = load_element(scale.dtype, scale.data, at);
    store_element(y.dtype, y.data, i, (load_element(x.dtype, x.data, i) - zero) * step);
  });
}

// ---------------------------------------------------------------- f32 to and from bytes
constexpr int64_t kShortestRow = 16;

// Whether there are long runs of elements with one scale.
Acceptance has_rows(const Problem& p) {
  const Granularity g = granularity_of(p.inputs[0].shape, p.inputs[1].shape, p.attrs());
  if (p.inputs[1].dtype != DType::f32) return fmt::format("{} scale", name(p.inputs[1].dtype));
  if (g.blocked) return "scales of blocks";
  if (g.scales != 1 && g.inner < kShortestRow) return "too few elements side by side share a scale";
  return true;
}

// Of small floats it has to be 0, but a file may say otherwise.
Acceptance no_zero_point(const Problem& p) {
  if (!p.has(2)) return true;
  if (!p.is_constant(2)) return "a zero point that is not constant";
  for (int64_t i = 0; i < p.constants[2].elements(); ++i) {
    if (load_element(p.constants[2].dtype(), p.constants[2].raw(), i) != 0) return "a zero point";
  }
  return true;
}

bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

Acceptance accepts_quantize(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  const DType y = p.outputs[0].dtype;
  if (!is_byte(y) && y != DType::f8e4m3fn) return fmt::format("{} output", name(y));
  if (y == DType::f8e4m3fn && p.attrs().integer("saturate", 1) == 0) return "does not saturate";
  if (division_dtype(p.attrs(), DType::f32) != DType::f32) return "divides in another type than f32";
  if (Acceptance fits = no_zero_point(p); y == DType::f8e4m3fn && !fits) return fits;
  return has_rows(p);
}

Acceptance accepts_dequantize(const Problem& p) {
  if (!is_byte(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (p.outputs[0].dtype != DType::f32) return fmt::format("{} output", name(p.outputs[0].dtype));
  return has_rows(p);
}

// Calls fn(first element, count, index of the scale) for runs of at most 4096 elements.
template <typename Fn>
void for_runs(const Granularity& g, int64_t elements, Fn fn) {
  constexpr int64_t kRun = 4096;
  const int64_t row = g.scales == 1 ? elements : g.inner;
  if (row == 0) return;
  const int64_t pieces = (row + kRun - 1) / kRun;
  parallel_for(elements / row * pieces, 1 + 4 * kRun / (row + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * kRun;
      fn(i / pieces * row + first, std::min(kRun, row - first), i / pieces % g.scales);
    }
  });
}

template <typename T>
float zero_of(const Call& c, int64_t at) {
  return c.has(2) ? static_cast<float>(c.inputs[2].as<T>()[at]) : 0.0f;
}

void quantize_simd(const Call& c) {
  const Granularity g = granularity_of(c.inputs[0].shape, c.inputs[1].shape, c.attrs());
  const float *x = c.inputs[0].as<float>(), *scale = c.inputs[1].as<float>();
  if (c.outputs[0].dtype == DType::f8e4m3fn) {
    for_runs(g, c.inputs[0].elements(), [&](int64_t first, int64_t count, int64_t at) {
      quantize_row_e4m3(x + first, c.outputs[0].as<uint8_t>() + first, count, scale[at]);
    });
    return;
  }
  dispatch(TypeList<uint8_t, int8_t>{}, c.outputs[0].dtype, [&]<typename T>() {
    T* y = c.outputs[0].as<T>();
    for_runs(g, c.inputs[0].elements(), [&](int64_t first, int64_t count, int64_t at) {
      quantize_row(x + first, y + first, count, scale[at], zero_of<T>(c, at));
    });
  });
}

void dequantize_simd(const Call& c) {
  const Granularity g = granularity_of(c.inputs[0].shape, c.inputs[1].shape, c.attrs());
  const float* scale = c.inputs[1].as<float>();
  float* y = c.outputs[0].as<float>();
  dispatch(TypeList<uint8_t, int8_t>{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    for_runs(g, c.inputs[0].elements(), [&](int64_t first, int64_t count, int64_t at) {
      dequantize_row(x + first, y + first, count, scale[at], zero_of<T>(c, at));
    });
  });
}

// ---------------------------------------------------------------- codes of 8 and 4 bits to f32
// A table of all codes, in any granularity. What weights in fp8 and NVFP4 are read by.
Acceptance accepts_table(const Problem& p) {
  const DType x = p.inputs[0].dtype;
  if (bits(x) > 8) return fmt::format("{} input", name(x));
  if (p.outputs[0].dtype != DType::f32) return fmt::format("{} output", name(p.outputs[0].dtype));
  if (p.inputs[1].dtype != DType::f32) return fmt::format("{} scale", name(p.inputs[1].dtype));
  return no_zero_point(p);
}

struct CodeTable : KernelState {
  std::array<float, 256> values{};
};

std::unique_ptr<KernelState> prepare_table(const Problem& p) {
  auto state = std::make_unique<CodeTable>();
  const DType dtype = p.inputs[0].dtype;
  for (int code = 0; code < 1 << bits(dtype); ++code) {
    const auto byte = static_cast<uint8_t>(code);
    state->values[byte] = static_cast<float>(load_element(dtype, &byte, 0));
  }
  return state;
}

void dequantize_table(const Call& c) {
  const auto& values = c.as<CodeTable>().values;
  const Granularity g = granularity_of(c.inputs[0].shape, c.inputs[1].shape, c.attrs());
  const auto* codes = c.inputs[0].as<uint8_t>();
  const float* scale = c.inputs[1].as<float>();
  float* y = c.outputs[0].as<float>();
  const int64_t width = bits(c.inputs[0].dtype), each = 8 / width;
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  const auto value = [&](int64_t i) { return values[codes[i / each] >> i % each * width & mask]; };
  const bool one = g.scales == 1 && !g.blocked;
  // Rows of the elements behind the axis, or along it if there are none behind.
  const bool along = g.inner == 1;
  const int64_t length = one || along ? g.axis_size * g.inner : g.inner;
  if (length == 0) return;
  parallel_for(c.inputs[0].elements() / length, 1 + 16384 / length, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * length;
      if (one) {
        for (int64_t i = first; i < first + length; ++i) y[i] = value(i) * scale[0];
      } else if (along) {
        const float* scales = g.blocked ? scale + row * g.scales : scale;
        for (int64_t k = 0; k < length; ++k) y[first + k] = value(first + k) * scales[k / g.block];
      } else {
        const int64_t outer = row / g.axis_size, at = row % g.axis_size / g.block;
        const float* scales = g.blocked ? scale + (outer * g.scales + at) * length : scale + at;
        for (int64_t i = 0; i < length; ++i) y[first + i] = value(first + i) * scales[g.blocked ? i : 0];
      }
    }
  });
}

// ---------------------------------------------------------------- the records
std::optional<DType> output_dtype(const Attributes& attrs) {
  const int64_t code = attrs.integer("output_dtype", 0);
  if (code == 0) return std::nullopt;
  const std::optional<DType> dtype = dtype_from_onnx(code);
  if (!dtype) fail("output_dtype {} is unknown", code);
  return dtype;
}

void check_zero_point(InferContext& c, DType dtype) {
  if (!c.has(2)) return;
  // A single value may be a scalar or a vector.
  const bool single = c.shape(1).elements() == 1 && c.shape(2).elements() == 1;
  if (!single) expect_shape(c, 2, c.shape(1));
  if (c.dtype(2) != dtype) fail("zero point is {}, the quantized type is {}", name(c.dtype(2)), name(dtype));
}

void infer_quantize(InferContext& c) {
  const DType x = c.dtype(0), scale = c.dtype(1);
  if (!contains(FloatTypes{}, x) && x != DType::i32) fail("input 0 is {}, expected a float type or i32", name(x));
  if (!is_scale(scale) && scale != DType::i32) fail("scale is {}, expected a float type or i32", name(scale));
  const DType fallback = c.has(2) ? c.dtype(2) : DType::u8;
  const DType dtype = output_dtype(c.attrs).value_or(fallback);
  if (!is_quantized(dtype)) fail("cannot quantize to {}", name(dtype));
  check_zero_point(c, dtype);
  division_dtype(c.attrs, scale);
  granularity_of(c.shape(0), c.shape(1), c.attrs);
  c.output(0, dtype, c.shape(0));
}

void infer_dequantize(InferContext& c) {
  const DType x = c.dtype(0), scale = c.dtype(1);
  if (!is_quantized(x) && x != DType::i32) fail("input 0 is {}, which is no quantized type", name(x));
  if (!is_scale(scale)) fail("scale is {}, expected a float type", name(scale));
  const DType dtype = output_dtype(c.attrs).value_or(scale);
  if (!contains(FloatTypes{}, dtype)) fail("cannot dequantize to {}", name(dtype));
  check_zero_point(c, x);
  granularity_of(c.shape(0), c.shape(1), c.attrs);
  c.output(0, dtype, c.shape(0));
}

double cost(const Problem& p) { return 3.0 * static_cast<double>(p.inputs[0].shape.elements()); }

CaseInput steps(const Shape& shape, DType dtype = DType::f32) { return CaseInput::range(shape, 0.01, 0.1, dtype); }

std::vector<OpCase> quantize_cases() {
  const auto x = CaseInput::of({3, 5, 37});
  const Attributes to_fp8{{"output_dtype", onnx_code(DType::f8e4m3fn)}};
  const Attributes to_i4{{"output_dtype", onnx_code(DType::i4)}, {"block_size", int64_t{4}}, {"axis", int64_t{-1}}};
  return {{"tensor_u8", {x, steps({}), CaseInput::range({}, 0, 255, DType::u8)}},
          {"tensor_default", {x, steps({1})}},
          {"saturating_i8", {CaseInput::range({4099}, -9, 9), steps({}), CaseInput::range({}, -9, 9, DType::i8)}},
          {"axis_i8", {x, steps({5}), CaseInput::range({5}, -9, 9, DType::i8)}},
          {"last_axis_i16", {x, steps({37}), CaseInput::range({37}, -9, 9, DType::i16)}, {{"axis", int64_t{2}}}},
          {"blocked_i4", {x, steps({3, 5, 10})}, to_i4},
          {"fp8", {x, steps({})}, to_fp8},
          {"fp8_axis", {x, steps({5})}, to_fp8},
          {"tensor_fp8", {CaseInput::range({4099}, -60, 60), steps({}).fixed()}, to_fp8},
          {"f16_tensor_fp8", {CaseInput::of({3, 64}, DType::f16), steps({}).fixed()}, to_fp8},
          {"bf16_tensor_u8",
           {CaseInput::of({3, 37}, DType::bf16), steps({}).fixed(), CaseInput::range({}, 0, 255, DType::u8).fixed()}},
          {"constant_i8",
           {CaseInput::range({4096}, -9, 9), steps({1}).fixed(), CaseInput::range({1}, -9, 9, DType::i8).fixed()}},
          {"f16", {CaseInput::of({7, 9}, DType::f16), steps({}, DType::f16)}}};
}

std::vector<OpCase> dequantize_cases() {
  const auto bytes = CaseInput::range({3, 5, 37}, -128, 127, DType::i8);
  const Attributes last{{"axis", int64_t{-1}}}, blocks{{"axis", int64_t{-1}}, {"block_size", int64_t{4}}};
  return {
      {"tensor_u8", {CaseInput::range({4099}, 0, 255, DType::u8), steps({}), CaseInput::range({}, 0, 255, DType::u8)}},
      {"axis_i8", {bytes, steps({5}), CaseInput::range({5}, -9, 9, DType::i8)}},
      {"last_axis_i8", {bytes, steps({37})}, last},
      {"blocked_u4", {CaseInput::range({3, 10}, 0, 15, DType::u4), steps({3, 3})}, blocks},
      {"fp8_axis", {CaseInput::of({3, 5, 7}, DType::f8e4m3fn), steps({5})}},
      {"fp8_last_axis", {CaseInput::of({3, 37}, DType::f8e4m3fn), steps({37})}},
      {"fp8_tensor",
       {CaseInput::of({3, 37}, DType::f8e5m2fnuz), steps({1}), CaseInput::range({1}, 0, 0, DType::f8e5m2fnuz)}},
      {"fp4_blocks_first_axis",
       {CaseInput::range({37, 5}, -6, 6, DType::f4e2m1), steps({3, 5})},
       {{"axis", int64_t{0}}, {"block_size", int64_t{16}}}},
      {"fp4_blocks_last_axis",
       {CaseInput::range({3, 2, 21}, -6, 6, DType::f4e2m1), steps({3, 2, 2})},
       {{"axis", int64_t{2}}, {"block_size", int64_t{16}}}},
      {"tensor_fp8", {CaseInput::of({3, 37}, DType::f8e4m3fn), steps({1}).fixed()}},
      {"constant_u8",
       {CaseInput::range({4099}, 0, 255, DType::u8), steps({}).fixed(),
        CaseInput::range({}, 0, 255, DType::u8).fixed()}},
      {"constant_i8_to_f16", {bytes, steps({}).fixed()}, {{"output_dtype", onnx_code(DType::f16)}}},
      {"constant_fp8_to_bf16",
       {CaseInput::of({8, 64}, DType::f8e4m3fn), steps({}).fixed()},
       {{"output_dtype", onnx_code(DType::bf16)}}},
      {"i32", {CaseInput::range({4, 3}, -1000, 1000, DType::i32), steps({3})}},
      {"fp8", {CaseInput::of({7, 9}, DType::f8e5m2), steps({}, DType::f16)}}};
}

constexpr AttrSpec kQuantizeAttrs[] = {{"axis", AttrType::integer},
                                       {"block_size", AttrType::integer},
                                       {"output_dtype", AttrType::integer},
                                       {"precision", AttrType::integer},
                                       {"saturate", AttrType::integer}};
constexpr AttrSpec kDequantizeAttrs[] = {
    {"axis", AttrType::integer}, {"block_size", AttrType::integer}, {"output_dtype", AttrType::integer}};
// Scales and zero points: one, one for each element along `axis`, or one per block.
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const Shape& x = p.inputs[0].shape;
  if (p.attrs().integer("block_size", 0) != 0) return {};
  if (input == 0) return same_axis(axis);
  const bool one = p.inputs[input].shape.elements() == 1;
  return !one && normalize_axis(p.attrs().integer("axis", 1), x.rank()) == axis ? same_axis(0) : whole_input();
}

constexpr Kernel kQuantize[] = {{.name = "simd", .accepts = accepts_quantize, .run = quantize_simd},
                                {.name = "reference", .run = quantize_reference}};
constexpr Kernel kDequantize[] = {
    {.name = "simd", .accepts = accepts_dequantize, .run = dequantize_simd},
    {.name = "table", .accepts = accepts_table, .prepare = prepare_table, .run = dequantize_table},
    {.name = "reference", .run = dequantize_reference}};

const OpDef kOps[] = {
    {.name = "QuantizeLinear",
     .doc = "Numbers to small integers or small floats, by a scale and a zero point.",
     .since = 10,
     .inputs = {2, 3},
     .outputs = {1, 1},
     .attributes = kQuantizeAttrs,
     .infer = infer_quantize,
     .axes = axes,
     .cpu = kQuantize,
     .cuda = cuda::kQuantize,
     .no_gradient = no_gradient::kQuantized,
     .cost = cost,
     .cases = quantize_cases},
    {.name = "DequantizeLinear",
     .doc = "Quantized numbers back to floats.",
     .since = 10,
     .inputs = {2, 3},
     .outputs = {1, 1},
     .attributes = kDequantizeAttrs,
     .infer = infer_dequantize,
     .axes = axes,
     .cpu = kDequantize,
     .cuda = cuda::kDequantize,
     .no_gradient = no_gradient::kQuantized,
     .cost = cost,
     .cases = dequantize_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantize_ops
