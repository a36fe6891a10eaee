// A tile of fp32 sums in registers: the inner loop of products and convolutions over PanelMatrix's panels. Include it
// inside a foreach_target file.
#if defined(SPARKPILOT_REGISTER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_REGISTER_TILE_INL_H_
#undef SPARKPILOT_REGISTER_TILE_INL_H_
#else
#define SPARKPILOT_REGISTER_TILE_INL_H_
#endif

#include "ops/cpu/gemm/by_lane-inl.h"
#include "ops/cpu/gemm/load_weights-inl.h"
#include "ops/cpu/gemm/panel_matrix.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

// Sizes of tiles, by the target's registers.
struct Tile {
  static constexpr int64_t kPanel = PanelMatrix::kPanel;
  using D = hn::CappedTag<float, PanelMatrix::kPanel>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(HWY_LANES(float) < kPanel ? HWY_LANES(float) : kPanel);
  // Vectors of a tile at most; narrow vectors process a panel in parts.
  static constexpr int kMaxVectors = std::min(static_cast<int>(kPanel) / kLanes, HWY_ARCH_X86&& kLanes <= 4 ? 4 : 8);
  // Rows of a tile of this many vectors at most: as many sums as leave registers for the operands. Fewer than eight
  // sums would wait for one another.
  static constexpr int max_rows(int vectors) {
    if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) return 10;
    if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) return vectors == 1 ? 10 : 12 / vectors;
    return 3;
  }
  static constexpr int kMaxRows = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 ? 10 : 3;  // of any
};

// The sums of kRows rows by kVecs vectors.
template <int kRows, int kVecs>
struct Sums {
  using D = Tile::D;
  using V = Tile::V;
  static constexpr int64_t kPanel = Tile::kPanel;
  static constexpr int kLanes = Tile::kLanes;
  V v[kRows][kVecs];

  HWY_INLINE Sums() {}  // explicit, or g++ for Arm builds it without the target's instructions

  HWY_INLINE void start(const float* bias) {
    const D d;
    HWY_UNROLL(10)
    for (int j = 0; j < kVecs; ++j) {
      const V first = bias ? hn::LoadU(d, bias + j * kLanes) : hn::Zero(d);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) v[r][j] = first;
    }
  }
  // Adds one depth.
  template <typename W>
  HWY_INLINE void step(const float* const (&rows)[kRows], int64_t p, const W* b) {
    const D d;
    if constexpr (kRows <= kVecs) {  // the shorter side of the tile is kept in registers
      V x[kRows];
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) x[r] = hn::Set(d, rows[r][p]);
      HWY_UNROLL(10)
      for (int j = 0; j < kVecs; ++j) {
        const V weights = load_weights(d, b + j * kLanes);
        HWY_UNROLL(10)
        for (int r = 0; r < kRows; ++r) v[r][j] = hn::MulAdd(x[r], weights, v[r][j]);
      }
    } else {
      V weights[kVecs];
      HWY_UNROLL(10)
      for (int j = 0; j < kVecs; ++j) weights[j] = load_weights(d, b + j * kLanes);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) {
        const V x = hn::Set(d, rows[r][p]);
        HWY_UNROLL(10)
        for (int j = 0; j < kVecs; ++j) v[r][j] = hn::MulAdd(x, weights[j], v[r][j]);
      }
    }
  }
#if SPARKPILOT_NEON
  // Adds the depth that lane kLane of each x holds.
  template <int kLane, typename W>
  HWY_INLINE void lane_step(const V (&x)[kRows], const W*& b) {
    const D d;
    HWY_UNROLL(10)
    for (int j = 0; j < kVecs; j += 2) {  // a pair of loads is one instruction
      const V weights = load_weights(d, b + j * kLanes), next = load_weights(d, b + (j + 1) * kLanes);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) v[r][j] = mul_add_lane<kLane>(x[r], weights, v[r][j]);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) v[r][j + 1] = mul_add_lane<kLane>(x[r], next, v[r][j + 1]);
    }
    b += kPanel;
  }
#endif
  template <typename W>
  HWY_INLINE void add(const float* const (&rows)[kRows], int64_t depth, const W* b) {
    int64_t p = 0;
#if SPARKPILOT_NEON
    for (; p + 4 <= depth; p += 4) {
      V x[kRows];
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) x[r] = hn::LoadU(D(), rows[r] + p);
      lane_step<0>(x, b);
      lane_step<1>(x, b);
      lane_step<2>(x, b);
      lane_step<3>(x, b);
    }
#endif
#if HWY_TARGET == HWY_AVX2
    // Four depths a turn in the largest tile: a core that runs another thread besides fetches so few instructions a
    // cycle that those of the loop itself cost time.
    if constexpr (kVecs == 4 && kRows == Tile::max_rows(4)) {
      for (; p + 4 <= depth; p += 4, b += 4 * kPanel) {
        step(rows, p, b);
        step(rows, p + 1, b + kPanel);
        step(rows, p + 2, b + 2 * kPanel);
        step(rows, p + 3, b + 3 * kPanel);
      }
    }
#endif
    for (; p < depth; ++p, b += kPanel) step(rows, p, b);
  }
  HWY_INLINE void store(const TileOutput& out, float* y, int64_t columns) {
    const D d;
    if (out.low > -std::numeric_limits<float>::infinity() || out.high < std::numeric_limits<float>::infinity()) {
      const V low = hn::Set(d, out.low), high = hn::Set(d, out.high);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(10)
        for (int j = 0; j < kVecs; ++j) v[r][j] = max_keep_nan(low, min_keep_nan(high, v[r][j]));
      }
    }
    const bool whole = columns >= kVecs * kLanes;
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) {
      float* row = y + r * out.stride;
      HWY_UNROLL(10)
      for (int j = 0; j < kVecs; ++j) {
        const int64_t left = columns - j * kLanes;
        if (whole || left >= kLanes) hn::StoreU(v[r][j], d, row + j * kLanes);
        else if (left > 0) store_first(d, v[r][j], row + j * kLanes, static_cast<size_t>(left));
      }
    }
  }
};

// Calls fn.operator()<kVecs>(column, columns) for the columns of a panel, in the fewest vectors that hold them.
template <typename Fn>
HWY_INLINE void for_vectors(int64_t columns, const Fn& fn) {
  constexpr int kMax = Tile::kMaxVectors;
  for (int64_t j = 0; j < columns; j += kMax * Tile::kLanes) {
    const int64_t left = std::min<int64_t>(columns - j, kMax * Tile::kLanes);
    const int64_t vectors = (left + Tile::kLanes - 1) / Tile::kLanes;
    if constexpr (kMax == 4) {
      if (vectors == 3) {
        fn.template operator()<3>(j, left);
        continue;
      }
    }
    if (vectors > kMax / 2) fn.template operator()<kMax>(j, left);
    else if (kMax < 4 || vectors > kMax / 4) fn.template operator()<(kMax + 1) / 2>(j, left);
    else fn.template operator()<(kMax + 3) / 4>(j, left);
  }
}

// Calls fn.operator()<rows>(), for 1 to 10 rows.
template <typename Fn>
HWY_INLINE void with_rows(int64_t rows, const Fn& fn) {
  switch (rows) {
    case 1: fn.template operator()<1>(); break;
    case 2: fn.template operator()<2>(); break;
    case 3: fn.template operator()<3>(); break;
    case 4: fn.template operator()<4>(); break;
    case 5: fn.template operator()<5>(); break;
    case 6: fn.template operator()<6>(); break;
    case 7: fn.template operator()<7>(); break;
    case 8: fn.template operator()<8>(); break;
    case 9: fn.template operator()<9>(); break;
    default: fn.template operator()<10>(); break;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_REGISTER_TILE_INL_H_
