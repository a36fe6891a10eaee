// The functions of vector_math.h on Highway vectors, for kernels that keep their data in registers: include it inside a
// foreach_target file, after hwy/highway.h. Coefficients are minimax fits (weighted for relative error) made for this
// project; ranges are reduced as in W. J. Cody and W. Waite, "Software manual for the elementary functions", 1980.
#if defined(SPARKPILOT_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_VECTOR_MATH_INL_H_
#undef SPARKPILOT_VECTOR_MATH_INL_H_
#else
#define SPARKPILOT_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/neon-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// max(bound, x) and min(bound, x), NaN if x is; `bound` must not be NaN. x86's maxps and minps return their second
// operand if one is NaN or both are zeros, NEON's fmax and fmin NaN, and +0 and -0 of two zeros (Highway's Max and Min
// are fmaxnm and fminnm there).
template <class V>
HWY_INLINE V max_keep_nan(V bound, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(bound, x);
#elif SPARKPILOT_NEON
  if constexpr (sizeof(x.raw) == 16) return V(vmaxq_f32(bound.raw, x.raw));
  else return V(vmax_f32(bound.raw, x.raw));
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}
template <class V>
HWY_INLINE V min_keep_nan(V bound, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(bound, x);
#elif SPARKPILOT_NEON
  if constexpr (sizeof(x.raw) == 16) return V(vminq_f32(bound.raw, x.raw));
  else return V(vmin_f32(bound.raw, x.raw));
#else
  return hn::IfThenElse(hn::Lt(bound, x), bound, x);
#endif
}

template <class D, class V>
HWY_INLINE V clamp_keep_nan(D d, V x, float low, float high) {
  return max_keep_nan(hn::Set(d, low), min_keep_nan(hn::Set(d, high), x));
}

// c[0] + c[1] x + ... by Horner's rule.
template <class D, class V, size_t N>
HWY_INLINE V polynomial(D d, V x, const float (&c)[N]) {
  V y = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

// x = n ln 2 + r, |r| <= ln 2 / 2. `shifted` holds n in its low mantissa bits (it is n + 1.5 * 2^23).
template <class D, class V>
HWY_INLINE V reduce_exp(D d, V x, V& shifted, V& n) {
  const V magic = hn::Set(d, 12582912.0f);
  shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  n = hn::Sub(shifted, magic);
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);  // 16 bits: exact for |n| < 256 without FMA too
  return hn::NegMulAdd(n, hn::Set(d, 1.42860682030941723e-6f), r);
}

// exp(r) - 1 for |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V expm1_core(D d, V r) {
  const float q[] = {4.999999815e-01f, 1.666654342e-01f, 4.166720071e-02f, 8.366547128e-03f, 1.388251647e-03f};
  return hn::MulAdd(hn::Mul(r, r), polynomial(d, r, q), r);
}

// exp with results under 2^-126.5 flushed to zero and those over 2^127.5 made infinite: sufficient for softmax and the
// functions built on exp, and four instructions shorter than exp.
template <class D, class V>
HWY_INLINE V exp_flushed(D d, V x) {
  const hn::RebindToSigned<D> di;
  V shifted, n;
  const V r = reduce_exp(d, clamp_keep_nan(d, x, -88.0f, 89.0f), shifted, n);
  const V p = hn::Add(expm1_core(d, r), hn::Set(d, 1.0f));
  // n + 127 as an exponent: 0 for n = -127 (zero), 255 for n = 128 (infinity).
  const auto scale = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, 0x3f800000));
  return hn::Mul(p, hn::BitCast(d, scale));
}

// 2^x; infinity from 2^128 on; what is below 2^-126 gives at most 2^-126; NaN may give anything. For use in a divisor,
// if another operand keeps the NaN. Half the instructions of exp_flushed.
template <class D, class V>
HWY_INLINE V exp2_bounded(D d, V x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    // The fraction of infinity is 0, and scalef saturates.
    const V r{_mm512_maskz_reduce_ps(0xffff, x.raw, _MM_FROUND_TO_NEG_INF)};
    const float p[] = {1.0f, 6.931513119e-01f, 2.401644495e-01f, 5.579991555e-02f, 9.017026898e-03f, 1.867131688e-03f};
    return V{_mm512_maskz_scalef_ps(0xffff, polynomial(d, r, p).raw, x.raw)};
  }
#endif
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V bounded = clamp_keep_nan(d, x, -126.0f, 128.0f);
  const V shifted = hn::Add(bounded, magic);
  const V r = hn::Sub(bounded, hn::Sub(shifted, magic));
  // Exactly one for r = 0, so that adding 128 to its exponent makes infinity.
  const float p[] = {1.0f, 6.931469776e-01f, 2.402224208e-01f, 5.550733744e-02f, 9.671513184e-03f, 1.326472877e-03f};
  return hn::BitCast(d, hn::Add(hn::BitCast(di, polynomial(d, r, p)), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// exp(x) for x <= 0, within (3 + 1.3 |x|) 2^-24 of it, below 2^-126.5 possibly 0; -infinity gives exactly 0.
template <class D, class V>
HWY_INLINE V exp_below(D d, V x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) return exp2_bounded(d, hn::Mul(x, hn::Set(d, 1.44269504f)));
#endif
#if SPARKPILOT_NEON
  // As exp_flushed, but by powers of two, whose exponent, 127 added, is what `shifted` holds in its low bits: 0 for
  // 2^-127, which is zero. NEON's multiply-add overwrites its addend, so constants are copied, and pairs of terms cost
  // fewer copies than Horner's rule. `r` is the negative remainder, so that its addend is n, which is not needed any
  // more.
  const V magic = hn::Set(d, 12582912.0f + 127.0f), log2_e = hn::Set(d, 1.44269504088896341f);
  const V bounded = max_keep_nan(hn::Set(d, -88.0f), x);
  const V shifted = hn::MulAdd(bounded, log2_e, magic);
  const V r = hn::NegMulAdd(bounded, log2_e, hn::Sub(shifted, magic)), r2 = hn::Mul(r, r);
  V last = hn::MulAdd(r, hn::Set(d, -1.33988744e-03f), hn::Set(d, 9.61843736e-03f));
  last = hn::MulAdd(r2, hn::Set(d, 1.53533619e-04f), last);
  const V middle = hn::MulAdd(r, hn::Set(d, -5.55033247e-02f), hn::Set(d, 2.40226479e-01f));
  const V first = hn::MulAdd(r, hn::Set(d, -6.93147203e-01f), hn::Set(d, 1.0f));
  const V p = hn::MulAdd(r2, hn::MulAdd(r2, last, middle), first);
  const hn::RebindToSigned<D> di;
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
#else
  return exp_flushed(d, x);
#endif
}

// 2^n for the integers n held by `shifted`, as two factors that are both normal for n in [-252, 254].
template <class D, class V>
HWY_INLINE void powers_of_two(D d, V shifted, V& first, V& second) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4b400000));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  V shifted, n, first, second;
  const V r = reduce_exp(d, clamp_keep_nan(d, x, -104.0f, 89.0f), shifted, n);
  powers_of_two(d, shifted, first, second);
  const V p = hn::Add(expm1_core(d, r), hn::Set(d, 1.0f));
  return hn::Mul(hn::Mul(p, first), second);
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  V shifted, n, first, second;
  const V r = reduce_exp(d, clamp_keep_nan(d, x, -40.0f, 89.0f), shifted, n);
  powers_of_two(d, shifted, first, second);
  const V m = expm1_core(d, r);
  // 2^n (m + 1) - 1 = 2^n m + (2^n - 1); for n = 0 that is m itself, so nothing cancels. For large n the second power
  // is applied last, so that nothing overflows early: the lost 1 is below rounding there.
  const V power = hn::Mul(first, second);
  const V small = hn::MulAdd(power, m, hn::Sub(power, hn::Set(d, 1.0f)));
  const V large = hn::Mul(hn::MulAdd(first, m, first), second);
  const V y = hn::IfThenElse(hn::Gt(n, hn::Set(d, 64.0f)), large, small);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // keeps -0
}

// log(m) with the exponent's part added: x = m 2^e, m in [sqrt(1/2), sqrt(2)).
template <class D, class V>
HWY_INLINE V log_positive(D d, V x, V extra_exponent) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto root = hn::Set(di, 0x3f3504f3);  // sqrt(1/2)
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, root));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V e = hn::Add(hn::ConvertTo(d, exponent), extra_exponent);
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const float q[] = {3.333331260e-01f,  -2.500000959e-01f, 2.000211914e-01f,  -1.666799679e-01f, 1.421954247e-01f,
                     -1.240556399e-01f, 1.188821541e-01f,  -1.167583843e-01f, 6.746750466e-02f};
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(polynomial(d, f, q), f), f2);
  y = hn::MulAdd(e, hn::Set(d, 1.42860682030941723e-6f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  return hn::MulAdd(e, hn::Set(d, 0.693145751953125f), hn::Add(f, y));
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const float infinity = std::numeric_limits<float>::infinity();
  const V zero = hn::Zero(d);
  const auto denormal = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V scaled = hn::IfThenElse(denormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  V y = log_positive(d, scaled, hn::IfThenElseZero(denormal, hn::Set(d, -23.0f)));
  y = hn::IfThenElse(hn::Lt(x, hn::Set(d, infinity)), y, x);  // infinity and NaN are returned unchanged
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Set(d, -infinity), y);
  return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

// log(1 + y) for y in [0, 1]: corrects the rounding of 1 + y to first order.
template <class D, class V>
HWY_INLINE V log1p_unit(D d, V y) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, y);
  const V lost = hn::Sub(y, hn::Sub(u, one));
  return hn::Add(log_positive(d, u, hn::Zero(d)), hn::Div(lost, u));
}

// x P(x^2) / Q(x^2), clamped where tanh (erf) rounds to one; the fit exceeds one there by 2.5e-7, so that the clamped
// result is exactly one.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const float p[] = {9.999999932e-01f,  1.308278931e-01f, 3.102585118e-03f, 1.113966958e-05f,
                     -2.016307452e-08f, 5.245430993e-11f, -8.391045225e-14f};
  const float q[] = {1.0f, 4.641611624e-01f, 2.448973996e-02f, 2.544133074e-04f};
  const V c = clamp_keep_nan(d, x, -9.01f, 9.01f);
  const V t = hn::Mul(c, c);
  const V y = hn::Div(hn::Mul(c, polynomial(d, t, p)), polynomial(d, t, q));
  return clamp_keep_nan(d, y, -1.0f, 1.0f);
}

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const float p[] = {1.128379145e+00f, 1.907460893e-01f, 5.278821468e-02f,
                     3.778510003e-03f, 2.848996008e-04f, 2.044293969e-06f};
  const float q[] = {1.0f, 5.023770414e-01f, 1.142445295e-01f, 1.499549445e-02f, 1.165129516e-03f, 3.803102440e-05f};
  const V c = clamp_keep_nan(d, x, -3.92f, 3.92f);
  const V t = hn::Mul(c, c);
  const V y = hn::Div(hn::Mul(c, polynomial(d, t, p)), polynomial(d, t, q));
  return clamp_keep_nan(d, y, -1.0f, 1.0f);
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp_flushed(d, hn::Neg(x))));
}

// x * sigmoid(alpha x)
template <class D, class V>
HWY_INLINE V silu(D d, V x, V alpha) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_flushed(d, hn::Neg(hn::Mul(alpha, x)))));
}

// (1 + tanh(u)) / 2 = sigmoid(2 u): one exp, and no cancellation for negative x.
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  const float linear = -2 * 0.7978845608f * 1.44269504f;
  const V factor = hn::MulAdd(hn::Mul(x, x), hn::Set(d, linear * 0.044715f), hn::Set(d, linear));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp2_bounded(d, hn::Mul(x, factor))));
}

template <class D, class V>
HWY_INLINE V gelu_erf(D d, V x) {
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.70710678118654752f))), half);
}

template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  const V tail = log1p_unit(d, exp_flushed(d, hn::Neg(hn::Abs(x))));
  return hn::Add(max_keep_nan(hn::Zero(d), x), tail);
}

// tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(x); one for x > 20.
template <class D, class V>
HWY_INLINE V mish(D d, V x) {
  const V e = exp_flushed(d, min_keep_nan(hn::Set(d, 20.0f), x));
  const V n = hn::Mul(e, hn::Add(e, hn::Set(d, 2.0f)));
  return hn::Mul(x, hn::Div(n, hn::Add(n, hn::Set(d, 2.0f))));
}

// sin(x + quarter_turns pi/2). Arguments over 30,000, where the reduction in float loses bits, and infinities go
// through the C library, a whole vector at a time.
template <class D, class V>
HWY_INLINE V sin_quarter(D d, V x, int quarter_turns) {
  if (!hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, HWY_NATIVE_FMA ? 30000.0f : 4000.0f)))) {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(x, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = quarter_turns ? std::cos(lanes[i]) : std::sin(lanes[i]);
    return hn::Load(d, lanes);
  }
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0.636619772367581343f), magic);
  const V n = hn::Sub(shifted, magic);
#if !HWY_NATIVE_FMA
  // The products must be exact, so the constants have few bits.
  V r = hn::NegMulAdd(n, hn::Set(d, 1.5703125f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 4.83751296997070312e-4f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 7.54953362047672272e-8f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 2.56334406825708960e-12f), r);
#else
  V r = hn::NegMulAdd(n, hn::Set(d, 1.57079637050628662f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -4.37113900018624283e-8f), r);
  r = hn::NegMulAdd(n, hn::Set(d, -1.71512430894030146e-15f), r);
#endif
  const V t = hn::Mul(r, r);
  const float s[] = {-1.666665460e-01f, 8.332160163e-03f, -1.951520031e-04f};
  const float c[] = {4.166664567e-02f, -1.388731544e-03f, 2.443306230e-05f};
  const V sine = hn::MulAdd(hn::Mul(r, t), polynomial(d, t, s), r);
  const V cosine = hn::MulAdd(hn::Mul(t, t), polynomial(d, t, c), hn::NegMulAdd(hn::Set(d, 0.5f), t, hn::Set(d, 1.0f)));
  const auto quadrant = hn::Add(hn::BitCast(di, shifted), hn::Set(di, quarter_turns));
  const auto odd = hn::Eq(hn::And(quadrant, hn::Set(di, 1)), hn::Set(di, 1));
  const auto sign = hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2)));
  const V y = hn::IfThenElse(hn::RebindMask(d, odd), cosine, sine);
  return hn::Xor(y, hn::BitCast(d, sign));
}

// --- arrays of any length
inline constexpr size_t kTailBytes = HWY_MAX_BYTES;

// Loads the first `n` lanes (fewer than a vector), with zeros in the others, without reading memory after them.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const float* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[kTailBytes / sizeof(float)] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
}

template <class D>
HWY_INLINE void store_first(D d, hn::Vec<D> v, float* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[kTailBytes / sizeof(float)];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(float));
#else
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_VECTOR_MATH_INL_H_
