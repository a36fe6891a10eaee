// IsNaN and IsInf: floats in, booleans out.
#include <cmath>

#include "ops/cpu/vector/elementwise.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::predicates_ops {
namespace {

// y = test(x) for any float type; types under 16 bits are processed element by element.
template <typename Test>
void map_test(const Call& c, const Test& test) {
  const ConstView& x = c.inputs[0];
  if (contains(FloatTypes{}, x.dtype)) {
    dispatch(FloatTypes{}, x.dtype, [&]<typename T>() { map_unary<T, Compute<T>, bool>(c, test); });
    return;
  }
  bool* y = c.outputs[0].as<bool>();
  for (int64_t i = 0; i < x.elements(); ++i) y[i] = test(load_element(x.dtype, x.data, i));
}

void run_is_nan(const Call& c) {
  map_test(c, [](auto x) { return x != x; });
}

void run_is_inf(const Call& c) {
  const bool negative = c.attrs().integer("detect_negative", 1) != 0;
  const bool positive = c.attrs().integer("detect_positive", 1) != 0;
  map_test(c, [=](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

void infer(InferContext& c) {
  if (!is_float(c.dtype(0))) fail("input 0 is {}, expected floats", name(c.dtype(0)));
  c.output(0, DType::boolean, c.shape(0));
}

std::vector<OpCase> cases() {
  const Tensor odd = Tensor::of<float>({2, 3}, {INFINITY, -INFINITY, NAN, 0, -1, 1e38f});
  return {{"f32", {CaseInput::value(odd)}, {}, 1, 0, false},
          {"f16", {CaseInput::value(convert(odd, DType::f16))}, {}, 1, 0, false},
          {"f64", {CaseInput::value(convert(odd, DType::f64))}, {}, 1, 0, false},
          {"f8", {CaseInput::value(convert(odd, DType::f8e5m2))}, {}, 1, 0, false}};
}
std::vector<OpCase> inf_cases() {
  std::vector<OpCase> all = cases();
  for (const char* side : {"detect_negative", "detect_positive"}) {
    all.push_back(all[0]);
    all.back().name = side;
    all.back().attrs.set(side, int64_t{0});
  }
  return all;
}

constexpr AttrSpec kInfAttrs[] = {{"detect_negative", AttrType::integer}, {"detect_positive", AttrType::integer}};
constexpr Kernel kIsNaN[] = {{.name = "reference", .run = run_is_nan}};
constexpr Kernel kIsInf[] = {{.name = "reference", .run = run_is_inf}};

const OpDef kOps[] = {{.name = "IsNaN",
                       .doc = "Whether x is no number.",
                       .since = 9,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .traits = {.elementwise = true},
                       .infer = infer,
                       .cpu = kIsNaN,
                       .cuda = cuda::kElementwise,
                       .no_gradient = no_gradient::kNotFloats,
                       .cases = cases},
                      {.name = "IsInf",
                       .doc = "Whether x is infinite, of the signs asked for.",
                       .since = 10,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kInfAttrs,
                       .traits = {.elementwise = true},
                       .infer = infer,
                       .cpu = kIsInf,
                       .cuda = cuda::kElementwise,
                       .no_gradient = no_gradient::kNotFloats,
                       .cases = inf_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::predicates_ops
