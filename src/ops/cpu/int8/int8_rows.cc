#include "ops/cpu/int8/int8_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8/int8_rows.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/int8/int8_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

template <typename T>
HWY_INLINE hn::Vec<Int8Reals> load_reals(const void* from, int64_t i, int32_t zero) {
  const Int8Sums di;
  const hn::Rebind<T, Int8Sums> d;
  const auto v = hn::PromoteTo(di, hn::LoadU(d, static_cast<const T*>(from) + i));
  return hn::ConvertTo(Int8Reals(), hn::Sub(v, hn::Set(di, zero)));
}

template <typename A, typename B, typename Y>
void add_as(const void* a, const void* b, void* y, int64_t n, const Int8Sum& s) {
  const Int8Sums di;
  const Int8Reals df;
  constexpr int64_t kBlock = Int8Matrix::kBlock;
  const auto block = [&](const void* from_a, const void* from_b, int64_t i, Y* to) {
    hn::Vec<Int8Sums> sums[kInt8Vectors];
    for (int k = 0; k < kInt8Vectors; ++k, i += kInt8Lanes) {
      const auto other = hn::Mul(load_reals<B>(from_b, i, s.b_zero), hn::Set(df, s.b_scale));
      const auto v = hn::MulAdd(load_reals<A>(from_a, i, s.a_zero), hn::Set(df, s.a_scale), other);
      const auto limited = hn::Min(hn::Max(v, hn::Set(df, s.low)), hn::Set(df, s.high));
      sums[k] = hn::Add(round_in_range(limited), hn::Set(di, s.zero));
    }
    store_bytes(sums, to);
  };
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) block(a, b, i, static_cast<Y*>(y) + i);
  if (i == n) return;
  const auto left = static_cast<size_t>(n - i);
  A last_a[kBlock] = {};
  B last_b[kBlock] = {};
  Y last_y[kBlock];
  std::memcpy(last_a, static_cast<const A*>(a) + i, left);
  std::memcpy(last_b, static_cast<const B*>(b) + i, left);
  block(last_a, last_b, 0, last_y);
  std::memcpy(static_cast<Y*>(y) + i, last_y, left);
}

// Looks up each 16 bytes of the table for all elements; indices outside them give 0.
void look_up_target(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto beyond = hn::Set(d, 0x70), valid = hn::Set(d, 0x8F);
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    auto found = hn::Zero(d);
    for (int part = 0; part < 16; ++part) {
      const auto index = hn::Xor(v, hn::Set(d, static_cast<uint8_t>(16 * part)));
      const auto theirs = hn::And(hn::SaturatedAdd(index, beyond), valid);
      found = hn::Or(found, hn::TableLookupBytesOr0(hn::LoadDup128(d, table + 16 * part), theirs));
    }
    hn::StoreU(found, d, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = table[x[i]];
}

void add_target(DType a_dtype, const void* a, DType b_dtype, const void* b, DType y_dtype, void* y, int64_t n,
                const Int8Sum& s) {
  using Bytes = TypeList<uint8_t, int8_t>;
  dispatch(Bytes{}, a_dtype, [&]<typename A>() {
    dispatch(Bytes{}, b_dtype,
             [&]<typename B>() { dispatch(Bytes{}, y_dtype, [&]<typename Y>() { add_as<A, B, Y>(a, b, y, n, s); }); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(add_target);
HWY_EXPORT(look_up_target);

void add_int8(DType a_dtype, const void* a, DType b_dtype, const void* b, DType y_dtype, void* y, int64_t n,
              const Int8Sum& sum) {
  HWY_DYNAMIC_DISPATCH(add_target)(a_dtype, a, b_dtype, b, y_dtype, y, n, sum);
}

void look_up_bytes(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(look_up_target)(table, x, y, n);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
