// A task is a block of queries of one head: scores for all keys by a small matrix product with the keys transposed into
// scratch, softmax row by row, then the product with the values.
#include "ops/attention_simd.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/attention_shape.h"
#include "ops/cpu/small_gemm.h"
#include "ops/cpu/vector_math.h"

namespace sparkpilot {
namespace {

constexpr int64_t kBlock = 64;      // queries to a task
constexpr int64_t kLine = 16;       // rows of scratch begin at multiples of this many floats
constexpr int64_t kFewQueries = 3;  // up to this many, dot products beat transposing the keys

int64_t rounded_up(int64_t n) { return (n + kLine - 1) / kLine * kLine; }

struct SimdState final : KernelState {
  AttentionShape a;
  int64_t blocks = 0, tasks = 0, slots = 0;  // blocks of a head; all tasks; scratch areas
  int64_t slot_floats = 0;
};

// Scratch of one slot: the keys transposed, then the scores.
struct Scratch {
  float *keys, *scores;
  int64_t stride;  // of a row of either
};

// One block of queries of one head.
struct Block {
  int64_t b, head, first, rows;
  KeyRange seen;  // the union over the rows
};

void apply_mask(const AttentionMask& mask, int64_t at, const KeyRange& seen, float* scores) {
  if (!mask.view.present()) return;
  const int64_t end = std::min(seen.last, mask.length);
  if (mask.view.dtype == DType::boolean) {
    const auto* allowed = mask.view.as<uint8_t>() + at;
    for (int64_t j = seen.first; j < end; ++j) scores[j] = allowed[j] ? scores[j] : -INFINITY;
  } else {
    const float* bias = mask.view.as<float>() + at;
    for (int64_t j = seen.first; j < end; ++j) scores[j] = bias[j] == -INFINITY ? -INFINITY : scores[j] + bias[j];
  }
  if (end < seen.last) std::fill(scores + std::max(seen.first, end), scores + seen.last, -INFINITY);
}

// Scores of one query become weights that are not divided by their sum yet; returns 1 / sum, or 0 where it sees
// nothing.
float weigh(const AttentionShape& a, const AttentionMask& mask, int64_t at, const KeyRange& seen, const KeyRange& all,
            float* scores) {
  const int64_t count = seen.last - seen.first;
  if (count == 0) {
    std::fill(scores + all.first, scores + all.last, 0.0f);
    return 0;
  }
  float* row = scores + seen.first;
  if (a.softcap > 0) {
    const auto cap = static_cast<float>(a.softcap);
    vector_scale_shift(row, 1 / cap, 0, row, count);
    apply_activation(Activation::tanh, 0, 0, row, row, count);
    vector_scale_shift(row, cap, 0, row, count);
  }
  apply_mask(mask, at, seen, scores);
  std::fill(scores + all.first, row, 0.0f);
  std::fill(row + count, scores + all.last, 0.0f);
  const float top = row_max(row, count);
  if (top == -INFINITY) {
    std::fill(row, row + count, 0.0f);
    return 0;
  }
  return 1 / exp_sub_sum(row, top, row, count);
}

void attend(const Call& c, const AttentionShape& a, const AttentionMask& mask, const Block& block, const Scratch& s) {
  const int64_t kv_head = block.head / a.group(), keys = block.seen.last - block.seen.first;
  const float* q = c.inputs[0].as<float>() + a.q.offset(block.b, block.head, block.first);
  const float* k = c.inputs[1].as<float>() + a.k.offset(block.b, kv_head, block.seen.first);
  const float* v = c.inputs[2].as<float>() + a.v.offset(block.b, kv_head, block.seen.first);
  float* y = c.outputs[0].as<float>() + a.y.offset(block.b, block.head, block.first);
  float* scores = s.scores;  // column j is key j, counted from the first that is seen
  const auto scale = static_cast<float>(a.scale);
  if (block.rows <= kFewQueries) {
    for (int64_t i = 0; i < block.rows; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        scores[i * s.stride + j] = scale * row_dot(q + i * a.q.row_step, k + j * a.k.row_step, a.q.size);
      }
    }
  } else {
    transpose_rows(k, a.k.row_step, s.keys, s.stride, keys, a.k.size);
    small_gemm(q, a.q.row_step, s.keys, s.stride, scores, s.stride, block.rows, keys, a.q.size, scale, false);
  }
  float inverse[kBlock];
  const int64_t valid = valid_keys(c, a, block.b);
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t row = block.first + i;
    // weigh() counts keys from 0.
    inverse[i] = weigh(a, mask, mask.offset(block.b, block.head, row), visible_keys(a, row, valid), block.seen,
                       scores + i * s.stride - block.seen.first);
  }
  small_gemm(scores, s.stride, v, a.v.row_step, y, a.y.row_step, block.rows, a.v.size, keys, 1, false);
  for (int64_t i = 0; i < block.rows; ++i) {
    vector_scale_shift(y + i * a.y.row_step, inverse[i], 0, y + i * a.y.row_step, a.v.size);
  }
}

}  // namespace

Verdict accepts_attention_simd(const Problem& p) {
  for (const size_t i : {0, 1, 2}) {
    if (p.inputs[i].dtype != DType::f32) return fmt::format("{} query, key or value", name(p.inputs[i].dtype));
  }
  if (p.has(3) && p.inputs[3].dtype != DType::f32 && p.inputs[3].dtype != DType::boolean) {
    return fmt::format("{} mask", name(p.inputs[3].dtype));
  }
  if (p.has(4)) return "past keys and values";
  for (size_t i = 1; i < p.outputs.size(); ++i) {
    if (p.outputs[i].dtype != DType::none) return "more than the first output is wanted";
  }
  if (p.outputs[0].shape.elements() == 0 || attention_shape(p).total == 0) return "empty";
  return true;
}

std::unique_ptr<KernelState> prepare_attention_simd(const Problem& p) {
  auto state = std::make_unique<SimdState>();
  const AttentionShape a = state->a = attention_shape(p);
  state->blocks = (a.q.rows + kBlock - 1) / kBlock;
  state->tasks = a.q.batch * a.q.heads * state->blocks;
  state->slots = std::min<int64_t>(state->tasks, 64);
  const int64_t stride = rounded_up(a.total), rows = std::min(kBlock, a.q.rows);
  state->slot_floats = stride * (rows + (rows > kFewQueries ? a.k.size : 0)) + kLine;
  state->workspace = state->slots * state->slot_floats * static_cast<int64_t>(sizeof(float));
  return state;
}

void run_attention_simd(const Call& c) {
  const SimdState& s = c.as<SimdState>();
  const AttentionShape& a = s.a;
  const AttentionMask mask(c, a);
  const int64_t stride = rounded_up(a.total), rows = std::min(kBlock, a.q.rows);
  // A thread is worth waking for some 100,000 multiplications.
  const int64_t work = s.tasks / s.slots * rows * a.total * (a.q.size + a.v.size) + 1;
  parallel_for(s.slots, std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      float* memory = reinterpret_cast<float*>(c.workspace) + slot * s.slot_floats;
      const Scratch scratch{memory + rows * stride, memory, stride};
      for (int64_t i = s.tasks * slot / s.slots; i < s.tasks * (slot + 1) / s.slots; ++i) {
        Block block{i / s.blocks / a.q.heads, i / s.blocks % a.q.heads, i % s.blocks * kBlock, 0, {a.total, 0}};
        block.rows = std::min(kBlock, a.q.rows - block.first);
        const int64_t valid = valid_keys(c, a, block.b);
        for (int64_t row = block.first; row < block.first + block.rows; ++row) {
          const KeyRange seen = visible_keys(a, row, valid);
          if (seen.first == seen.last) continue;
          block.seen.first = std::min(block.seen.first, seen.first);
          block.seen.last = std::max(block.seen.last, seen.last);
        }
        if (block.seen.first >= block.seen.last) block.seen = {0, 0};
        attend(c, a, mask, block, scratch);
      }
    }
  });
}

}  // namespace sparkpilot
