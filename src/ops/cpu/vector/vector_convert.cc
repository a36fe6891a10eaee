#include "ops/cpu/vector/vector_math.h"

#include <algorithm>

#include "ops/cpu/vector/dot_round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/vector_convert.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/neon-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // the names are this file's own, in every target

// F16C, AVX-512 and NEON convert halves in hardware, rounding to nearest even; elsewhere the scalar functions are used.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || SPARKPILOT_NEON
#define SPARKPILOT_HARDWARE_HALF 1
#else
#define SPARKPILOT_HARDWARE_HALF 0
#endif

void from_half_impl(const Half* in, float* out, int64_t n) {
  int64_t i = 0;
#if SPARKPILOT_HARDWARE_HALF
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* halves = reinterpret_cast<const hwy::float16_t*>(in);
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, halves + i)), d, out + i);
#endif
  for (; i < n; ++i) out[i] = in[i];
}

void to_half_impl(const float* in, Half* out, int64_t n) {
  int64_t i = 0;
#if SPARKPILOT_HARDWARE_HALF
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* halves = reinterpret_cast<hwy::float16_t*>(out);
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, in + i)), dh, halves + i);
#endif
  for (; i < n; ++i) out[i] = Half(in[i]);
}

void from_bfloat16_impl(const BFloat16* in, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> ds;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* words = reinterpret_cast<const uint16_t*>(in);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(ds, words + i)))), d, out + i);
  }
  for (; i < n; ++i) out[i] = in[i];
}

// x as bf16 in the low halves of the lanes.
template <class D, class V>
HWY_INLINE auto rounded(D, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::ShiftRight<16>(hn::IfThenElse(nan, hn::Or(bits, hn::Set(du, 0x400000)), up));
}

void round_row(const float* in, BFloat16* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> ds;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* words = reinterpret_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(ds, hn::BitCast(di, rounded(d, hn::LoadU(d, in + i)))), ds, words + i);
  }
  for (; i < n; ++i) out[i] = BFloat16(in[i]);
}

void to_bfloat16_impl(const float* in, int64_t in_step, BFloat16* out, int64_t out_step, int64_t rows, int64_t n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const bool hardware = has_dot_round();
#else
  constexpr bool hardware = false;
#endif
  for (int64_t row = 0; row < rows; ++row, in += in_step, out += out_step) {
    if (hardware) dot_round(in, out, n);
    else round_row(in, out, n);
  }
}

#undef SPARKPILOT_HARDWARE_HALF

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(from_half_impl);
HWY_EXPORT(to_half_impl);
HWY_EXPORT(from_bfloat16_impl);
HWY_EXPORT(to_bfloat16_impl);

void half_to_float_n(const Half* in, float* out, int64_t n) { HWY_DYNAMIC_DISPATCH(from_half_impl)(in, out, n); }
void float_to_half_n(const float* in, Half* out, int64_t n) { HWY_DYNAMIC_DISPATCH(to_half_impl)(in, out, n); }
void bfloat16_to_float_n(const BFloat16* in, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(from_bfloat16_impl)(in, out, n);
}
void float_to_bfloat16_n(const float* in, BFloat16* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(to_bfloat16_impl)(in, n, out, n, 1, n);
}
void float_to_bfloat16_rows(const float* in, int64_t in_step, BFloat16* out, int64_t out_step, int64_t rows,
                            int64_t n) {
  HWY_DYNAMIC_DISPATCH(to_bfloat16_impl)(in, in_step, out, out_step, rows, n);
}

void floats_from(DType dtype, const void* data, int64_t at, float* out, int64_t n) {
  switch (dtype) {
    case DType::f32: std::copy_n(static_cast<const float*>(data) + at, n, out); break;
    case DType::f16: half_to_float_n(static_cast<const Half*>(data) + at, out, n); break;
    case DType::bf16: bfloat16_to_float_n(static_cast<const BFloat16*>(data) + at, out, n); break;
    default: fail_internal("{} read as floats", name(dtype));
  }
}
void floats_to(DType dtype, const float* in, void* data, int64_t at, int64_t n) {
  switch (dtype) {
    case DType::f32: std::copy_n(in, n, static_cast<float*>(data) + at); break;
    case DType::f16: float_to_half_n(in, static_cast<Half*>(data) + at, n); break;
    case DType::bf16: float_to_bfloat16_n(in, static_cast<BFloat16*>(data) + at, n); break;
    default: fail_internal("{} written as floats", name(dtype));
  }
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
