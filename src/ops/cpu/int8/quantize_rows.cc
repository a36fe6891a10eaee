#include "ops/cpu/int8/quantize_rows.h"

#include <cmath>
#include <limits>

#include "tensor/small_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8/quantize_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/cpu/vector/e4m3-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;

template <typename T>
HWY_INLINE void quantize(const float* x, T* y, size_t n, float scale, float zero) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<T, D> dt;
  const size_t lanes = hn::Lanes(d);
  // Clamped before rounding, which gives the same result for integer bounds and keeps the conversion in range.
  const float lowest = static_cast<float>(std::numeric_limits<T>::min()) - zero;
  const float highest = static_cast<float>(std::numeric_limits<T>::max()) - zero;
  const auto low = hn::Set(d, lowest), high = hn::Set(d, highest), step = hn::Set(d, scale);
  const auto shift = hn::Set(di, static_cast<int32_t>(zero));
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Div(hn::LoadU(d, x + i), step);
    v = hn::IfThenElse(hn::Ge(v, low), v, low);  // false for NaN
    v = hn::Min(v, high);
    hn::StoreU(hn::DemoteTo(dt, hn::Add(hn::NearestInt(v), shift)), dt, y + i);
  }
  for (; i < n; ++i) {
    float v = x[i] / scale;
    v = v >= lowest ? v : lowest;
    v = v <= highest ? v : highest;
    y[i] = static_cast<T>(static_cast<int32_t>(std::nearbyint(v)) + static_cast<int32_t>(zero));
  }
}

template <typename T>
HWY_INLINE void dequantize(const T* x, float* y, size_t n, float scale, float zero) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<T, D> dt;
  const size_t lanes = hn::Lanes(d);
  const auto step = hn::Set(d, scale), origin = hn::Set(d, zero);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(dt, x + i)));
    hn::StoreU(hn::Mul(hn::Sub(v, origin), step), d, y + i);
  }
  for (; i < n; ++i) y[i] = (static_cast<float>(x[i]) - zero) * scale;
}

void QuantizeE4m3(const float* x, uint8_t* y, int64_t count, float scale) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  const auto step = hn::Set(d, scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store_e4m3(d, hn::Div(hn::LoadU(d, x + i), step), y + i);
  for (; i < n; ++i) y[i] = float_to_e4m3(x[i] / scale);
}

void QuantizeU8(const float* x, uint8_t* y, int64_t n, float scale, float zero) {
  quantize(x, y, static_cast<size_t>(n), scale, zero);
}
void QuantizeI8(const float* x, int8_t* y, int64_t n, float scale, float zero) {
  quantize(x, y, static_cast<size_t>(n), scale, zero);
}
void DequantizeU8(const uint8_t* x, float* y, int64_t n, float scale, float zero) {
  dequantize(x, y, static_cast<size_t>(n), scale, zero);
}
void DequantizeI8(const int8_t* x, float* y, int64_t n, float scale, float zero) {
  dequantize(x, y, static_cast<size_t>(n), scale, zero);
}

}  // namespace
}  // namespace sparkpilot::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(QuantizeU8);
HWY_EXPORT(QuantizeI8);
HWY_EXPORT(QuantizeE4m3);
HWY_EXPORT(DequantizeU8);
HWY_EXPORT(DequantizeI8);

void quantize_row(const float* x, uint8_t* y, int64_t n, float scale, float zero) {
  HWY_DYNAMIC_DISPATCH(QuantizeU8)(x, y, n, scale, zero);
}
void quantize_row(const float* x, int8_t* y, int64_t n, float scale, float zero) {
  HWY_DYNAMIC_DISPATCH(QuantizeI8)(x, y, n, scale, zero);
}
void quantize_row_e4m3(const float* x, uint8_t* y, int64_t n, float scale) {
  HWY_DYNAMIC_DISPATCH(QuantizeE4m3)(x, y, n, scale);
}
void dequantize_row(const uint8_t* x, float* y, int64_t n, float scale, float zero) {
  HWY_DYNAMIC_DISPATCH(DequantizeU8)(x, y, n, scale, zero);
}
void dequantize_row(const int8_t* x, float* y, int64_t n, float scale, float zero) {
  HWY_DYNAMIC_DISPATCH(DequantizeI8)(x, y, n, scale, zero);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
