#include "ops/cpu/move/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/move/transpose.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float));

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kSide = 1;
template <int64_t kRows>
HWY_INLINE void transpose_rows(const float* from, int64_t, float* to, int64_t) {
  *to = *from;
}
#else
constexpr int64_t kSide = 4;  // lanes of the blocks within which vectors are shuffled

// Rows 0, 4, 8, ... of four columns, concatenated in one vector.
template <int64_t kRows>
HWY_INLINE auto side_by_side(const float* from, int64_t step) {
  const hn::CappedTag<float, kRows> d;
  if constexpr (kRows <= kSide) {
    return hn::LoadU(d, from);
  } else {
    constexpr int64_t kHalf = kRows / 2;
    return hn::Combine(d, side_by_side<kHalf>(from + kHalf * step, step), side_by_side<kHalf>(from, step));
  }
}

// Transposes kRows rows of four columns; kRows is the number of lanes of a vector.
template <int64_t kRows>
HWY_INLINE void transpose_rows(const float* from, int64_t step, float* to, int64_t to_step) {
  const hn::CappedTag<float, kRows> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = side_by_side<kRows>(from, step), b = side_by_side<kRows>(from + step, step);
  const auto c = side_by_side<kRows>(from + 2 * step, step), e = side_by_side<kRows>(from + 3 * step, step);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, to + 2 * to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, to + 3 * to_step);
}
#endif

void transpose_impl(const float* from, int64_t step, int64_t rows, int64_t columns, float* to, int64_t to_step) {
  int64_t i = 0;
  const auto blocks = [&]<int64_t kRows>() {
    for (; i + kRows <= rows; i += kRows) {
      const float* line = from + i * step;
      for (int64_t j = 0; j + kSide <= columns; j += kSide)
        transpose_rows<kRows>(line + j, step, to + j * to_step + i, to_step);
      for (int64_t j = columns / kSide * kSide; j < columns; ++j) {
        for (int64_t r = 0; r < kRows; ++r) to[j * to_step + i + r] = line[r * step + j];
      }
    }
  };
  blocks.template operator()<kLanes>();
  blocks.template operator()<kSide>();
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * step + j];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(transpose_impl);

void transpose_matrix(const float* from, int64_t step, int64_t rows, int64_t columns, float* to, int64_t to_step) {
  HWY_DYNAMIC_DISPATCH(transpose_impl)(from, step, rows, columns, to, to_step);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
