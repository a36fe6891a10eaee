// The functions of elementwise chains (elementwise.h) on fp32. NaN stays NaN.
#pragma once

#include "ops/cuda/device.cuh"
#include "ops/cuda/elementwise.h"

namespace device {

using sparkpilot::cuda::Function;

// sin(x + quarters * pi / 2). CUDA's own keeps local memory for large arguments; this reduces in double, which is exact
// enough for |x| below 10^15, and gives NaN above.
__device__ __forceinline__ float sine(float x, int quarters) {
  const double k = rint(static_cast<double>(x) * 0.63661977236758134);
  if (!(fabs(k) < 1e15)) return __uint_as_float(0x7fffffffu);
  const double r = fma(-k, 6.1232339957367660e-17, fma(-k, 1.5707963267948966, static_cast<double>(x)));
  const int quarter = static_cast<int>(static_cast<long long>(k) & 3) + quarters;
  const float f = static_cast<float>(r), s = f * f;
  float y;
  if (quarter & 1) {
    y = 1.0f + s * (-0.5f + s * (4.1666645683e-2f + s * (-1.3887316255e-3f + s * 2.4433157118e-5f)));
  } else {
    y = f + f * s * (-1.6666654611e-1f + s * (8.3321608736e-3f + s * -1.9515295891e-4f));
  }
  return quarter & 2 ? -y : y;
}

__device__ __forceinline__ float softplus(float x) { return max_nan(x, 0.0f) + log1pf(expf(-fabsf(x))); }

__device__ __forceinline__ float unary(Function function, float x, float alpha, float beta) {
  switch (function) {
    case Function::relu: return x < 0.0f ? 0.0f : x;
    case Function::leaky_relu: return x < 0.0f ? alpha * x : x;
    case Function::thresholded_relu: return x <= alpha ? 0.0f : x;
    case Function::clip: return min_nan(max_nan(x, alpha), beta);
    case Function::hard_sigmoid: return min_nan(max_nan(alpha * x + beta, 0.0f), 1.0f);
    case Function::hard_swish: return x * min_nan(max_nan(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f);
    case Function::sigmoid: return 1.0f / (1.0f + expf(-x));
    case Function::silu: return x / (1.0f + expf(-alpha * x));
    case Function::tanh: return tanhf(x);
    case Function::gelu_tanh: return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Function::gelu_erf: return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    case Function::elu: return x < 0.0f ? alpha * expm1f(x) : x;
    case Function::selu: return beta * (x <= 0.0f ? alpha * expm1f(x) : x);
    case Function::celu: return x < 0.0f ? alpha * expm1f(x / alpha) : x;
    case Function::softplus: return softplus(x);
    case Function::softsign: return x / (1.0f + fabsf(x));
    case Function::mish: return x * tanhf(softplus(x));
    case Function::shrink: return x < -alpha ? x + beta : x > alpha ? x - beta : x - x;
    case Function::neg: return -x;
    case Function::abs: return fabsf(x);
    case Function::sign: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    case Function::logical_not: return x == 0.0f ? 1.0f : 0.0f;
    case Function::is_nan: return x != x ? 1.0f : 0.0f;
    case Function::is_inf: return (x == INFINITY && alpha != 0.0f) || (x == -INFINITY && beta != 0.0f) ? 1.0f : 0.0f;
    case Function::reciprocal: return 1.0f / x;
    case Function::sqrt: return sqrtf(x);
    case Function::exp: return expf(x);
    case Function::log: return logf(x);
    case Function::erf: return erff(x);
    case Function::floor: return floorf(x);
    case Function::ceil: return ceilf(x);
    case Function::round: return rintf(x);
    case Function::sin: return sine(x, 0);
    case Function::cos: return sine(x, 1);
    case Function::tan: return sine(x, 0) / sine(x, 1);
    case Function::sinh: return sinhf(x);
    case Function::cosh: return coshf(x);
    default: return __uint_as_float(0x7fffffffu);
  }
}

__device__ __forceinline__ float binary(Function function, float x, float y) {
  switch (function) {
    case Function::add: return x + y;
    case Function::sub: return x - y;
    case Function::mul: return x * y;
    case Function::div: return x / y;
    case Function::min: return min_nan(x, y);
    case Function::max: return max_nan(x, y);
    case Function::pow: return powf(x, y);
    case Function::mod: {
      const float r = fmodf(x, y);
      if (r == 0.0f) return copysignf(0.0f, y);
      return r != r || (r < 0.0f) == (y < 0.0f) ? r : r + y;
    }
    case Function::fmod: return fmodf(x, y);
    case Function::prelu: return x < 0.0f ? x * y : x;
    case Function::equal: return x == y ? 1.0f : 0.0f;
    case Function::less: return x < y ? 1.0f : 0.0f;
    case Function::less_or_equal: return x <= y ? 1.0f : 0.0f;
    case Function::greater: return x > y ? 1.0f : 0.0f;
    case Function::greater_or_equal: return x >= y ? 1.0f : 0.0f;
    case Function::logical_and: return x != 0.0f && y != 0.0f ? 1.0f : 0.0f;
    case Function::logical_or: return x != 0.0f || y != 0.0f ? 1.0f : 0.0f;
    case Function::logical_xor: return (x != 0.0f) != (y != 0.0f) ? 1.0f : 0.0f;
    case Function::load: return y;
    default: return __uint_as_float(0x7fffffffu);
  }
}

// In 64 bits, wrapping.
__device__ __forceinline__ long long integers(Function function, long long x, long long y) {
  const auto u = static_cast<unsigned long long>(x), v = static_cast<unsigned long long>(y);
  switch (function) {
    case Function::relu: return x < 0 ? 0 : x;
    case Function::neg: return static_cast<long long>(0 - u);
    case Function::abs: return x < 0 ? static_cast<long long>(0 - u) : x;
    case Function::sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Function::logical_not: return x == 0;
    case Function::add: return static_cast<long long>(u + v);
    case Function::sub: return static_cast<long long>(u - v);
    case Function::mul: return static_cast<long long>(u * v);
    case Function::min: return x < y ? x : y;
    case Function::max: return x > y ? x : y;
    case Function::div:
    case Function::mod:
    case Function::fmod: {
      const bool minus = y == -1;
      const long long q = y == 0 ? 0 : minus ? static_cast<long long>(0 - u) : x / y;
      if (function == Function::div) return q;
      const long long r = y == 0 || minus ? 0 : x - q * y;
      return function == Function::mod && r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
    case Function::prelu: return x < 0 ? static_cast<long long>(u * v) : x;
    case Function::equal: return x == y;
    case Function::less: return x < y;
    case Function::less_or_equal: return x <= y;
    case Function::greater: return x > y;
    case Function::greater_or_equal: return x >= y;
    case Function::logical_and: return x & y;
    case Function::logical_or: return x | y;
    case Function::logical_xor: return x ^ y;
    case Function::load: return y;
    default: return x;
  }
}

}  // namespace device
