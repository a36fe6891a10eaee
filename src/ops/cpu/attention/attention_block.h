// Attention for a block of queries of one head, in f32, in steps with the scores in scratch memory between them.
// Serial.
//
// The scores of query i start at scores[i * stride]; column j is the block's key j. Rows of scratch, and `stride`, are
// padded to multiples of kLine floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/attention/attention_shape.h"

namespace sparkpilot {

inline constexpr int64_t kLine = 16;       // floats: the widest vector
inline constexpr int64_t kFewQueries = 4;  // up to this many, dot products are faster than transposing the keys
inline int64_t whole_lines(int64_t n) { return (n + kLine - 1) / kLine * kLine; }

// Rows of one head in memory.
struct HeadRows {
  const float* data = nullptr;
  int64_t step = 0;  // between rows
};

// The range of all keys that any of these queries sees.
inline KeyRange seen_by(const KeyRange* seen, int rows) {
  KeyRange all = seen[0];
  for (int r = 1; r < rows; ++r) all = {std::min(all.first, seen[r].first), std::max(all.last, seen[r].last)};
  return all;
}

// The number of queries in the next tile of at most `most`, if `left` remain: tiles have nearly equal heights.
inline int64_t tile_height(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

struct AttentionBlock {
  int64_t rows = 0, keys = 0;
  const KeyRange* seen = nullptr;  // the keys of each query
  float* scores = nullptr;
  int64_t stride = 0;
};

// Transposes keys [count, size] to to[size, stride], with zeros after the last key.
void transpose_keys(const HeadRows& keys, int64_t count, int64_t size, float* to, int64_t stride);
// scale * q k^T, at least for the keys that each query sees: from transposed keys, or by dot products.
void attention_scores(const AttentionBlock& b, const HeadRows& q, const float* keys, int64_t size, float scale);
void attention_dots(const AttentionBlock& b, const HeadRows& q, const HeadRows& keys, int64_t size, float scale);
// Replaces scores by exp(score - the query's maximum), and by zero if the query does not see the key; inverse[i] is 1
// over their sum, or 0 if query i sees no key.
void attention_softmax(const AttentionBlock& b, float* inverse);
// y[i] = inverse[i] * (weights of i) v. Reads whole lines of v.
void attention_values(const AttentionBlock& b, const HeadRows& v, int64_t size, const float* inverse, float* y,
                      int64_t y_step);
// Converts rows of f16, bf16 or f32, from element `at` on, to f32, with zeros after each row up to `step`.
void widen_rows(const ConstView& x, int64_t at, int64_t x_step, int64_t rows, int64_t size, float* to, int64_t step);

}  // namespace sparkpilot
