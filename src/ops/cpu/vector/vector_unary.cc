#include "ops/cpu/vector/vector_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/vector_unary.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

template <class Fn>
void map(const float* in, float* out, int64_t n, const Fn& fn) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(fn(d, hn::LoadU(d, in + i)), d, out + i);
  if (i < n) {
    const auto left = static_cast<size_t>(n - i);
    store_first(d, fn(d, load_first(d, in + i, left)), out + i, left);
  }
}

// One line per function: `expression` of d, x (a vector) and the parameters alpha and beta (vectors).
#define SPARKPILOT_FUNCTOR(Name, expression)                    \
  struct Name {                                                 \
    float alpha_value = 0, beta_value = 0;                      \
    template <class D, class V>                                 \
    HWY_INLINE V operator()(D d, V x) const {                   \
      [[maybe_unused]] const V alpha = hn::Set(d, alpha_value); \
      [[maybe_unused]] const V beta = hn::Set(d, beta_value);   \
      [[maybe_unused]] const V zero = hn::Zero(d);              \
      [[maybe_unused]] const V one = hn::Set(d, 1.0f);          \
      return expression;                                        \
    }                                                           \
  };

SPARKPILOT_FUNCTOR(Relu, max_keep_nan(zero, x))
SPARKPILOT_FUNCTOR(LeakyRelu, hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x))
SPARKPILOT_FUNCTOR(ThresholdedRelu, hn::IfThenElse(hn::Le(x, alpha), zero, x))
// As ONNX defines Clip for low > high: the result is the upper bound.
SPARKPILOT_FUNCTOR(Clip, min_keep_nan(beta, max_keep_nan(alpha, x)))
SPARKPILOT_FUNCTOR(HardSigmoid, min_keep_nan(one, max_keep_nan(zero, hn::MulAdd(alpha, x, beta))))
SPARKPILOT_FUNCTOR(HardSwish,
                   hn::Mul(x, clamp_keep_nan(d, hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f)), 0, 1)))
SPARKPILOT_FUNCTOR(Sigmoid, sigmoid(d, x))
SPARKPILOT_FUNCTOR(Silu, silu(d, x, alpha))
SPARKPILOT_FUNCTOR(Tanh, tanh(d, x))
SPARKPILOT_FUNCTOR(GeluTanh, gelu_tanh(d, x))
SPARKPILOT_FUNCTOR(GeluErf, gelu_erf(d, x))
SPARKPILOT_FUNCTOR(Elu, hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, expm1(d, x)), x))
SPARKPILOT_FUNCTOR(Selu, hn::Mul(beta, hn::IfThenElse(hn::Le(x, zero), hn::Mul(alpha, expm1(d, x)), x)))
SPARKPILOT_FUNCTOR(Celu, hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, expm1(d, hn::Div(x, alpha))), x))
SPARKPILOT_FUNCTOR(Softplus, softplus(d, x))
SPARKPILOT_FUNCTOR(Softsign, hn::Div(x, hn::Add(one, hn::Abs(x))))
SPARKPILOT_FUNCTOR(Mish, mish(d, x))
SPARKPILOT_FUNCTOR(Shrink, hn::IfThenElse(hn::Lt(x, hn::Neg(alpha)), hn::Add(x, beta),
                                          hn::IfThenElse(hn::Gt(x, alpha), hn::Sub(x, beta), hn::Sub(x, x))))

SPARKPILOT_FUNCTOR(Abs, hn::Abs(x))
SPARKPILOT_FUNCTOR(Negate, hn::Neg(x))
SPARKPILOT_FUNCTOR(Sign, hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x)))
SPARKPILOT_FUNCTOR(Floor, hn::Floor(x))
SPARKPILOT_FUNCTOR(Ceil, hn::Ceil(x))
SPARKPILOT_FUNCTOR(Round, hn::Round(x))
SPARKPILOT_FUNCTOR(Sqrt, hn::Sqrt(x))
SPARKPILOT_FUNCTOR(Reciprocal, hn::Div(one, x))
SPARKPILOT_FUNCTOR(Square, hn::Mul(x, x))
SPARKPILOT_FUNCTOR(Exp, exp(d, x))
SPARKPILOT_FUNCTOR(Expm1, expm1(d, x))
SPARKPILOT_FUNCTOR(Log, log(d, x))
SPARKPILOT_FUNCTOR(Erf, erf(d, x))
SPARKPILOT_FUNCTOR(Sin, sin_quarter(d, x, 0))
SPARKPILOT_FUNCTOR(Cos, sin_quarter(d, x, 1))
#undef SPARKPILOT_FUNCTOR

void activation_impl(Activation activation, float alpha, float beta, const float* in, float* out, int64_t n) {
  switch (activation) {
    case Activation::relu: return map(in, out, n, Relu{});
    case Activation::leaky_relu: return map(in, out, n, LeakyRelu{alpha});
    case Activation::thresholded_relu: return map(in, out, n, ThresholdedRelu{alpha});
    case Activation::clip: return map(in, out, n, Clip{alpha, beta});
    case Activation::hard_sigmoid: return map(in, out, n, HardSigmoid{alpha, beta});
    case Activation::hard_swish: return map(in, out, n, HardSwish{});
    case Activation::sigmoid: return map(in, out, n, Sigmoid{});
    case Activation::silu: return map(in, out, n, Silu{alpha});
    case Activation::tanh: return map(in, out, n, Tanh{});
    case Activation::gelu_tanh: return map(in, out, n, GeluTanh{});
    case Activation::gelu_erf: return map(in, out, n, GeluErf{});
    case Activation::elu: return map(in, out, n, Elu{alpha});
    case Activation::selu: return map(in, out, n, Selu{alpha, beta});
    case Activation::celu: return map(in, out, n, Celu{alpha});
    case Activation::softplus: return map(in, out, n, Softplus{});
    case Activation::softsign: return map(in, out, n, Softsign{});
    case Activation::mish: return map(in, out, n, Mish{});
    case Activation::shrink: return map(in, out, n, Shrink{alpha, beta});
  }
}

void unary_impl(UnaryMath op, const float* in, float* out, int64_t n) {
  switch (op) {
    case UnaryMath::abs: return map(in, out, n, Abs{});
    case UnaryMath::neg: return map(in, out, n, Negate{});
    case UnaryMath::sign: return map(in, out, n, Sign{});
    case UnaryMath::floor: return map(in, out, n, Floor{});
    case UnaryMath::ceil: return map(in, out, n, Ceil{});
    case UnaryMath::round: return map(in, out, n, Round{});
    case UnaryMath::sqrt: return map(in, out, n, Sqrt{});
    case UnaryMath::reciprocal: return map(in, out, n, Reciprocal{});
    case UnaryMath::square: return map(in, out, n, Square{});
    case UnaryMath::exp: return map(in, out, n, Exp{});
    case UnaryMath::expm1: return map(in, out, n, Expm1{});
    case UnaryMath::log: return map(in, out, n, Log{});
    case UnaryMath::erf: return map(in, out, n, Erf{});
    case UnaryMath::sin: return map(in, out, n, Sin{});
    case UnaryMath::cos: return map(in, out, n, Cos{});
  }
}

const char* target_impl() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(activation_impl);
HWY_EXPORT(unary_impl);
HWY_EXPORT(target_impl);

void apply_activation(Activation activation, float alpha, float beta, const float* in, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activation_impl)(activation, alpha, beta, in, out, n);
}

void vector_unary(UnaryMath op, const float* in, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(unary_impl)(op, in, out, n);
}

std::string_view vector_target() { return HWY_DYNAMIC_DISPATCH(target_impl)(); }

}  // namespace sparkpilot
#endif  // HWY_ONCE
