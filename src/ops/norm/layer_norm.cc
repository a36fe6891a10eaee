// LayerNormalization and RMSNormalization over the axes from `axis` on:
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias        and        y = x / sqrt(mean(x^2) + epsilon) *
//   scale.
//
// Scale and bias broadcast to the whole input. The statistics are computed in f32 or better whatever `stash_type` is;
// it sets the type of the outputs Mean and InvStdDev.
#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/vector/row_norm.h"
#include "ops/cpu/vector/strides.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/cuda/row_candidates.h"
#include "ops/expect.h"
#include "ops/norm/norm_gradient.h"
#include "ops/registry.h"

namespace sparkpilot::layer_norm_ops {
namespace {

struct Rows {
  int64_t count, size;
};
Rows rows_of(const Shape& shape, const Attributes& attrs) {
  const int axis = normalize_axis(attrs.integer("axis", -1), shape.rank());
  return {shape.elements(0, axis), shape.elements(axis, shape.rank())};
}

// Rows per task: about 16,000 elements.
int64_t grain(const Rows& rows) { return 1 + 16384 / (rows.size + 1); }

template <bool kRms>
void run_reference(const Call& c) {
  const ConstView &x = c.inputs[0], &scale = c.inputs[1];
  const Rows rows = rows_of(x.shape, c.attrs());
  const double epsilon = c.attrs().real("epsilon", 1e-5f);
  const bool has_bias = !kRms && c.has(2);
  const Strides scale_steps = broadcast_strides(scale.shape, x.shape);
  const Strides bias_steps = has_bias ? broadcast_strides(c.inputs[2].shape, x.shape) : Strides{};
  const auto normalize = [&](int64_t row) {
    const int64_t base = row * rows.size;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < rows.size && !kRms; ++i) mean += load_element(x.dtype, x.data, base + i);
    mean /= static_cast<double>(rows.size);
    for (int64_t i = 0; i < rows.size; ++i) {
      const double distance = load_element(x.dtype, x.data, base + i) - mean;
      variance += distance * distance;
    }
    const double inverse = 1 / std::sqrt(variance / static_cast<double>(rows.size) + epsilon);
    for (int64_t i = base; i < base + rows.size; ++i) {
      const double s = load_element(scale.dtype, scale.data, offset_of(i, x.shape, scale_steps));
      const double b = has_bias ? load_element(scale.dtype, c.inputs[2].data, offset_of(i, x.shape, bias_steps)) : 0.0;
      const double y = (load_element(x.dtype, x.data, i) - mean) * inverse * s + b;
      store_element(c.outputs[0].dtype, c.outputs[0].data, i, y);
    }
    for (size_t i = 1; i < c.outputs.size(); ++i) {
      if (c.outputs[i].present()) store_element(c.outputs[i].dtype, c.outputs[i].data, row, i == 1 ? mean : inverse);
    }
  };
  parallel_for(rows.count, grain(rows), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) normalize(row);
  });
}

constexpr int64_t kWideRows = 8192;  // elements that are converted to f32 at a time

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// f32 throughout, or 16-bit rows with constant scale and bias. Scale and bias must have one value for each element of a
// row.
template <bool kRms>
Acceptance accepts_simd(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", -1), x.rank());
  const auto is_row = [&](size_t input) {
    const Shape& shape = p.inputs[input].shape;
    bool same = shape.elements() == x.elements(axis, x.rank());
    for (int i = axis; i < x.rank(); ++i) {
      const int at = shape.rank() - x.rank() + i;
      same &= (at < 0 ? 1 : shape[at]) == x[i];
    }
    return same;
  };
  const DType dtype = p.inputs[0].dtype;
  const bool narrow = is_narrow(dtype);
  if (!narrow && dtype != DType::f32) return fmt::format("{} input", name(dtype));
  for (size_t i = 1; i < p.inputs.size() && p.has(i); ++i) {
    const char* what = i == 1 ? "scale" : "bias";
    if (p.inputs[i].dtype != dtype || !is_row(i)) return fmt::format("{} is not one {} row", what, name(dtype));
    if (narrow && !p.is_constant(i)) return fmt::format("{} is not constant", what);
  }
  if (narrow && x.elements(axis, x.rank()) > kWideRows) return "long rows of 16 bits";
  if (p.outputs[0].dtype != dtype) return fmt::format("{} output", name(p.outputs[0].dtype));
  for (size_t i = 1; i < p.outputs.size(); ++i) {
    const DType output = p.outputs[i].dtype;
    if (output != DType::none && (narrow || output != DType::f32)) return fmt::format("{} statistics", name(output));
  }
  return true;
}

// Scale and bias of 16-bit rows in f32.
struct Widened final : KernelState {
  Tensor scale, bias;
};

std::unique_ptr<KernelState> prepare_simd(const Problem& p) {
  if (!is_narrow(p.inputs[0].dtype)) return nullptr;
  auto state = std::make_unique<Widened>();
  state->scale = convert(p.constants[1], DType::f32);
  if (p.has(2)) state->bias = convert(p.constants[2], DType::f32);
  return state;
}

// 16-bit rows are converted to f32 in the first-level cache.
void normalize_narrow(const RowNorm& norm, const ConstView& x, const View& y, int64_t begin, int64_t end) {
  alignas(64) float rows[kWideRows];
  const int64_t block = std::max<int64_t>(1, std::min<int64_t>(16, kWideRows / norm.n));
  for (int64_t row = begin; row < end; row += block) {
    const int64_t count = std::min(block, end - row);
    floats_from(x.dtype, x.data, row * norm.n, rows, count * norm.n);
    normalize_rows(norm, rows, rows, count);
    floats_to(y.dtype, rows, y.data, row * norm.n, count * norm.n);
  }
}

template <bool kRms>
void run_simd(const Call& c) {
  const Rows rows = rows_of(c.inputs[0].shape, c.attrs());
  const auto extra = [&](size_t i) {
    return i < c.outputs.size() && c.outputs[i].present() ? c.outputs[i].as<float>() : nullptr;
  };
  RowNorm norm{.n = rows.size,
               .epsilon = c.attrs().real("epsilon", 1e-5f),
               .rms = kRms,
               .means = extra(1),
               .inverses = extra(2)};
  if (is_narrow(c.inputs[0].dtype)) {
    const auto& wide = c.as<Widened>();
    norm.scale = wide.scale.data<float>().data();
    if (!kRms && wide.bias.present()) norm.bias = wide.bias.data<float>().data();
    parallel_for(rows.count, grain(rows),
                 [&](int64_t begin, int64_t end) { normalize_narrow(norm, c.inputs[0], c.outputs[0], begin, end); });
    return;
  }
  norm.scale = c.inputs[1].as<float>();
  if (!kRms && c.has(2)) norm.bias = c.inputs[2].as<float>();
  const float* x = c.inputs[0].as<float>();
  float* y = c.outputs[0].as<float>();
  parallel_for(rows.count, grain(rows), [&](int64_t begin, int64_t end) {
    RowNorm part = norm;
    if (part.means) part.means += begin;
    if (part.inverses) part.inverses += begin;
    normalize_rows(part, x + begin * rows.size, y + begin * rows.size, end - begin);
  });
}

void check_broadcast(InferContext& c, int input, const char* what) {
  if (c.rank(input) > c.rank(0) || !(broadcast(c.shape(input), c.shape(0)) == c.shape(0))) {
    fail("{} {} does not broadcast to the input {}", what, c.shape(input).str(), c.shape(0).str());
  }
}

DType stash_dtype(const Attributes& attrs) {
  const int64_t code = attrs.integer("stash_type", 1);
  const std::optional<DType> dtype = dtype_from_onnx(code);
  if (!dtype || !contains(FloatTypes{}, *dtype)) fail("stash_type {} is no float type", code);
  return *dtype;
}

void infer_layer(InferContext& c) {
  const int axis = normalize_axis(c.attrs.integer("axis", -1), c.rank(0));
  expect_float(c, 0);
  check_broadcast(c, 1, "scale");
  if (c.has(2)) check_broadcast(c, 2, "bias");
  expect_same_dtype(c, 1, 0);
  if (c.has(2)) expect_same_dtype(c, 2, 0);
  Shape reduced = c.shape(0);
  for (int i = axis; i < reduced.rank(); ++i) reduced.set(i, 1);
  const DType stash = stash_dtype(c.attrs);
  c.output(0, c.dtype(0), c.shape(0));
  c.output(1, stash, reduced);
  c.output(2, stash, reduced);
}

void infer_rms(InferContext& c) {
  normalize_axis(c.attrs.integer("axis", -1), c.rank(0));
  expect_float(c, 0);
  expect_float(c, 1);
  check_broadcast(c, 1, "scale");
  stash_dtype(c.attrs);
  c.output(0, c.dtype(1), c.shape(0));
}

// --- gradients
Term cast(Term v, DType dtype) { return v.dtype() == dtype ? v : v.of("Cast", {{"to", onnx_code(dtype)}}); }

template <bool kRms>
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), scale(c.b, c.in(1));
  const int rank = x.shape().rank();
  const Normalized n = normalized(x, axes_from(normalize_axis(c.node.attrs.integer("axis", -1), rank), rank),
                                  c.node.attrs.real("epsilon", 1e-5f), !kRms);
  std::vector<ValueId> out(3);
  std::optional<Term> dx;
  const auto flow = [&](Term to) { dx = dx ? *dx + to : to; };
  if (c.out_grads[0].present()) {
    const Term g(c.b, c.out_grads[0]);
    if (c.wants(0)) flow(gradient_of(n, cast(g * scale, x.dtype())));
    if (c.wants(1)) out[1] = g * cast(n.value, g.dtype());
    out[2] = g;
  }
  // Of the outputs mean and inverse deviation.
  const Shape rows = n.inverse.shape();
  const double share =
      static_cast<double>(rows.elements()) / static_cast<double>(std::max<int64_t>(1, x.shape().elements()));
  const auto statistic = [&](size_t i) { return cast(Term(c.b, c.out_grads[i]), x.dtype()); };
  if (c.out_grads.size() > 1 && c.out_grads[1].present()) {
    flow({c.b, c.b.add("Expand", {share * statistic(1), c.b.ints(x.shape().dims())})});
  }
  if (c.out_grads.size() > 2 && c.out_grads[2].present()) {
    flow(-(share * statistic(2) * n.inverse * n.inverse) * n.value);
  }
  if (dx) out[0] = *dx;
  return out;
}

double cost(const Problem& p) { return 8.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> layer_cases() {
  const auto x = CaseInput::of({3, 5, 37});
  return {{"last_axis", {x, CaseInput::of({37}), CaseInput::of({37})}, {}, 3},
          {"no_bias", {CaseInput::of({4, 128}), CaseInput::of({128})}, {{"epsilon", 0.1f}}},
          {"two_axes", {x, CaseInput::of({5, 37}), CaseInput::of({5, 37})}, {{"axis", int64_t{1}}}, 2},
          {"broadcast_scale", {x, CaseInput::of({5, 1}), CaseInput::of({37})}, {}},
          {"whole_scale", {x, CaseInput::of({3, 1, 37}), CaseInput::of({1})}, {{"axis", int64_t{-1}}}},
          {"constant_columns",
           {x, CaseInput::of({5, 1}).fixed(), CaseInput::of({1, 1, 37}).fixed()},
           {{"axis", int64_t{1}}}},
          {"long_rows", {CaseInput::of({3, 1300}), CaseInput::of({1300}), CaseInput::of({1}).fixed()}, {}},
          {"offset", {CaseInput::range({2, 515}, 99, 101), CaseInput::of({515}), CaseInput::of({515})}, {}, 1, 3e-5},
          {"f16", {CaseInput::of({4, 9}, DType::f16), CaseInput::of({9}, DType::f16)}, {}, 3},
          {"bf16", {CaseInput::of({35, 128}, DType::bf16), CaseInput::of({128}, DType::bf16).fixed()}, {}},
          {"f16_bias",
           {CaseInput::of({2, 3, 37}, DType::f16), CaseInput::of({37}, DType::f16).fixed(),
            CaseInput::of({37}, DType::f16).fixed()},
           {}},
          {"f64", {CaseInput::of({2, 11}, DType::f64), CaseInput::of({11}, DType::f64)}, {}},
          {"f64_statistics",
           {CaseInput::of({3, 2, 11}, DType::f64), CaseInput::of({2, 11}, DType::f64)},
           {{"axis", int64_t{1}}, {"stash_type", int64_t{onnx_code(DType::f64)}}},
           3}};
}

std::vector<OpCase> rms_cases() {
  return {{"last_axis", {CaseInput::of({3, 5, 37}), CaseInput::of({37})}, {}},
          {"all_axes", {CaseInput::of({2, 3, 19}), CaseInput::of({2, 3, 19})}, {{"axis", int64_t{0}}}},
          {"broadcast_scale", {CaseInput::of({2, 3, 19}), CaseInput::of({3, 1})}, {{"axis", int64_t{1}}}},
          {"bf16", {CaseInput::of({18, 65}, DType::bf16), CaseInput::of({65}, DType::bf16).fixed()}, {}},
          {"mixed", {CaseInput::of({4, 9}, DType::f16), CaseInput::of({9})}, {{"epsilon", 0.01f}}}};
}

constexpr AttrSpec kAttrs[] = {
    {"axis", AttrType::integer}, {"epsilon", AttrType::real}, {"stash_type", AttrType::integer}};
constexpr Kernel kLayer[] = {
    {.name = "simd", .accepts = accepts_simd<false>, .prepare = prepare_simd, .run = run_simd<false>},
    {.name = "reference", .run = run_reference<false>}};
constexpr Kernel kRms[] = {
    {.name = "simd", .accepts = accepts_simd<true>, .prepare = prepare_simd, .run = run_simd<true>},
    {.name = "reference", .run = run_reference<true>}};

const OpDef kOps[] = {
    {.name = "LayerNormalization",
     .doc = "Zero mean and unit variance over the last axes, then scale and bias.",
     .since = 17,
     .inputs = {2, 3},
     .outputs = {1, 3},
     .attributes = kAttrs,
     .traits = {.in_place = over_any_input, .norm = true, .finite = true},
     .infer = infer_layer,
     .axes = axes_of_row_norm,
     .cpu = kLayer,
     .cuda = cuda::kLayerNorm,
     .grad = gradient<false>,
     .cost = cost,
     .cases = layer_cases},
    {.name = "RMSNormalization",
     .doc = "Unit root mean square over the last axes, then scale.",
     .since = 23,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.in_place = over_any_input, .norm = true, .finite = true},
     .infer = infer_rms,
     .axes = axes_of_row_norm,
     .cpu = kRms,
     .cuda = cuda::kRmsNorm,
     .grad = gradient<true>,
     .cost = cost,
     .cases = rms_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::layer_norm_ops
