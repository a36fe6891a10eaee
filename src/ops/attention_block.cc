#include "ops/attention_block.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention_block.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float));
constexpr int kVectors = 2;  // beside each other in a tile
// Queries to a tile: as many sums as leave registers for the operands.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr int kMaxRows = 4;
#else
constexpr int kMaxRows = 8;
#endif

// Calls fn.operator()<height>(first row) for tiles of nearly equal height.
template <typename Fn>
HWY_INLINE void for_tiles(int64_t rows, const Fn& fn) {
  for (int64_t row = 0; row < rows;) {
    const int64_t left = rows - row, tiles = (left + kMaxRows - 1) / kMaxRows;
    const int64_t height = (left + tiles - 1) / tiles;
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

// All keys that a tile's queries see.
HWY_INLINE KeyRange seen_by(const KeyRange* seen, int rows) {
  KeyRange all = seen[0];
  for (int r = 1; r < rows; ++r) {
    all.first = std::min(all.first, seen[r].first);
    all.last = std::max(all.last, seen[r].last);
  }
  return all;
}

// sums[r][j] += x[r * x_step + p * x_next] * b[p * b_step + j] over p: a tile of a small matrix product.
template <int kRows, int kVecs>
struct Tile {
  V sums[kRows][kVecs];
  HWY_INLINE Tile() {}  // written out, or g++ for Arm builds it without the target's instructions

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
};

// A block of 4 x 4 where vectors have four lanes.
#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kSide = 1;
HWY_INLINE void transpose_square(const float* from, int64_t, float* to, int64_t) { *to = *from; }
#else
constexpr int64_t kSide = 4;
HWY_INLINE void transpose_square(const float* from, int64_t step, float* to, int64_t to_step) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + step);
  const auto c = hn::LoadU(d, from + 2 * step), e = hn::LoadU(d, from + 3 * step);
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

void Transpose(const float* k, int64_t step, int64_t count, int64_t size, float* to, int64_t stride) {
  const int64_t whole_keys = count / kSide * kSide, whole_size = size / kSide * kSide;
  for (int64_t p = 0; count < stride && p < size; ++p) {
    float* line = to + (p + 1) * stride - kLine;
    for (int64_t i = 0; i < kLine; i += kLanes) hn::StoreU(hn::Zero(D()), D(), line + i);
  }
  for (int64_t j = 0; j < whole_keys; j += kSide) {
    const float* rows = k + j * step;
    for (int64_t p = 0; p < whole_size; p += kSide) transpose_square(rows + p, step, to + p * stride + j, stride);
    for (int64_t p = whole_size; p < size; ++p) {
      for (int64_t i = 0; i < kSide; ++i) to[p * stride + j + i] = rows[i * step + p];
    }
  }
  for (int64_t j = whole_keys; j < count; ++j) {
    for (int64_t p = 0; p < size; ++p) to[p * stride + j] = k[j * step + p];
  }
}

template <int kRows, int kVecs>
HWY_NOINLINE void score_tile(const HeadRows& q, int64_t row, const float* keys, int64_t stride, int64_t size,
                             float scale, float* to) {
  const D d;
  Tile<kRows, kVecs> tile;
  tile.multiply(q.data + row * q.step, q.step, keys, stride, size);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) {
      hn::StoreU(hn::Mul(tile.sums[r][j], hn::Set(d, scale)), d, to + r * stride + j * kLanes);
    }
  }
}

void Scores(const AttentionBlock& b, const HeadRows& q, const float* keys, int64_t size, float scale) {
  for_tiles(b.rows, [&]<int kRows>(int64_t row) {
    const KeyRange seen = seen_by(b.seen + row, kRows);
    float* to = b.scores + row * b.stride;
    int64_t j = seen.first / kLanes * kLanes;
    for (; j + kLanes < seen.last; j += kVectors * kLanes) {
      score_tile<kRows, kVectors>(q, row, keys + j, b.stride, size, scale, to + j);
    }
    if (j < seen.last) score_tile<kRows, 1>(q, row, keys + j, b.stride, size, scale, to + j);
  });
}

void Dots(const AttentionBlock& b, const HeadRows& q, const HeadRows& keys, int64_t size, float scale) {
  const D d;
  const int64_t whole = size / kLanes * kLanes;
  const auto left = static_cast<size_t>(size - whole);
  for (int64_t i = 0; i < b.rows; ++i) {
    const float* x = q.data + i * q.step;
    for (int64_t j = b.seen[i].first; j < b.seen[i].last; ++j) {
      const float* k = keys.data + j * keys.step;
      V sum = hn::Zero(d);
      for (int64_t p = 0; p < whole; p += kLanes) sum = hn::MulAdd(hn::LoadU(d, x + p), hn::LoadU(d, k + p), sum);
      if (left) sum = hn::MulAdd(load_first(d, x + whole, left), load_first(d, k + whole, left), sum);
      b.scores[i * b.stride + j] = scale * hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

// The lanes of the vector at column `at` that lie in the range.
HWY_INLINE hn::Mask<D> inside(const KeyRange& range, int64_t at) {
  const D d;
  const auto lanes = [](int64_t n) { return static_cast<size_t>(std::clamp<int64_t>(n, 0, kLanes)); };
  const auto last = hn::FirstN(d, lanes(range.last - at));
  return range.first <= at ? last : hn::AndNot(hn::FirstN(d, lanes(range.first - at)), last);
}

// The largest score of a row. It begins at the lowest finite number, so that a row of -infinity gives weights and a sum
// of zero; NaN comes out of exp, whatever the maximum made of it.
HWY_INLINE float largest(const float* row, const KeyRange& seen) {
  const D d;
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  V top = lowest;
  for (int64_t j = seen.first / kLanes * kLanes; j < seen.last; j += kLanes) {
    top = hn::Max(top, hn::IfThenElse(inside(seen, j), hn::LoadU(d, row + j), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// A row of scores as weights, zero where the query does not see; returns their sum.
HWY_INLINE float weigh(float* row, const KeyRange& seen, float top, int64_t stride) {
  const D d;
  const int64_t begin = seen.first / kLanes * kLanes;
  const V shift = hn::Set(d, top);
  V sum = hn::Zero(d);
  int64_t j = 0;
  for (; j < begin; j += kLanes) hn::StoreU(hn::Zero(d), d, row + j);
  for (; j < seen.last; j += kLanes) {
    const V e = hn::IfThenElseZero(inside(seen, j), exp_flushed(d, hn::Sub(hn::LoadU(d, row + j), shift)));
    hn::StoreU(e, d, row + j);
    sum = hn::Add(sum, e);
  }
  for (; j < stride; j += kLanes) hn::StoreU(hn::Zero(d), d, row + j);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Step by step over all rows: more of them are under way at a time than in one loop.
void Softmax(const AttentionBlock& b, float* inverse) {
  for (int64_t i = 0; i < b.rows; ++i) inverse[i] = largest(b.scores + i * b.stride, b.seen[i]);
  for (int64_t i = 0; i < b.rows; ++i) inverse[i] = weigh(b.scores + i * b.stride, b.seen[i], inverse[i], b.stride);
  for (int64_t i = 0; i < b.rows; ++i) inverse[i] = inverse[i] == 0 ? 0 : 1 / inverse[i];
}

template <int kRows, int kVecs>
HWY_NOINLINE void value_tile(const float* weights, int64_t stride, const float* v, int64_t v_step, int64_t keys,
                             const float* inverse, float* y, int64_t y_step, int64_t columns) {
  const D d;
  Tile<kRows, kVecs> tile;
  tile.multiply(weights, stride, v, v_step, keys);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) {
      const V result = hn::Mul(tile.sums[r][j], hn::Set(d, inverse[r]));
      const int64_t left = columns - j * kLanes;
      float* to = y + r * y_step + j * kLanes;
      if (left >= kLanes) hn::StoreU(result, d, to);
      else store_first(d, result, to, static_cast<size_t>(left));
    }
  }
}

void Values(const AttentionBlock& b, const HeadRows& v, int64_t size, const float* inverse, float* y, int64_t y_step) {
  for_tiles(b.rows, [&]<int kRows>(int64_t row) {
    const KeyRange seen = seen_by(b.seen + row, kRows);
    const float *weights = b.scores + row * b.stride + seen.first, *rows = v.data + seen.first * v.step;
    float* to = y + row * y_step;
    const int64_t keys = seen.last - seen.first;
    int64_t j = 0;
    for (; j + kLanes < size; j += kVectors * kLanes) {
      value_tile<kRows, kVectors>(weights, b.stride, rows + j, v.step, keys, inverse + row, to + j, y_step, size - j);
    }
    if (j < size)
      value_tile<kRows, 1>(weights, b.stride, rows + j, v.step, keys, inverse + row, to + j, y_step, size - j);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(Transpose);
HWY_EXPORT(Scores);
HWY_EXPORT(Dots);
HWY_EXPORT(Softmax);
HWY_EXPORT(Values);

void transpose_keys(const HeadRows& keys, int64_t count, int64_t size, float* to, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(Transpose)(keys.data, keys.step, count, size, to, stride);
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

}  // namespace sparkpilot
#endif  // HWY_ONCE
