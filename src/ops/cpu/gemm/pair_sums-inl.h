// The last columns of a product if half a panel fits in a vector: a vector holds two depths for each of eight columns,
// interleaved. Include it inside a foreach_target file.
#if defined(SPARKPILOT_PAIR_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_PAIR_SUMS_INL_H_
#undef SPARKPILOT_PAIR_SUMS_INL_H_
#else
#define SPARKPILOT_PAIR_SUMS_INL_H_
#endif

#include "ops/cpu/gemm/load_weights-inl.h"

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

// The sums of kRows rows and kEights times eight columns. Even lanes of a vector hold the sums over depths 0, 2, 4...,
// odd lanes over 1, 3, 5... of each call of add().
template <int kRows, int kEights>
struct PairSums {
  using D = hn::CappedTag<float, 16>;
  using H = hn::Half<D>;
  using V = hn::Vec<D>;
  using U = hn::Repartition<uint64_t, D>;
  static constexpr int kColumns = 8;
  V v[kRows][kEights];

  HWY_INLINE PairSums() {}

  HWY_INLINE void start(const float* bias) {
    for (int j = 0; j < kEights; ++j) {
      const V first = bias ? alternate(hn::LoadU(H(), bias + j * kColumns), hn::Zero(H())) : hn::Zero(D());
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) v[r][j] = first;
    }
  }

  // Adds depths [0, depth) of rows; `b` points to the weights' first row, at the first column.
  template <typename W>
  HWY_INLINE void add(const float* const (&rows)[kRows], int64_t depth, const W* b) {
    constexpr int64_t kPanel = PanelMatrix::kPanel;
    V weights[kEights];
    int64_t p = 0;
    for (; p + 2 <= depth; p += 2, b += 2 * kPanel) {
      HWY_UNROLL(4)
      for (int j = 0; j < kEights; ++j) {
        weights[j] = alternate(load_weights(H(), b + j * kColumns), load_weights(H(), b + kPanel + j * kColumns));
      }
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) {
        uint64_t pair;
        std::memcpy(&pair, rows[r] + p, sizeof(pair));
        multiply(r, hn::BitCast(D(), hn::Set(U(), pair)), weights);
      }
    }
    if (p == depth) return;
    for (int j = 0; j < kEights; ++j) weights[j] = alternate(load_weights(H(), b + j * kColumns), hn::Zero(H()));
    for (int r = 0; r < kRows; ++r) multiply(r, hn::OddEven(hn::Zero(D()), hn::Set(D(), rows[r][p])), weights);
  }

  HWY_INLINE void store(const TileOutput& out, float* y, int64_t columns) const {
    const H h;
    const auto low = hn::Set(h, out.low), high = hn::Set(h, out.high);
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(4)
      for (int j = 0; j < kEights; ++j) {
        const V both = hn::Add(v[r][j], hn::Shuffle2301(v[r][j]));
        const auto sums = hn::BitCast(h, hn::TruncateTo(hn::RebindToUnsigned<H>(), hn::BitCast(U(), both)));
        const auto result = max_keep_nan(low, min_keep_nan(high, sums));
        const int64_t left = columns - j * kColumns;
        float* to = y + r * out.stride + j * kColumns;
        if (left >= kColumns) hn::StoreU(result, h, to);
        else if (left > 0) store_first(h, result, to, static_cast<size_t>(left));
      }
    }
  }

 private:
  static HWY_INLINE V alternate(hn::Vec<H> even, hn::Vec<H> odd) {
    const hn::RebindToUnsigned<H> u;
    const auto wide = [&](hn::Vec<H> x) HWY_ATTR { return hn::PromoteTo(U(), hn::BitCast(u, x)); };
    return hn::BitCast(D(), hn::Or(wide(even), hn::ShiftLeft<32>(wide(odd))));
  }
  HWY_INLINE void multiply(int r, V x, const V (&weights)[kEights]) {
    HWY_UNROLL(4)
    for (int j = 0; j < kEights; ++j) v[r][j] = hn::MulAdd(x, weights[j], v[r][j]);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();
#endif

#endif  // SPARKPILOT_PAIR_SUMS_INL_H_
