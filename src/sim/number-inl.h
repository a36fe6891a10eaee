// The number type of a world's steps. Vehicles, controllers and metrics are templates over a number type N, so that
// each is written once for
//   double   the reference, on the CPU
//   float    one world of a CUDA thread (and of the CPU, in tests)
//   Lanes    a Highway vector of floats, one world a lane (sim/lanes-inl.h)
// A step uses the operators of N, the functions of this file and of sim/math-inl.h, and nothing else: no std::
// function, no branch on a value of type N (select() instead; any()
// for an early end), no exception, no allocation, no virtual call. An
// N is made of a constant by N(0.5).
//
// Rounding is fixed by the source: a fused multiply-add is computed where mul_add() or neg_mul_add() stands, and
// nowhere else, so files that include this are compiled with -ffp-contract=off (nvcc: -fmad=false). float, and Lanes on
// a processor with fused multiply-adds, then give the same bits. On one without, and with double, the two roundings
// of a * b + c are made.
//
// Include it as Highway's files are: in a file that HWY_TARGET_INCLUDE names it is compiled once for each target,
// in that target's namespace; elsewhere once, in the namespace scalar, and before hwy/highway.h.
#if defined(SPARKPILOT_SIM_NUMBER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_NUMBER_INL_H_
#undef SPARKPILOT_SIM_NUMBER_INL_H_
#else
#define SPARKPILOT_SIM_NUMBER_INL_H_
#endif

#include <cstdint>

// A step's header has SIM_BEFORE(); namespace SIM_NAMESPACE { ... } SIM_AFTER(); around its code: a namespace of its
// own for each of Highway's targets. Nothing may stand behind HWY_BEFORE_NAMESPACE() in a macro: g++ 14 drops what
// follows a target's pragma in a macro of a file that a system header includes, as foreach_target.h does.
#ifndef SIM_NAMESPACE
#ifdef HWY_BEFORE_NAMESPACE
#define SIM_NAMESPACE sparkpilot::sim::HWY_NAMESPACE
#define SIM_BEFORE() HWY_BEFORE_NAMESPACE()
#define SIM_AFTER() HWY_AFTER_NAMESPACE()
#else
#define SIM_NAMESPACE sparkpilot::sim::scalar
#define SIM_BEFORE() static_assert(true)
#define SIM_AFTER() static_assert(true)
#endif
// What a step's functions are: for nvcc, code of both sides. Instrumented code takes many minutes to compile if all of
// it is inlined.
// SIM_ROLLED stands before a loop of many turns that nvcc shall not unroll.
#ifdef __CUDACC__
#define SIM_ROLLED _Pragma("unroll 1")
#define SIM_FN __host__ __device__ __forceinline__
#elif defined(__SANITIZE_ADDRESS__)
#define SIM_FN inline
#else
#define SIM_FN inline __attribute__((always_inline))
#endif
#ifndef SIM_ROLLED
#define SIM_ROLLED
#endif
#endif  // SIM_NAMESPACE

SIM_BEFORE();
namespace SIM_NAMESPACE {

// What comparisons of N give, and 32-bit words of as many worlds.
template <class N>
struct NumberTraits;
template <>
struct NumberTraits<double> {
  using Mask = bool;
  using Words = uint32_t;
};
template <>
struct NumberTraits<float> {
  using Mask = bool;
  using Words = uint32_t;
};
template <class N>
using MaskOf = typename NumberTraits<N>::Mask;
template <class N>
using WordsOf = typename NumberTraits<N>::Words;

// Polynomials of sim/math-inl.h for doubles or for floats.
template <class N>
inline constexpr bool kIsDouble = false;
template <>
inline constexpr bool kIsDouble<double> = true;

// a * b + c and c - a * b.
SIM_FN double mul_add(double a, double b, double c) { return a * b + c; }
SIM_FN float mul_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIM_FN double neg_mul_add(double a, double b, double c) { return c - a * b; }
SIM_FN float neg_mul_add(float a, float b, float c) { return __builtin_fmaf(-a, b, c); }

// yes where the mask is set, else no.
SIM_FN double select(bool mask, double yes, double no) { return mask ? yes : no; }
SIM_FN float select(bool mask, float yes, float no) { return mask ? yes : no; }

// Whether it is set for any world: where work that changes no world's number may be left out.
SIM_FN bool any(bool mask) { return mask; }

// The second if either is NaN, as x86 has it.
SIM_FN double min(double a, double b) { return a < b ? a : b; }
SIM_FN float min(float a, float b) { return a < b ? a : b; }
SIM_FN double max(double a, double b) { return a > b ? a : b; }
SIM_FN float max(float a, float b) { return a > b ? a : b; }
SIM_FN double abs(double x) { return __builtin_fabs(x); }
SIM_FN float abs(float x) { return __builtin_fabsf(x); }
SIM_FN double sqrt(double x) { return __builtin_sqrt(x); }
SIM_FN float sqrt(float x) { return __builtin_sqrtf(x); }

// The nearest whole number, even of two; |x| <= 2^22 (double: 2^51).
SIM_FN double round(double x) { return (x + 0x1.8p52) - 0x1.8p52; }
SIM_FN float round(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

// 2^n for whole n within the exponents of normal numbers.
SIM_FN double power_of_two(double n) { return __builtin_bit_cast(double, static_cast<int64_t>(n + 1023) << 52); }
SIM_FN float power_of_two(float n) { return __builtin_bit_cast(float, static_cast<int32_t>(n + 127) << 23); }

// x = m 2^e with m in [sqrt(1/2), sqrt(2)); x is positive and normal.
SIM_FN void split_exponent(double x, double& m, double& e) {
  const auto bits = __builtin_bit_cast(int64_t, x);
  const int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  m = __builtin_bit_cast(double, bits - exponent * (int64_t{1} << 52));
  e = static_cast<double>(exponent);
}
SIM_FN void split_exponent(float x, float& m, float& e) {
  const auto bits = __builtin_bit_cast(int32_t, x);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;
  m = __builtin_bit_cast(float, bits - exponent * (1 << 23));
  e = static_cast<float>(exponent);
}

// Words. A number below 2^24 that is whole and not negative as a word; the high and low half of a product; uniform in
// (0, 1), the same number for every N.
SIM_FN uint32_t to_words(double x) { return static_cast<uint32_t>(x); }
SIM_FN uint32_t to_words(float x) { return static_cast<uint32_t>(x); }
SIM_FN void multiply_words(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
  const uint64_t product = uint64_t{a} * b;
  high = static_cast<uint32_t>(product >> 32);
  low = static_cast<uint32_t>(product);
}
template <class N>
SIM_FN N uniform_of(uint32_t word) {
  return mul_add(static_cast<N>(word >> 9), N(0x1p-23), N(0x1p-24));
}

// slots[(head - back) mod length] for each world, where head is the slot that was written last; back: whole, 0 to
// length - 1.
SIM_FN double look_back(const double* slots, int stride, int head, int length, double back) {
  const int slot = head - static_cast<int>(back);
  return slots[(slot < 0 ? slot + length : slot) * stride];
}
SIM_FN float look_back(const float* slots, int stride, int head, int length, float back) {
  const int slot = head - static_cast<int>(back);
  return slots[(slot < 0 ? slot + length : slot) * stride];
}

template <class N>
SIM_FN N clip(N x, N low, N high) {
  return min(max(x, low), high);
}
template <class N>
SIM_FN N square(N x) {
  return x * x;
}
// A mask as 1 or 0, and back: the state of a world holds nothing but N.
template <class N>
SIM_FN N flag(MaskOf<N> mask) {
  return select(mask, N(1), N(0));
}
template <class N>
SIM_FN MaskOf<N> is_set(N flag) {
  return flag > N(0.5);
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
