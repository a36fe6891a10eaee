// Divide vectors along one axis by their norm:
//   LpNormalization            y = x / |x|_p, and 0 if the norm is 0
//   sparkpilot::L2Normalize    y = x / max(|x|_2, epsilon)
// Passes make the second from the ops that exporters write instead.
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/vector/row_norm.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/cuda/row_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::lp_norm_ops {
namespace {

struct Layout {
  int64_t outer, size, inner;
};
Layout layout_of(const Shape& x, const Attributes& attrs) {
  const int axis = normalize_axis(attrs.integer("axis", -1), x.rank());
  return {x.elements(0, axis), x[axis], x.elements(axis + 1, x.rank())};
}

double inverse_length(double length, bool internal, double epsilon) {
  if (internal) return 1 / std::max(length, epsilon);
  return length == 0 ? 0 : 1 / length;
}

template <bool kInternal>
void run_reference(const Call& c) {
  const Layout l = layout_of(c.inputs[0].shape, c.attrs());
  const bool absolute = !kInternal && c.attrs().integer("p", 2) == 1;
  const double epsilon = kInternal ? static_cast<double>(c.attrs().real("epsilon", 1e-12f)) : 0.0;
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    parallel_for(l.outer * l.inner, 1 + 16384 / (l.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t base = row / l.inner * l.size * l.inner + row % l.inner;
        double sum = 0;
        for (int64_t i = 0; i < l.size; ++i) {
          const auto v = static_cast<double>(x[base + i * l.inner]);
          sum += absolute ? std::abs(v) : v * v;
        }
        const double factor = inverse_length(absolute ? sum : std::sqrt(sum), kInternal, epsilon);
        for (int64_t i = 0; i < l.size; ++i) {
          y[base + i * l.inner] = T(static_cast<Compute<T>>(static_cast<double>(x[base + i * l.inner]) * factor));
        }
      }
    });
  });
}

Acceptance accepts_simd(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (p.attrs().integer("p", 2) != 2) return "p is not 2";
  if (layout_of(p.inputs[0].shape, p.attrs()).inner != 1) return "not along the last axis";
  return true;
}

template <bool kInternal>
void run_simd(const Call& c) {
  const Layout l = layout_of(c.inputs[0].shape, c.attrs());
  const double epsilon = kInternal ? static_cast<double>(c.attrs().real("epsilon", 1e-12f)) : 0.0;
  const float* x = c.inputs[0].as<float>();
  float* y = c.outputs[0].as<float>();
  parallel_for(l.outer, 1 + 16384 / (l.size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double length = std::sqrt(row_sum_squares(x + row * l.size, l.size));
      const double factor = inverse_length(length, kInternal, epsilon);
      row_affine(x + row * l.size, y + row * l.size, l.size, 0, static_cast<float>(factor), 0);
    }
  });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  normalize_axis(c.attrs.integer("axis", -1), c.rank(0));
  const int64_t p = c.attrs.integer("p", 2);
  if (p != 1 && p != 2) fail("p is {}, expected 1 or 2", p);
  c.output(0, c.dtype(0), c.shape(0));
}

void infer_internal(InferContext& c) {
  const float epsilon = c.attrs.real("epsilon", 1e-12f);
  if (!(epsilon > 0)) fail("epsilon is {}, expected a positive number", epsilon);
  infer(c);
}

// y = x / n, and n changes with x as its slope: the sign of x for p = 1, y for p = 2.
template <bool kInternal>
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const std::vector<int64_t> axis{c.node.attrs.integer("axis", -1)};
  const bool absolute = !kInternal && c.node.attrs.integer("p", 2) == 1;
  const Term length = x.over(absolute ? "ReduceL1" : "ReduceL2", axis);
  const double least = kInternal ? static_cast<double>(c.node.attrs.real("epsilon", 1e-12f)) : 0.0;
  const Term safe = where(length > least, length, 1);
  const Term along = (g * y).over("ReduceSum", axis) * (absolute ? x.of("Sign") : y);
  const Term inside = (g - along) / safe;
  return {kInternal ? where(length > least, inside, 1 / least * g) : where(length > least, inside, 0)};
}

double cost(const Problem& p) { return 3.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> lp_cases() {
  const Attributes middle{{"axis", int64_t{1}}}, one{{"p", int64_t{1}}};
  return {{"last_axis", {CaseInput::of({5, 67})}, {}},
          {"middle", {CaseInput::of({2, 5, 7})}, middle},
          {"sum", {CaseInput::of({3, 19})}, one},
          {"zeros", {CaseInput::range({3, 4}, 0, 0)}, {}, 1, 0, false},
          {"bf16", {CaseInput::of({3, 19}, DType::bf16)}, {}}};
}

std::vector<OpCase> internal_cases() {
  return {{"last_axis", {CaseInput::of({5, 67})}, {}},
          {"middle", {CaseInput::of({2, 5, 7})}, {{"axis", int64_t{1}}}},
          {"small", {CaseInput::range({3, 4}, -1e-3, 1e-3)}, {{"epsilon", 0.5f}}},
          {"f16", {CaseInput::of({3, 19}, DType::f16)}, {{"epsilon", 1e-3f}}}};
}

constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}, {"p", AttrType::integer}};
constexpr AttrSpec kInternalAttrs[] = {{"axis", AttrType::integer}, {"epsilon", AttrType::real}};
constexpr Kernel kLp[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd<false>},
                          {.name = "reference", .run = run_reference<false>}};
constexpr Kernel kL2[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd<true>},
                          {.name = "reference", .run = run_reference<true>}};

const OpDef kOps[] = {
    {.name = "LpNormalization",
     .doc = "Vectors along an axis divided by their L1 or L2 norm.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.in_place = over_any_input},
     .infer = infer,
     .axes = axes_along_attribute<-1>,
     .cpu = kLp,
     .cuda = cuda::kLpNorm,
     .grad = gradient<false>,
     .cost = cost,
     .cases = lp_cases},
    {.name = "L2Normalize",
     .domain = "sparkpilot",
     .doc = "Vectors along an axis divided by their L2 norm, or by epsilon where that is larger.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kInternalAttrs,
     .traits = {.in_place = over_any_input},
     .infer = infer_internal,
     .axes = axes_along_attribute<-1>,
     .cpu = kL2,
     .cuda = cuda::kL2Norm,
     .grad = gradient<true>,
     .cost = cost,
     .cases = internal_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::lp_norm_ops
