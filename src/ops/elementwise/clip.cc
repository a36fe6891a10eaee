// Clip: min(max(x, low), high), each bound optional; if low > high the result is high. NaN stays.
#include <cmath>
#include <limits>

#include "ops/cpu/vector/elementwise.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::clip_ops {
namespace {

template <typename T>
struct Bounds {
  T low = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  T high = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
};

// The bounds, read from the operands in each run.
template <typename T, typename W>
Bounds<W> bounds(const Call& c) {
  Bounds<W> b;
  if (c.has(1)) b.low = static_cast<W>(static_cast<Compute<T>>(*c.inputs[1].as<T>()));
  if (c.has(2)) b.high = static_cast<W>(static_cast<Compute<T>>(*c.inputs[2].as<T>()));
  return b;
}

void run_reference(const Call& c) {
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using W = Compute<T>;
    const Bounds<W> b = bounds<T, W>(c);
    map_unary<T, W, T>(c, [b](W x) {
      const W above = x < b.low ? b.low : x;
      return above > b.high ? b.high : above;
    });
  });
}

Acceptance accepts_simd(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (!contains(TypeList<float, Half, BFloat16>{}, dtype)) return fmt::format("{} input", name(dtype));
  return true;
}
void run_simd(const Call& c) {
  Bounds<float> b;
  dispatch(TypeList<float, Half, BFloat16>{}, c.inputs[0].dtype, [&]<typename T>() { b = bounds<T, float>(c); });
  map_vector(c, [&](const float* in, float* out, int64_t n) {
    apply_activation(Activation::clip, b.low, b.high, in, out, n);
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, NumericTypes{}, "a number");
  for (const int i : {1, 2}) {
    if (!c.has(i)) continue;
    expect_same_dtype(c, i, 0);
    if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected one element", i, c.shape(i).str());
  }
  c.output(0, c.dtype(0), c.shape(0));
}

// Versions 1 and 6 have the bounds as attributes.
std::vector<ValueId> expand_attributes(ExpandContext& e) {
  const DType dtype = e.b.dtype(e.in(0));
  const auto bound = [&](const char* key) {
    return e.node.attrs.has(key) ? e.b.scalar(dtype, e.node.attrs.real(key, 0)) : ValueId{};
  };
  return {e.b.add("Clip", {e.in(0), bound("min"), bound("max")})};
}

std::vector<OpCase> cases() {
  const CaseInput x = CaseInput::range({5, 67}, -2, 2);
  const auto at = [](float v) { return CaseInput::value(Tensor::scalar(v)); };
  const CaseInput odd = CaseInput::value(Tensor::of<float>({4}, {INFINITY, -INFINITY, NAN, 0.5f}));
  return {{"both", {x, at(-0.5f), at(1)}, {}, 1, 0, false},
          {"low", {x, at(0)}, {}, 1, 0, false},
          {"high", {x, CaseInput::none(), at(0.25f)}, {}, 1, 0, false},
          {"none", {x}, {}},
          {"crossed", {x, at(1), at(-1)}, {}, 1, 0, false},
          {"special", {odd, at(-1), at(1)}, {}, 1, 0, false},
          {"unbounded_special", {odd}, {}, 1, 0, false},
          {"i32", {CaseInput::range({33}, -9, 9, DType::i32), CaseInput::value(Tensor::scalar<int32_t>(-3))}, {}},
          {"f16", {CaseInput::of({300}, DType::f16), CaseInput::range({}, 0, 1, DType::f16)}, {}, 1, 0, false}};
}

constexpr AttrSpec kOldAttrs[] = {
    {"min", AttrType::real}, {"max", AttrType::real}, {"consumed_inputs", AttrType::integers}};
constexpr Kernel kKernels[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd},
                               {.name = "reference", .run = run_reference}};

// Between the bounds only; these have none.
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.node.inputs[0]), g(c.b, c.out_grads[0]);
  const auto bound = [&](size_t i) { return i < c.node.inputs.size() && c.node.inputs[i].present(); };
  Term flow = g;
  if (bound(1)) flow = where(node("GreaterOrEqual", x, {c.b, c.node.inputs[1]}), flow, 0);
  if (bound(2)) flow = where(node("LessOrEqual", x, {c.b, c.node.inputs[2]}), flow, 0);
  return {flow};
}

const OpDef kOps[] = {{.name = "Clip",
                       .doc = "x held between two bounds.",
                       .since = 11,
                       .inputs = {1, 3},
                       .outputs = {1, 1},
                       .traits = {.in_place = over_any_input, .elementwise = true, .finite = true},
                       .infer = infer,
                       .cpu = kKernels,
                       .cuda = cuda::kElementwise,
                       .grad = gradient,
                       .cases = cases},
                      {.name = "Clip",
                       .doc = "The form with the bounds as attributes.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kOldAttrs,
                       .traits = {.finite = true},
                       .infer = infer_same,
                       .expand = expand_attributes}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::clip_ops
