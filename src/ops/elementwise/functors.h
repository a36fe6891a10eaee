// The formulas of elementwise ops, one line each, for host and device.
//
// A functor is a plain struct: its members are the op's attributes, and its call takes elements in the type used for
// the arithmetic (double in the references, float or an integer type elsewhere). The loops that call it are in
// ops/cpu/vector/elementwise.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define SPARKPILOT_HOST_DEVICE __host__ __device__
#else
#define SPARKPILOT_HOST_DEVICE
#endif

namespace sparkpilot::fn {

// --- one operand, floats
#define SPARKPILOT_UNARY(Name, expression)           \
  struct Name {                                      \
    template <typename T>                            \
    SPARKPILOT_HOST_DEVICE T operator()(T x) const { \
      return expression;                             \
    }                                                \
  };

SPARKPILOT_UNARY(Acos, std::acos(x))
SPARKPILOT_UNARY(Acosh, std::acosh(x))
SPARKPILOT_UNARY(Asin, std::asin(x))
SPARKPILOT_UNARY(Asinh, std::asinh(x))
SPARKPILOT_UNARY(Atan, std::atan(x))
SPARKPILOT_UNARY(Atanh, std::atanh(x))
SPARKPILOT_UNARY(Ceil, std::ceil(x))
SPARKPILOT_UNARY(Cos, std::cos(x))
SPARKPILOT_UNARY(Cosh, std::cosh(x))
SPARKPILOT_UNARY(Erf, static_cast<T>(std::erf(x)))
SPARKPILOT_UNARY(Exp, std::exp(x))
SPARKPILOT_UNARY(Floor, std::floor(x))
SPARKPILOT_UNARY(Log, std::log(x))
SPARKPILOT_UNARY(Reciprocal, T(1) / x)
SPARKPILOT_UNARY(Round, std::nearbyint(x))
SPARKPILOT_UNARY(Sin, std::sin(x))
SPARKPILOT_UNARY(Sinh, std::sinh(x))
SPARKPILOT_UNARY(Sqrt, std::sqrt(x))
SPARKPILOT_UNARY(Tan, std::tan(x))
SPARKPILOT_UNARY(Tanh, std::tanh(x))
SPARKPILOT_UNARY(Sigmoid, T(1) / (T(1) + std::exp(-x)))
SPARKPILOT_UNARY(Softplus, (x > 0 ? x : x == x ? T(0) : x) + std::log1p(std::exp(-std::fabs(x))))
SPARKPILOT_UNARY(Softsign, x / (T(1) + std::fabs(x)))
SPARKPILOT_UNARY(HardSwish, x* std::fmin(std::fmax(x / T(6) + T(0.5), T(0)), T(1)))
SPARKPILOT_UNARY(Mish, x* std::tanh(Softplus()(x)))
SPARKPILOT_UNARY(GeluTanh, T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x))))
SPARKPILOT_UNARY(GeluErf, T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752))))
#undef SPARKPILOT_UNARY

// --- one operand, floats, with attributes
#define SPARKPILOT_UNARY_WITH_ATTRIBUTES(Name, expression)                          \
  struct Name {                                                                     \
    float alpha = 0, beta = 0;                                                      \
    template <typename T>                                                           \
    SPARKPILOT_HOST_DEVICE T operator()(T x) const {                                \
      [[maybe_unused]] const T a = static_cast<T>(alpha), b = static_cast<T>(beta); \
      return expression;                                                            \
    }                                                                               \
  };

SPARKPILOT_UNARY_WITH_ATTRIBUTES(Celu, x < 0 ? a * std::expm1(x / a) : x)
SPARKPILOT_UNARY_WITH_ATTRIBUTES(Elu, x < 0 ? a * std::expm1(x) : x)
SPARKPILOT_UNARY_WITH_ATTRIBUTES(HardSigmoid, x == x ? std::fmin(std::fmax(a * x + b, T(0)), T(1)) : x)
SPARKPILOT_UNARY_WITH_ATTRIBUTES(LeakyRelu, x < 0 ? a * x : x)
SPARKPILOT_UNARY_WITH_ATTRIBUTES(Selu, b*(x <= 0 ? a * std::expm1(x) : x))
SPARKPILOT_UNARY_WITH_ATTRIBUTES(Shrink, x<-a ? x + b : x> a ? x - b : x - x)
SPARKPILOT_UNARY_WITH_ATTRIBUTES(Swish, x / (T(1) + std::exp(-a * x)))
SPARKPILOT_UNARY_WITH_ATTRIBUTES(ThresholdedRelu, x <= a ? T(0) : x)
#undef SPARKPILOT_UNARY_WITH_ATTRIBUTES

// --- arithmetic on floats and integers. Integers wrap around as in NumPy; nothing here is undefined for any operand.
template <typename T>
using Unsigned = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

// `a op b` with both converted to unsigned first, so that overflow wraps.
#define SPARKPILOT_BINARY(Name, float_expression, integer_expression)                           \
  struct Name {                                                                                 \
    template <typename T>                                                                       \
    SPARKPILOT_HOST_DEVICE T operator()(T a, T b) const {                                       \
      if constexpr (std::is_integral_v<T>) {                                                    \
        [[maybe_unused]] const auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b); \
        return static_cast<T>(integer_expression);                                              \
      } else {                                                                                  \
        return float_expression;                                                                \
      }                                                                                         \
    }                                                                                           \
  };

// Integer division: rounds towards zero; division by zero gives 0, and the lowest number divided by -1 wraps to itself.
template <typename T>
SPARKPILOT_HOST_DEVICE T divide_integers(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
}
// The remainder with the sign of a; 0 for b = 0.
template <typename T>
SPARKPILOT_HOST_DEVICE T remainder_integers(T a, T b) {
  if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
  return static_cast<T>(a % b);
}
// The remainder with the sign of b; 0 for b = 0.
template <typename T>
SPARKPILOT_HOST_DEVICE T modulo_integers(T a, T b) {
  const T r = remainder_integers(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
// Mod of floats, with the special cases of ONNX; a zero takes the sign of b.
template <typename T>
SPARKPILOT_HOST_DEVICE T modulo_floats(T a, T b) {
  const T r = std::fmod(a, b);
  if (r == 0) return std::copysign(T(0), b);
  return r != r || (r < 0) == (b < 0) ? r : r + b;
}

SPARKPILOT_BINARY(Add, a + b, u + v)
SPARKPILOT_BINARY(Sub, a - b, u - v)
SPARKPILOT_BINARY(Mul, a* b, u* v)
SPARKPILOT_BINARY(Div, a / b, divide_integers(a, b))
SPARKPILOT_BINARY(Fmod, std::fmod(a, b), remainder_integers(a, b))
SPARKPILOT_BINARY(Modulo, modulo_floats(a, b), modulo_integers(a, b))
SPARKPILOT_BINARY(Max, a != a || a > b ? a : b, a > b ? a : b)
SPARKPILOT_BINARY(Min, a != a || a < b ? a : b, a < b ? a : b)
// PRelu: b is the slope.
SPARKPILOT_BINARY(ScaleNegative, a < 0 ? a * b : a, a < 0 ? u * v : u)
#undef SPARKPILOT_BINARY

// Base and exponent may have any types; the result has the base's. Integer powers of integers wrap; a negative exponent
// gives the truncated reciprocal, and 0 for base 0.
struct Pow {
  template <typename T, typename E>
  SPARKPILOT_HOST_DEVICE T operator()(T base, E exponent) const {
    if constexpr (!std::is_integral_v<T>) {
      return static_cast<T>(std::pow(base, static_cast<T>(exponent)));
    } else if constexpr (!std::is_integral_v<E>) {
      const double power = std::pow(static_cast<double>(base), static_cast<double>(exponent));
      const double limit = static_cast<double>(std::numeric_limits<T>::max());
      if (power != power) return 0;
      if (power >= limit) return std::numeric_limits<T>::max();
      return power <= -limit ? std::numeric_limits<T>::min() : static_cast<T>(power);
    } else {
      if (exponent < 0) {
        if (base == 1) return 1;
        return base == static_cast<T>(-1) ? static_cast<T>(exponent % 2 != 0 ? -1 : 1) : static_cast<T>(0);
      }
      uint64_t result = 1, square = static_cast<uint64_t>(base);
      for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1, square *= square) {
        if (left & 1) result *= square;
      }
      return static_cast<T>(result);
    }
  }
};

// --- floats and integers
struct Abs {
  template <typename T>
  SPARKPILOT_HOST_DEVICE T operator()(T x) const {
    if constexpr (!std::is_integral_v<T>) return std::fabs(x);
    else return x < 0 ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
  }
};
struct Neg {
  template <typename T>
  SPARKPILOT_HOST_DEVICE T operator()(T x) const {
    if constexpr (!std::is_integral_v<T>) return -x;
    else return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  }
};
struct Sign {
  template <typename T>
  SPARKPILOT_HOST_DEVICE T operator()(T x) const {
    return x > 0 ? T(1) : x < 0 ? static_cast<T>(-1) : x;
  }
};
struct Relu {
  template <typename T>
  SPARKPILOT_HOST_DEVICE T operator()(T x) const {
    return x < 0 ? T(0) : x;
  }
};

// --- comparisons and logic
#define SPARKPILOT_COMPARE(Name, expression)                 \
  struct Name {                                              \
    template <typename T>                                    \
    SPARKPILOT_HOST_DEVICE bool operator()(T a, T b) const { \
      return expression;                                     \
    }                                                        \
  };
SPARKPILOT_COMPARE(Equal, a == b)
SPARKPILOT_COMPARE(Greater, a > b)
SPARKPILOT_COMPARE(GreaterOrEqual, a >= b)
SPARKPILOT_COMPARE(Less, a < b)
SPARKPILOT_COMPARE(LessOrEqual, a <= b)
#undef SPARKPILOT_COMPARE

// And, Or and Xor apply to booleans (0 and 1) and integers.
#define SPARKPILOT_BITWISE(Name, expression)              \
  struct Name {                                           \
    template <typename T>                                 \
    SPARKPILOT_HOST_DEVICE T operator()(T a, T b) const { \
      return static_cast<T>(expression);                  \
    }                                                     \
  };
SPARKPILOT_BITWISE(And, a& b)
SPARKPILOT_BITWISE(Or, a | b)
SPARKPILOT_BITWISE(Xor, a ^ b)
// Shifting by a negative amount, or by at least the number of bits, leaves only the sign extension.
SPARKPILOT_BITWISE(ShiftLeft, b < 0 || static_cast<uint64_t>(b) >= 8 * sizeof(T) ? 0 : static_cast<uint64_t>(a) << b)
SPARKPILOT_BITWISE(ShiftRight, b < 0 || static_cast<uint64_t>(b) >= 8 * sizeof(T) ? (a < 0 ? -1 : 0) : a >> b)
#undef SPARKPILOT_BITWISE

}  // namespace sparkpilot::fn
