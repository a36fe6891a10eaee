// Records of ops with one operand: makes an OpDef from a functor, the vector function of the same formula, and a name.
#pragma once

#include <array>

#include "ops/cpu/vector/elementwise.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/functors.h"
#include "ops/expect.h"
#include "ops/formula.h"

namespace sparkpilot {

// An attribute that becomes the functor's `alpha` (the first) or `beta` (the second).
struct Param {
  std::string_view name;
  float fallback;
};
inline constexpr std::array<Param, 0> kNoParams{};
// Used if there is no vector function: f32, f16 and bf16 are then computed in float by the functor.
struct NoVector {};
template <typename Vector>
inline constexpr std::string_view kFastName = std::is_same_v<std::remove_const_t<Vector>, NoVector> ? "float" : "simd";

// kVector: a UnaryMath, an Activation (which gets the functor's alpha and beta) or NoVector{}. kTypes: the dtypes.
template <class Fn, auto kVector, typename Types, const auto& kParams>
struct UnaryKernels {
  struct State final : KernelState {
    Fn fn;
  };
  static std::unique_ptr<KernelState> prepare(const Problem& p) {
    auto state = std::make_unique<State>();
    if constexpr (kParams.size() > 0) state->fn.alpha = p.attrs().real(kParams[0].name, kParams[0].fallback);
    if constexpr (kParams.size() > 1) state->fn.beta = p.attrs().real(kParams[1].name, kParams[1].fallback);
    return state;
  }
  static void fast(const Call& c) {
    const Fn& fn = c.as<State>().fn;
    map_vector(c, [&](const float* in, float* out, int64_t n) {
      using V = std::remove_const_t<decltype(kVector)>;
      if constexpr (std::is_same_v<V, UnaryMath>) vector_unary(kVector, in, out, n);
      else if constexpr (std::is_same_v<V, NoVector>) std::transform(in, in + n, out, fn);
      else if constexpr (requires { fn.alpha; }) apply_activation(kVector, fn.alpha, fn.beta, in, out, n);
      else apply_activation(kVector, 0, 0, in, out, n);
    });
  }
  static void reference(const Call& c) {
    const Fn& fn = c.as<State>().fn;
    dispatch(Types{}, c.inputs[0].dtype, [&]<typename T>() { map_unary<T, Wide<T>, T>(c, fn); });
  }
  static constexpr Kernel kKernels[] = {
      {.name = kFastName<decltype(kVector)>, .accepts = accepts_floats, .prepare = prepare, .run = fast},
      {.name = "reference", .accepts = nullptr, .prepare = prepare, .run = reference}};

  // `consumed_inputs` is a memory hint of opsets 1 to 5 and is ignored.
  static constexpr auto kAttributes = [] {
    std::array<AttrSpec, kParams.size() + 1> specs{};
    for (size_t i = 0; i < kParams.size(); ++i) specs[i] = {kParams[i].name, AttrType::real, false};
    specs[kParams.size()] = {"consumed_inputs", AttrType::integers, false};
    return specs;
  }();
};

template <typename Types>
void infer_unary(InferContext& c) {
  if (!contains(Types{}, c.dtype(0))) fail("input 0 is {}, which the op does not take", name(c.dtype(0)));
  infer_same(c);
}

// Cases of all sizes and dtypes, with values in [kLow, kHigh], and the special values where functions fail.
template <int kLow, int kHigh, typename Types>
std::vector<OpCase> unary_cases() {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor special = Tensor::of<float>({2, 6}, {0, -0.0f, inf, -inf, nan, 1e-40f, 1, -1, 0.5f, -0.5f, 2, 1e-3f});
  std::vector<OpCase> cases = {{"odd", {CaseInput::range({3, 5, 7}, kLow, kHigh)}, {}},
                               {"long", {CaseInput::range({9001}, kLow, kHigh)}, {}},
                               {"scalar", {CaseInput::range({}, kLow, kHigh)}, {}},
                               {"empty", {CaseInput::range({3, 0}, kLow, kHigh)}, {}},
                               {"f16", {CaseInput::range({5, 131}, kLow, kHigh, DType::f16)}, {}},
                               {"bf16", {CaseInput::range({300}, kLow, kHigh, DType::bf16)}, {}},
                               {"f64", {CaseInput::range({33}, kLow, kHigh, DType::f64)}, {}},
                               {"special", {CaseInput::value(special)}, {}, 1, 0, false}};
  if (contains(Types{}, DType::i32)) {
    cases.push_back({"i32", {CaseInput::range({33}, kLow, kHigh, DType::i32)}, {}});
    const Tensor edge = Tensor::of<int8_t>({4}, {-128, -1, 0, 127});
    cases.push_back({"i8_edge", {CaseInput::value(edge)}, {}});
  }
  return cases;
}

// The whole record. In its cases, inputs are drawn from [kLow, kHigh]. `grad`: null where the gradient is zero or none.
template <class Fn, auto kVector, int kLow, int kHigh, typename Types = FloatTypes, const auto& kParams = kNoParams>
constexpr OpDef unary_op(std::string_view name, int since, std::string_view doc, GradFn grad = nullptr) {
  using Kernels = UnaryKernels<Fn, kVector, Types, kParams>;
  return {.name = name,
          .doc = doc,
          .since = since,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = Kernels::kAttributes,
          .traits = {.in_place = over_any_input,
                     .elementwise = true,
                     .finite = std::is_same_v<std::remove_cv_t<decltype(kVector)>, Activation>},
          .infer = infer_unary<Types>,
          .cpu = Kernels::kKernels,
          .cuda = cuda::kElementwise,
          .grad = grad,
          .cases = unary_cases<kLow, kHigh, Types>};
}

}  // namespace sparkpilot
