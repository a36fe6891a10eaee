// The functions of steps, over any number type (sim/number-inl.h). Greatest errors, tested in math_test.cc; an ulp is
// one of the number type's (2^-23 of a float's power of two).
//
//   function   arguments              float and Lanes                        double
//   sin_cos    |x| <= 1e4             1e-7 + 2e-9 |x|, absolute              1e-15 + 1e-16 |x|
//   tan        |x| <= 1.5             4 ulp                                  8 ulp
//   atan       any but NaN            4 ulp                                  8 ulp
//   exp        [-80, 80]              2 ulp                                  4 ulp
//   log        normal, positive       2 ulp, absolute 6e-8 near 1            4 ulp, 2e-16
//
// The polynomials for floats are made by bench/sim/fit_polynomials.py; those for doubles are Taylor's. Ranges are
// reduced as in W. J. Cody and W. Waite, "Software manual for the elementary functions", 1980.
#if defined(SPARKPILOT_SIM_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_MATH_INL_H_
#undef SPARKPILOT_SIM_MATH_INL_H_
#else
#define SPARKPILOT_SIM_MATH_INL_H_
#endif

#include "sim/number-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// c[0] + c[1] x + ... by Horner's rule.
template <class N, int kTerms>
SIM_FN N polynomial(N x, const double (&c)[kTerms]) {
  N y = N(c[kTerms - 1]);
  for (int i = kTerms - 2; i >= 0; --i) y = mul_add(y, x, N(c[i]));
  return y;
}

// sin(x) and cos(x) for |x| <= pi / 4.
template <class N>
SIM_FN void sin_cos_small(N x, N& sine, N& cosine) {
  const N t = x * x;
  N p, q;
  if constexpr (kIsDouble<N>) {
    p = polynomial<N>(
        t, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000});
    q = polynomial<N>(t, {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200,
                          1.0 / 20922789888000});
  } else {
    p = polynomial<N>(t, {-1.666665454e-01, 8.332156051e-03, -1.951463143e-04});
    q = polynomial<N>(t, {4.166664555e-02, -1.388730986e-03, 2.443241251e-05});
  }
  sine = mul_add(p * t, x, x);
  cosine = mul_add(q * t, t, neg_mul_add(N(0.5), t, N(1)));
}

template <class N>
SIM_FN void sin_cos(N x, N& sine, N& cosine) {
  const N n = round(x * N(0.63661977236758134));  // quarters of a turn
  N r;
  if constexpr (kIsDouble<N>) {
    r = neg_mul_add(n, N(1.5707963267341256), x);  // 33 bits: exact for |n| < 2^20
    r = neg_mul_add(n, N(6.0771005063039597e-11), r);
    r = neg_mul_add(n, N(2.9127320560933561e-20), r);
  } else {
    r = neg_mul_add(n, N(1.5703125), x);  // 8 bits: exact for |n| < 2^16 without fused multiply-adds, too
    r = neg_mul_add(n, N(4.83751296997e-4), r);
    r = neg_mul_add(n, N(7.54979012640e-8), r);
  }
  N s, c;
  sin_cos_small(r, s, c);
  const N quarter = neg_mul_add(N(4), round(n * N(0.25)), n);  // -2 to 2
  const auto odd = abs(quarter) == N(1), half = abs(quarter) == N(2);
  const N a = select(odd, c, s), b = select(odd, s, c);
  sine = select(half || (quarter == N(-1)), -a, a);
  cosine = select(half || (quarter == N(1)), -b, b);
}

template <class N>
SIM_FN N tan(N x) {
  N s, c;
  sin_cos(x, s, c);
  return s / c;
}

template <class N>
SIM_FN N atan(N x) {
  const N size = abs(x);
  const auto inverted = size > N(1);
  N t = select(inverted, N(1) / size, size), y;
  if constexpr (kIsDouble<N>) {
    for (int i = 0; i < 3; ++i) t = t / (N(1) + sqrt(mul_add(t, t, N(1))));  // half the angle
    const N p = polynomial<N>(t * t, {-1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17});
    y = N(8) * mul_add(p * (t * t), t, t);
  } else {
    const N p = polynomial<N>(t * t, {-3.333315274e-01, 1.999377282e-01, -1.421105514e-01, 1.066600388e-01,
                                      -7.552212475e-02, 4.321183714e-02, -1.636791206e-02, 2.920687906e-03});
    y = mul_add(p * (t * t), t, t);
  }
  y = select(inverted, N(1.5707963267948966) - y, y);
  return select(x < N(0), -y, y);
}

template <class N>
SIM_FN N exp(N x) {
  const N n = round(x * N(1.4426950408889634));
  N p, r;
  if constexpr (kIsDouble<N>) {
    r = neg_mul_add(n, N(0.69314718036912382), x);  // 32 bits
    r = neg_mul_add(n, N(1.9082149292705877e-10), r);
    p = polynomial<N>(r, {0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                          1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800});
  } else {
    r = neg_mul_add(n, N(0.693145751953125), x);  // 16 bits
    r = neg_mul_add(n, N(1.42860682030941723e-6), r);
    p = polynomial<N>(r, {4.999999329e-01, 1.666651828e-01, 4.166841570e-02, 8.369000892e-03, 1.381401041e-03});
  }
  return (mul_add(p, r * r, r) + N(1)) * power_of_two(n);
}

template <class N>
SIM_FN N log(N x) {
  N m, e;
  split_exponent(x, m, e);
  const N f = m - N(1);
  if constexpr (kIsDouble<N>) {
    const N s = f / (N(2) + f), t = s * s;  // log((1 + s) / (1 - s)), |s| < 0.172
    const N p =
        polynomial<N>(t, {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19});
    return e * N(0.69314718036912382) + (mul_add(e, N(1.9082149292705877e-10), N(2) * p * t * s) + N(2) * s);
  } else {
    const N p = polynomial<N>(f, {3.333331254e-01, -2.500000946e-01, 2.000212366e-01, -1.666800858e-01, 1.421945222e-01,
                                  -1.240527625e-01, 1.188863475e-01, -1.167789205e-01, 6.748350505e-02});
    N y = mul_add(e, N(1.42860682030941723e-6), p * f * (f * f));
    y = neg_mul_add(N(0.5) * f, f, y);
    return mul_add(e, N(0.693145751953125), f + y);
  }
}

// The broken line through (x[i], y[i]), x rising; held beyond its ends. Sums from the last point on, so that a table
// that falls to a small value, as those of gains do, is exact there.
template <class N, int kPoints>
SIM_FN N interpolate(N at, const double (&x)[kPoints], const N (&y)[kPoints]) {
  N sum = y[kPoints - 1];
  for (int i = kPoints - 2; i >= 0; --i) {
    const N before = clip(N(x[i + 1]) - at, N(0), N(x[i + 1] - x[i]));
    sum = mul_add((y[i] - y[i + 1]) * N(1 / (x[i + 1] - x[i])), before, sum);
  }
  return sum;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
