#include "ops/cpu/move/resample_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/move/resample_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;

void Blend(const float* const* rows, const float* weight, int64_t taps, float* out, int64_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::Mul(hn::LoadU(d, rows[0] + i), hn::Set(d, weight[0]));
    for (int64_t t = 1; t < taps; ++t) sum = hn::MulAdd(hn::LoadU(d, rows[t] + i), hn::Set(d, weight[t]), sum);
    hn::StoreU(sum, d, out + i);
  }
  for (; i < n; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += rows[t][i] * weight[t];
    out[i] = sum;
  }
}

void Gather(const float* row, const int32_t* index, const float* weight, int64_t taps, float* out, int64_t count) {
  const D d;
  const hn::RebindToSigned<D> di;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::GatherIndex(d, row, hn::LoadU(di, index + i));
    if (weight) sum = hn::Mul(sum, hn::LoadU(d, weight + i));
    for (int64_t t = 1; t < taps; ++t) {
      const size_t at = static_cast<size_t>(t) * n + i;
      sum = hn::MulAdd(hn::GatherIndex(d, row, hn::LoadU(di, index + at)), hn::LoadU(d, weight + at), sum);
    }
    hn::StoreU(sum, d, out + i);
  }
  for (; i < n; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const size_t at = static_cast<size_t>(t) * n + i;
      sum += row[index[at]] * (weight ? weight[at] : 1.0f);
    }
    out[i] = sum;
  }
}

}  // namespace
}  // namespace sparkpilot::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(Blend);
HWY_EXPORT(Gather);

void blend_rows(const float* const* rows, const float* weight, int64_t taps, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Blend)(rows, weight, taps, out, n);
}

void gather_row(const float* row, const int32_t* index, const float* weight, int64_t taps, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Gather)(row, index, weight, taps, out, n);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
