#include "ops/cpu/attention/attention_block.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/move/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/attention_block.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/each-inl.h"
#include "ops/cpu/gemm/by_lane-inl.h"
#include "ops/cpu/gemm/load_weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float));
// Vectors side by side in a tile, and queries: as many sums as leave registers for the operands.
#if SPARKPILOT_NEON
constexpr int kVectors = 4, kMaxRows = 6;
#elif HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr int kVectors = 2, kMaxRows = 4;
#else
constexpr int kVectors = 2, kMaxRows = 8;
#endif

// Calls fn.operator()<vectors>(column) for the tiles of columns [begin, end). `begin` is a multiple of a tile's
// columns, so a tile ends at or before the next whole line.
template <typename Fn>
HWY_INLINE void for_columns(int64_t begin, int64_t end, const Fn& fn) {
  int64_t j = begin;
  for (; j + kVectors / 2 * kLanes < end; j += kVectors * kLanes) fn.template operator()<kVectors>(j);
  if (j + kLanes < end) fn.template operator()<std::max(2, kVectors / 2)>(j);
  else if (j < end) fn.template operator()<1>(j);
}

// Calls fn.operator()<height>(first row) for tiles of nearly equal height.
template <typename Fn>
HWY_INLINE void for_tiles(int64_t rows, const Fn& fn) {
  for (int64_t row = 0; row < rows;) {
    const int64_t height = tile_height(rows - row, kMaxRows);
    switch (height) {
      case 1: fn.template operator()<1>(row); break;
      case 2: fn.template operator()<2>(row); break;
      case 3: fn.template operator()<3>(row); break;
      case 4: fn.template operator()<4>(row); break;
      case 5: fn.template operator()<std::min(5, kMaxRows)>(row); break;
      case 6: fn.template operator()<std::min(6, kMaxRows)>(row); break;
      case 7: fn.template operator()<std::min(7, kMaxRows)>(row); break;
      default: fn.template operator()<kMaxRows>(row); break;
    }
    row += height;
  }
}

// sums[r][j] += x[r * x_step + p * x_next] * b[p * b_step + j] over p: a tile of a small matrix product.
template <int kRows, int kVecs>
struct Tile {
  V sums[kRows][kVecs];
  HWY_INLINE Tile() {}  // explicit, or g++ for Arm builds it without the target's instructions

#if SPARKPILOT_NEON
  template <int kLane>
  static HWY_INLINE void lane_step(const V (&factors)[kRows], const float*& b, int64_t b_step, V (&to)[kRows][kVecs]) {
    // A pair of loads is one instruction, and more would take registers from sums.
    constexpr int kAtOnce = std::min(2, kVecs);
    each<kVecs / kAtOnce>([&]<int pair>() __attribute__((always_inline)) {
      V row[kAtOnce];
      each<kAtOnce>([&]<int j>()
                        __attribute__((always_inline)) { row[j] = hn::LoadU(D(), b + (pair * kAtOnce + j) * kLanes); });
      each<kRows * kAtOnce>([&]<int i>() __attribute__((always_inline)) {
        constexpr int j = i / kRows, r = i % kRows;
        V& sum = to[r][pair * kAtOnce + j];
        sum = mul_add_lane<kLane>(factors[r], row[j], sum);
      });
    });
    b += b_step;
    asm("" : "+r"(b));  // or g++ keeps four addresses instead of one, for which pairs of loads have no form
  }
  HWY_INLINE void multiply(const float* x, int64_t x_step, const float* b, int64_t b_step, int64_t depth) {
    const D d;
    V to[kRows][kVecs], factors[kRows];
    const auto each_sum = [&](const auto& fn) __attribute__((always_inline)) {
      each<kRows * kVecs>([&]<int i>() __attribute__((always_inline)) {
        fn(to[i / kVecs][i % kVecs], sums[i / kVecs][i % kVecs]);
      });
    };
    each_sum([&](V & sum, V&) __attribute__((always_inline)) { sum = hn::Zero(d); });
    int64_t p = 0;
    for (; p + 4 <= depth; p += 4) {
      each<kRows>([&]<int r>() __attribute__((always_inline)) { factors[r] = hn::LoadU(d, x + r * x_step + p); });
      lane_step<0>(factors, b, b_step, to);
      lane_step<1>(factors, b, b_step, to);
      lane_step<2>(factors, b, b_step, to);
      lane_step<3>(factors, b, b_step, to);
    }
    for (; p < depth; ++p) {
      each<kRows>([&]<int r>() __attribute__((always_inline)) { factors[r] = hn::Set(d, x[r * x_step + p]); });
      lane_step<0>(factors, b, b_step, to);
    }
    each_sum([](const V& sum, V& kept) __attribute__((always_inline)) { kept = sum; });
  }
#else
  HWY_INLINE void multiply(const float* x, int64_t x_step, const float* b, int64_t b_step, int64_t depth) {
    const D d;
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(2)
      for (int j = 0; j < kVecs; ++j) sums[r][j] = hn::Zero(d);
    }
    for (int64_t p = 0; p < depth; ++p, b += b_step) {
      V row[kVecs];
      HWY_UNROLL(2)
      for (int j = 0; j < kVecs; ++j) row[j] = hn::LoadU(d, b + j * kLanes);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        const V factor = hn::Set(d, x[r * x_step + p]);
        HWY_UNROLL(2)
        for (int j = 0; j < kVecs; ++j) sums[r][j] = hn::MulAdd(factor, row[j], sums[r][j]);
      }
    }
  }
#endif
};

struct Plus {
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Larger {
  HWY_INLINE V operator()(V a, V b) const { return hn::Max(a, b); }
};

#if HWY_TARGET == HWY_SCALAR
template <int kRows, class Op>
HWY_INLINE void reduce_rows(V (&)[kRows], const Op&) {}
#else
// Reduces the lanes of each of four vectors by the op: the result of vector i is in lane i of every block.
template <class Op>
HWY_INLINE V reduce_four(V a, V b, V c, V e, const Op& op) {
  const D d;
  const hn::Repartition<double, D> pairs;
  const auto both = [&](V x, V y) {
    return hn::BitCast(pairs, op(hn::InterleaveLower(d, x, y), hn::InterleaveUpper(d, x, y)));
  };
  const auto ab = both(a, b), ce = both(c, e);
  V all = op(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
#if HWY_MAX_BYTES >= 64
  all = op(all, hn::SwapAdjacentBlocks(all));
#endif
#if HWY_MAX_BYTES >= 32
  all = op(all, hn::ConcatLowerUpper(d, all, all));
#endif
  return all;
}

// Reduces the lanes of each vector by the op; every lane gets the result.
template <int kRows, class Op>
HWY_INLINE void reduce_rows(V (&v)[kRows], const Op& op) {
  HWY_UNROLL(2)
  for (int r = 0; r < kRows; r += 4) {
    const auto at = [&](int i) { return v[r + i < kRows ? r + i : r]; };
    const V four = reduce_four(at(0), at(1), at(2), at(3), op);
    v[r] = hn::Broadcast<0>(four);
    if (r + 1 < kRows) v[r + 1] = hn::Broadcast<1>(four);
    if (r + 2 < kRows) v[r + 2] = hn::Broadcast<2>(four);
    if (r + 3 < kRows) v[r + 3] = hn::Broadcast<3>(four);
  }
}
#endif

template <int kRows, int kVecs>
HWY_NOINLINE void score_tile(const HeadRows& q, int64_t row, const float* keys, int64_t stride, int64_t size,
                             float scale, float* to) {
  const D d;
  Tile<kRows, kVecs> tile;
  tile.multiply(q.data + row * q.step, q.step, keys, stride, size);
  each<kRows>([&]<int r>() __attribute__((always_inline)) {
    each<kVecs>([&]<int j>() __attribute__((always_inline)) {
      hn::StoreU(hn::Mul(tile.sums[r][j], hn::Set(d, scale)), d, to + r * stride + j * kLanes);
    });
  });
}

void Scores(const AttentionBlock& b, const HeadRows& q, const float* keys, int64_t size, float scale) {
  for_tiles(b.rows, [&]<int kRows>(int64_t row) {
    const KeyRange seen = seen_by(b.seen + row, kRows);
    float* to = b.scores + row * b.stride;
    constexpr int64_t kColumns = SPARKPILOT_NEON ? kVectors * kLanes : kLanes;
    for_columns(seen.first / kColumns * kColumns, seen.last, [&]<int kVecs>(int64_t j) {
      score_tile<kRows, kVecs>(q, row, keys + j, b.stride, size, scale, to + j);
    });
  });
}

// Processes up to four queries at once, so that keys are read once.
template <int kRows>
HWY_INLINE void dot_tile(const AttentionBlock& b, const HeadRows& q, int64_t row, const HeadRows& keys, int64_t size,
                         float scale) {
  const D d;
  const int64_t whole = size / kLanes * kLanes;
  const auto left = static_cast<size_t>(size - whole);
  const float* x = q.data + row * q.step;
  const KeyRange seen = seen_by(b.seen + row, kRows);
  for (int64_t j = seen.first; j < seen.last; ++j) {
    const float* k = keys.data + j * keys.step;
    V sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
    for (int64_t p = 0; p < whole; p += kLanes) {
      const V key = hn::LoadU(d, k + p);
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::LoadU(d, x + r * q.step + p), key, sums[r]);
    }
    for (int r = 0; r < kRows && left; ++r) {
      sums[r] = hn::MulAdd(load_first(d, x + r * q.step + whole, left), load_first(d, k + whole, left), sums[r]);
    }
    reduce_rows(sums, Plus());
    for (int r = 0; r < kRows; ++r) b.scores[(row + r) * b.stride + j] = scale * hn::GetLane(sums[r]);
  }
}

// The lanes of the vector at column `at` that are in the range.
HWY_INLINE hn::Mask<D> inside(const KeyRange& range, int64_t at) {
  const D d;
  const auto lanes = [](int64_t n) { return static_cast<size_t>(std::clamp<int64_t>(n, 0, kLanes)); };
  const auto last = hn::FirstN(d, lanes(range.last - at));
  return range.first <= at ? last : hn::AndNot(hn::FirstN(d, lanes(range.first - at)), last);
}

// Calls fn(column, masked) for the vectors of columns [begin, end); `masked` is a constant, false where all of these
// rows see the whole vector.
template <int kRows, typename Fn>
HWY_INLINE void for_seen(const KeyRange* seen, int64_t begin, int64_t end, const Fn& fn) {
  KeyRange shared = seen[0];
  for (int r = 1; r < kRows; ++r) shared = {std::max(shared.first, seen[r].first), std::min(shared.last, seen[r].last)};
  int64_t j = begin;
  for (; j < end && j < shared.first; j += kLanes) fn(j, std::true_type());
  for (; j + kLanes <= shared.last; j += kLanes) fn(j, std::false_type());
  for (; j < end; j += kLanes) fn(j, std::true_type());
}

// The largest score of each of some rows. It starts at the lowest finite number, so that a row of -infinity gives
// weights and a sum of zero; NaN results from exp, whatever the maximum does with it.
template <int kRows>
HWY_INLINE void largest(const AttentionBlock& b, int64_t row, float* top) {
  const D d;
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  const KeyRange *seen = b.seen + row, all = seen_by(seen, kRows);
  const float* scores[kRows];  // of the rows: in registers, or g++ reads the stride again for every vector
  V most[kRows];
  for (int r = 0; r < kRows; ++r) {
    scores[r] = b.scores + (row + r) * b.stride;
    most[r] = lowest;
  }
  for_seen<kRows>(seen, all.first / kLanes * kLanes, all.last, [&](int64_t j, auto masked) HWY_ATTR {
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const V score = hn::LoadU(d, scores[r] + j);
      most[r] = hn::Max(most[r], masked ? hn::IfThenElse(inside(seen[r], j), score, lowest) : score);
    }
  });
  reduce_rows(most, Larger());
  for (int r = 0; r < kRows; ++r) top[row + r] = hn::GetLane(most[r]);
}

// Replaces rows of scores by weights, zero where a query does not see the key; `top` becomes 1 over their sums, 0 if
// the sum is 0.
template <int kRows>
HWY_INLINE void weigh(const AttentionBlock& b, int64_t row, float* top) {
  const D d;
  const KeyRange *seen = b.seen + row, all = seen_by(seen, kRows);
  float* scores[kRows];
  V sums[kRows], tops[kRows];
  for (int r = 0; r < kRows; ++r) {
    scores[r] = b.scores + (row + r) * b.stride;
    sums[r] = hn::Zero(d);
    tops[r] = hn::Set(d, top[row + r]);
  }
  const auto clear = [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kLanes) {
      for (int r = 0; r < kRows; ++r) hn::StoreU(hn::Zero(d), d, scores[r] + j);
    }
  };
  const int64_t begin = all.first / kLanes * kLanes, end = (all.last + kLanes - 1) / kLanes * kLanes;
  clear(0, begin);
  for_seen<kRows>(seen, begin, end, [&](int64_t j, auto masked) HWY_ATTR {
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const V e = exp_below(d, hn::Sub(hn::LoadU(d, scores[r] + j), tops[r]));
      const V weight = masked ? hn::IfThenElseZero(inside(seen[r], j), e) : e;
      hn::StoreU(weight, d, scores[r] + j);
      sums[r] = hn::Add(sums[r], weight);
    }
  });
  clear(end, b.stride);
  reduce_rows(sums, Plus());
  for (int r = 0; r < kRows; ++r) {
    const float sum = hn::GetLane(sums[r]);
    top[row + r] = sum == 0 ? 0 : 1 / sum;
  }
}

// Calls fn.operator()<rows>(first row) for up to four rows at a time.
template <typename Fn>
HWY_INLINE void for_rows(int64_t rows, const Fn& fn) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) fn.template operator()<4>(row);
  for (; row + 2 <= rows; row += 2) fn.template operator()<2>(row);
  if (row < rows) fn.template operator()<1>(row);
}

void Dots(const AttentionBlock& b, const HeadRows& q, const HeadRows& keys, int64_t size, float scale) {
  for_rows(b.rows, [&]<int kRows>(int64_t row) { dot_tile<kRows>(b, q, row, keys, size, scale); });
}

// One step at a time over all rows: the processor overlaps more of them than in one loop.
void Softmax(const AttentionBlock& b, float* inverse) {
  for_rows(b.rows, [&]<int kRows>(int64_t row) { largest<kRows>(b, row, inverse); });
  for_rows(b.rows, [&]<int kRows>(int64_t row) { weigh<kRows>(b, row, inverse); });
}

template <int kRows, int kVecs>
HWY_NOINLINE void value_tile(const float* weights, int64_t stride, const float* v, int64_t v_step, int64_t keys,
                             const float* inverse, float* y, int64_t y_step, int64_t columns) {
  const D d;
  Tile<kRows, kVecs> tile;
  tile.multiply(weights, stride, v, v_step, keys);
  const bool whole = columns >= kVecs * kLanes;
  each<kRows>([&]<int r>() __attribute__((always_inline)) {
    const V factor = hn::Set(d, inverse[r]);
    each<kVecs>([&]<int j>() __attribute__((always_inline)) {
      const V result = hn::Mul(tile.sums[r][j], factor);
      const int64_t left = columns - j * kLanes;
      float* to = y + r * y_step + j * kLanes;
      if (whole || left >= kLanes) hn::StoreU(result, d, to);
      else if (left > 0) store_first(d, result, to, static_cast<size_t>(left));
    });
  });
}

void Values(const AttentionBlock& b, const HeadRows& v, int64_t size, const float* inverse, float* y, int64_t y_step) {
  for_tiles(b.rows, [&]<int kRows>(int64_t row) {
    const KeyRange seen = seen_by(b.seen + row, kRows);
    const float *weights = b.scores + row * b.stride + seen.first, *rows = v.data + seen.first * v.step;
    float* to = y + row * y_step;
    const int64_t keys = seen.last - seen.first;
    for_columns(0, size, [&]<int kVecs>(int64_t j) {
      value_tile<kRows, kVecs>(weights, b.stride, rows + j, v.step, keys, inverse + row, to + j, y_step, size - j);
    });
  });
}

void Widen(const ConstView& x, int64_t at, int64_t x_step, int64_t rows, int64_t size, float* to, int64_t step) {
  dispatch(TypeList<float, Half, BFloat16>{}, x.dtype, [&]<typename T>() {
    // Without hardware conversion of halves, Highway's code turns NaN and infinity into numbers.
    constexpr bool kExact = !std::is_same_v<T, Half> || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || SPARKPILOT_NEON;
    const int64_t whole = kExact ? size / kLanes * kLanes : 0;
    const T* from = x.as<T>() + at;
    for (int64_t i = 0; i < rows; ++i, from += x_step, to += step) {
      for (int64_t p = 0; p < whole; p += kLanes) hn::StoreU(load_weights(D(), from + p), D(), to + p);
      for (int64_t p = whole; p < size; ++p) to[p] = static_cast<float>(from[p]);
      for (int64_t p = size; p < step; ++p) to[p] = 0;
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(Scores);
HWY_EXPORT(Dots);
HWY_EXPORT(Softmax);
HWY_EXPORT(Values);
HWY_EXPORT(Widen);

void transpose_keys(const HeadRows& keys, int64_t count, int64_t size, float* to, int64_t stride) {
  for (int64_t p = 0; count < stride && p < size; ++p) std::fill_n(to + (p + 1) * stride - kLine, kLine, 0.0f);
  transpose_matrix(keys.data, keys.step, count, size, to, stride);
}
void attention_scores(const AttentionBlock& b, const HeadRows& q, const float* keys, int64_t size, float scale) {
  HWY_DYNAMIC_DISPATCH(Scores)(b, q, keys, size, scale);
}
void attention_dots(const AttentionBlock& b, const HeadRows& q, const HeadRows& keys, int64_t size, float scale) {
  HWY_DYNAMIC_DISPATCH(Dots)(b, q, keys, size, scale);
}
void attention_softmax(const AttentionBlock& b, float* inverse) { HWY_DYNAMIC_DISPATCH(Softmax)(b, inverse); }
void attention_values(const AttentionBlock& b, const HeadRows& v, int64_t size, const float* inverse, float* y,
                      int64_t y_step) {
  HWY_DYNAMIC_DISPATCH(Values)(b, v, size, inverse, y, y_step);
}

void widen_rows(const ConstView& x, int64_t at, int64_t x_step, int64_t rows, int64_t size, float* to, int64_t step) {
  HWY_DYNAMIC_DISPATCH(Widen)(x, at, x_step, rows, size, to, step);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
