// Activations: functions of one operand between a network's layers.
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/unary.h"
#include "ops/registry.h"

namespace sparkpilot::activations_ops {
namespace {

constexpr std::array<Param, 1> kAlphaOne{{{"alpha", 1.0f}}};
constexpr std::array<Param, 1> kLeaky{{{"alpha", 0.01f}}};
constexpr std::array<Param, 2> kHardSigmoid{{{"alpha", 0.2f}, {"beta", 0.5f}}};
constexpr std::array<Param, 2> kSelu{{{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}};
constexpr std::array<Param, 2> kShrink{{{"lambd", 0.5f}, {"bias", 0.0f}}};

// Integers are computed in double too, since lambd and bias are fractions.
struct ShrinkAny : fn::Shrink {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return saturate_to<T>(fn::Shrink::operator()(static_cast<double>(x)));
    } else {
      return fn::Shrink::operator()(x);
    }
  }
};

// Gelu: `approximate` selects the formula.
struct GeluState final : KernelState {
  bool tanh = false;
};
std::unique_ptr<KernelState> prepare_gelu(const Problem& p) {
  auto state = std::make_unique<GeluState>();
  state->tanh = p.attrs().text("approximate", "none") == "tanh";
  return state;
}
void run_gelu(const Call& c) {
  const Activation function = c.as<GeluState>().tanh ? Activation::gelu_tanh : Activation::gelu_erf;
  map_vector(c, [&](const float* in, float* out, int64_t n) { apply_activation(function, 0, 0, in, out, n); });
}
void run_gelu_reference(const Call& c) {
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    if (c.as<GeluState>().tanh) map_unary<T, double, T>(c, fn::GeluTanh{});
    else map_unary<T, double, T>(c, fn::GeluErf{});
  });
}
void infer_gelu(InferContext& c) {
  expect_float(c, 0);
  const std::string form = c.attrs.text("approximate", "none");
  if (form != "none" && form != "tanh") fail("approximate is \"{}\", expected none or tanh", form);
  infer_same(c);
}
std::vector<OpCase> gelu_cases() {
  std::vector<OpCase> cases = unary_cases<-9, 9, FloatTypes>();
  for (size_t i = 0, n = cases.size(); i < n; ++i) {
    cases.push_back(cases[i]);
    cases.back().name += "_tanh";
    cases.back().attrs.set("approximate", std::string("tanh"));
  }
  return cases;
}
// y = x P(x), P the normal distribution's function or its approximation by tanh; so dy = P(x) + x P'(x).
Term gradient_of_gelu(Term x, Term, Term g, const Attributes& a) {
  if (a.text("approximate", "none") == "tanh") {
    constexpr double kScale = 0.7978845608028654, kCube = 0.044715;  // sqrt(2 / pi), and the approximation's
    const Term square = x * x, t = (kScale * x * (kCube * square + 1)).of("Tanh");
    return g * (0.5 * (t + 1) + 0.5 * kScale * x * (1 - t * t) * (3 * kCube * square + 1));
  }
  constexpr double kRoot = 0.7071067811865476, kDensity = 0.3989422804014327;  // 1 / sqrt(2), 1 / sqrt(2 pi)
  return g * (0.5 * ((kRoot * x).of("Erf") + 1) + kDensity * x * (-0.5 * (x * x)).of("Exp"));
}
constexpr AttrSpec kGeluAttrs[] = {{"approximate", AttrType::text}};
constexpr Kernel kGelu[] = {{.name = "simd", .accepts = accepts_floats, .prepare = prepare_gelu, .run = run_gelu},
                            {.name = "reference", .prepare = prepare_gelu, .run = run_gelu_reference}};

// --- SwiGLU
void infer_swiglu(InferContext& c) {
  expect_float(c, 0);
  expect_same_dtype(c, 1, 0);
  expect_shape(c, 1, c.shape(0));
  infer_same(c);
}
std::vector<ValueId> expand_swiglu(ExpandContext& e) {
  const ValueId gate = e.b.add("Swish", {e.in(0)}, {{"alpha", e.node.attrs.real("alpha", 1)}});
  return {e.b.add("Mul", {gate, e.in(1)})};
}
constexpr AttrSpec kSwigluAttrs[] = {{"alpha", AttrType::real}};

const OpDef kOps[] = {
    unary_op<fn::Celu, Activation::celu, -5, 5, FloatTypes, kAlphaOne>(
        "Celu", 12, "Continuously differentiable ELU.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes& a) {
          return where(y > 0, g, g * (1 / a.real("alpha", 1) * y + 1));
        }>),
    unary_op<fn::Elu, Activation::elu, -5, 5, FloatTypes, kAlphaOne>(
        "Elu", 1, "x, or alpha (exp(x) - 1) below zero.",
        gradient_of_unary<[](Term x, Term y, Term g, const Attributes& a) {
          return where((a.real("alpha", 1) < 0 ? x : y) > 0, g, g * (y + a.real("alpha", 1)));
        }>),
    unary_op<fn::HardSigmoid, Activation::hard_sigmoid, -5, 5, FloatTypes, kHardSigmoid>(
        "HardSigmoid", 1, "alpha x + beta held between 0 and 1.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes& a) {
          return where((y > 0) & (y < 1), a.real("alpha", 0.2F) * g, 0);
        }>),
    unary_op<fn::HardSwish, Activation::hard_swish, -5, 5>(
        "HardSwish", 14, "x times (x / 6 + 1 / 2) held in [0, 1].",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) {
          return where(x > 3, g, where(x > -3, g * (1.0 / 3 * x + 0.5), 0));
        }>),
    unary_op<fn::LeakyRelu, Activation::leaky_relu, -5, 5, FloatTypes, kLeaky>(
        "LeakyRelu", 1, "x, or alpha x below zero.", gradient_of_unary<[](Term x, Term, Term g, const Attributes& a) {
          return where(x > 0, g, a.real("alpha", 0.01F) * g);
        }>),
    unary_op<fn::Mish, Activation::mish, -9, 9>("Mish", 18, "x tanh(softplus(x)).",
                                                gradient_of_unary<[](Term x, Term, Term g, const Attributes&) {
                                                  const Term t = x.of("Softplus").of("Tanh");
                                                  return g * (t + x * x.of("Sigmoid") * (1 - t * t));
                                                }>),
    unary_op<fn::Relu, Activation::relu, -5, 5, NumericTypes>(
        "Relu", 1, "x, or 0 below zero.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return where(y > 0, g, 0); }>),
    unary_op<fn::Selu, Activation::selu, -5, 5, FloatTypes, kSelu>(
        "Selu", 1, "gamma times Elu.", gradient_of_unary<[](Term x, Term y, Term g, const Attributes& a) {
          return where(x > 0, a.real("gamma", kSelu[1].fallback) * g,
                       g * (y + a.real("gamma", kSelu[1].fallback) * a.real("alpha", kSelu[0].fallback)));
        }>),
    unary_op<ShrinkAny, Activation::shrink, -5, 5, NumericTypes, kShrink>(
        "Shrink", 9, "x moved towards zero by bias, 0 within lambd.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes& a) {
          return where(x.of("Abs") > a.real("lambd", 0.5F), g, 0);
        }>),
    unary_op<fn::Sigmoid, Activation::sigmoid, -20, 20>(
        "Sigmoid", 1, "1 / (1 + exp(-x)).",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return g * y * (1 - y); }>),
    unary_op<fn::Softplus, Activation::softplus, -20, 20>(
        "Softplus", 1, "log(1 + exp(x)).",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g * x.of("Sigmoid"); }>),
    unary_op<fn::Softsign, Activation::softsign, -5, 5>("Softsign", 1, "x / (1 + |x|).",
                                                        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) {
                                                          const Term size = x.of("Abs") + 1;
                                                          return g / (size * size);
                                                        }>),
    unary_op<fn::Swish, Activation::silu, -20, 20, FloatTypes, kAlphaOne>(
        "Swish", 24, "x sigmoid(alpha x).", gradient_of_unary<[](Term x, Term y, Term g, const Attributes& a) {
          const Term alpha = x.number(a.real("alpha", 1)), s = (alpha * x).of("Sigmoid");
          return g * (s + alpha * y * (1 - s));
        }>),
    unary_op<fn::Tanh, Activation::tanh, -9, 9>(
        "Tanh", 1, "Hyperbolic tangent.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return g * (1 - y * y); }>),
    unary_op<fn::ThresholdedRelu, Activation::thresholded_relu, -5, 5, FloatTypes, kAlphaOne>(
        "ThresholdedRelu", 10, "x above alpha, else 0.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes& a) {
          return where(x > a.real("alpha", 1), g, 0);
        }>),
    {.name = "Gelu",
     .doc = "Gaussian error linear unit.",
     .since = 20,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kGeluAttrs,
     .traits = {.in_place = over_any_input, .elementwise = true, .finite = true},
     .infer = infer_gelu,
     .cpu = kGelu,
     .cuda = cuda::kElementwise,
     .grad = gradient_of_unary<gradient_of_gelu>,
     .cases = gelu_cases},
    {.name = "SwiGLU",
     .doc = "Swish of a gate, times a value.",
     .since = 28,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kSwigluAttrs,
     .infer = infer_swiglu,
     .expand = expand_swiglu},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::activations_ops
