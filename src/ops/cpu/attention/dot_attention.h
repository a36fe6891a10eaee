// The two products of attention on bf16, by the processor's dot products (vdpbf16ps), without converting to f32 in
// memory. Scores are sums in f32 of exact products of pairs; weights stay in f32; results are rounded once; bf16
// denormals count as zero. Scratch layout and softmax as in attention_block.h. Serial.
#pragma once

#include "ops/cpu/attention/attention_block.h"

namespace sparkpilot {

bool has_attention_dots();

// Rows of one head in memory.
struct DotRows {
  const BFloat16* data = nullptr;
  int64_t step = 0;  // between rows
};

// scale * q k^T, at least for the keys that each query sees. `pairs` is scratch of [size / 2, b.stride]. `size`, k's
// step and k's offset must be even.
void attention_dot_scores(const AttentionBlock& b, const DotRows& q, const DotRows& k, int64_t size, float scale,
                          float* pairs);
// y[i] = inverse[i] * (weights of i) v.
void attention_dot_values(const AttentionBlock& b, const DotRows& v, int64_t size, const float* inverse, BFloat16* y,
                          int64_t y_step);

}  // namespace sparkpilot
