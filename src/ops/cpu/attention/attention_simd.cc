// A task is a block of queries of one head: it computes the scores for all keys by a small matrix product with the keys
// transposed into scratch, softmax row by row, then the product with the values. 16-bit operands are converted to f32
// in scratch, row by row, if the processor has no bf16 dot products.
#include "ops/cpu/attention/attention_simd.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/cpu/attention/attention_block.h"
#include "ops/cpu/attention/dot_attention.h"
#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {
namespace {

constexpr int64_t kBlock = 64;  // queries per task

using Operand = TypeList<float, Half, BFloat16>;

// Where each part of a slot's scratch begins, in floats; a part that is not needed has the offset of the next.
struct ScratchPlan {
  int64_t scores = 0, transposed = 0, q = 0, k = 0, v = 0, y = 0, end = 0;
  int64_t stride = 0, v_step = 0;  // of a row of scores and transposed keys; of a row of copied values
};

struct SimdState final : KernelState {
  AttentionShape a;
  int64_t blocks = 0, tasks = 0, slots = 0;  // blocks per head; all tasks; scratch areas
  ScratchPlan scratch;
  bool dots = false;  // by dot products of bf16
  // If no input gives the number of keys: the keys that each query sees, counted from its block's first key, and the
  // keys of each block.
  std::vector<KeyRange> seen, seen_by_block;
};

// One block of queries of one head.
struct Block {
  int64_t b, head, first, rows;
};

// Sets the keys that each query of the block sees; returns their union. The keys are counted from its first key.
KeyRange seen_by(const AttentionShape& a, const Block& block, int64_t valid, KeyRange* seen) {
  KeyRange all{a.total, 0};
  for (int64_t i = 0; i < block.rows; ++i) {
    seen[i] = visible_keys(a, block.first + i, valid);
    if (seen[i].first == seen[i].last) continue;
    all.first = std::min(all.first, seen[i].first);
    all.last = std::max(all.last, seen[i].last);
  }
  if (all.first >= all.last) all = {0, 0};
  for (int64_t i = 0; i < block.rows; ++i) {
    const bool any = seen[i].first < seen[i].last;
    seen[i] = any ? KeyRange{seen[i].first - all.first, seen[i].last - all.first} : KeyRange{0, 0};
  }
  return all;
}

// Applies soft cap and mask to the scores of one query.
void adjust(const AttentionShape& a, const AttentionMask& mask, int64_t at, const KeyRange& seen, float* scores) {
  if (a.softcap > 0) {
    const auto cap = static_cast<float>(a.softcap);
    float* row = scores + seen.first;
    const int64_t count = seen.last - seen.first;
    vector_scale_shift(row, 1 / cap, 0, row, count);
    apply_activation(Activation::tanh, 0, 0, row, row, count);
    vector_scale_shift(row, cap, 0, row, count);
  }
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

// Rows of one head as f32 in rows of `step` floats, padded with zeros: the input itself if it has that form already.
HeadRows rows_of(const ConstView& x, const HeadLayout& layout, int64_t at, int64_t rows, float* copy, int64_t step) {
  if (!copy) return {x.as<float>() + at, layout.row_step};
  widen_rows(x, at, layout.row_step, rows, layout.size, copy, step);
  return {copy, step};
}

// Converts dense rows for a 16-bit output.
void round_rows(const float* from, int64_t size, const View& y, int64_t at, int64_t step, int64_t rows) {
  if (y.dtype == DType::bf16) return float_to_bfloat16_rows(from, size, y.as<BFloat16>() + at, step, rows, size);
  for (int64_t i = 0; i < rows; ++i) floats_to(y.dtype, from + i * size, y.data, at + i * step, size);
}

void attend(const Call& c, const SimdState& s, const AttentionMask& mask, const Block& block, float* memory) {
  const AttentionShape& a = s.a;
  const ScratchPlan& plan = s.scratch;
  const auto part = [&](int64_t begin, int64_t end) { return begin < end ? memory + begin : nullptr; };
  KeyRange own[kBlock];
  const KeyRange* seen = own;
  KeyRange all;
  if (s.seen.empty()) {
    all = seen_by(a, block, valid_keys(c, a, block.b), own);
  } else {
    seen = s.seen.data() + block.first;
    all = s.seen_by_block[static_cast<size_t>(block.first / kBlock)];
  }
  const int64_t kv_head = block.head / a.group(), keys = all.last - all.first;
  const int64_t q_at = a.q.offset(block.b, block.head, block.first), k_at = a.k.offset(block.b, kv_head, all.first);
  const int64_t v_at = a.v.offset(block.b, kv_head, all.first), y_at = a.y.offset(block.b, block.head, block.first);
  const AttentionBlock rows{block.rows, keys, seen, memory + plan.scores, plan.stride};
  const auto scale = static_cast<float>(a.scale);
  const auto bf16 = [&](size_t i) { return c.inputs[i].as<BFloat16>(); };
  if (s.dots) {
    attention_dot_scores(rows, {bf16(0) + q_at, a.q.row_step}, {bf16(1) + k_at, a.k.row_step}, a.k.size, scale,
                         memory + plan.transposed);
  } else {
    const HeadRows q = rows_of(c.inputs[0], a.q, q_at, block.rows, part(plan.q, plan.k), a.q.size);
    const HeadRows k = rows_of(c.inputs[1], a.k, k_at, keys, part(plan.k, plan.v), a.k.size);
    if (block.rows <= kFewQueries) {
      attention_dots(rows, q, k, a.q.size, scale);
    } else {
      transpose_keys(k, keys, a.k.size, memory + plan.transposed, plan.stride);
      attention_scores(rows, q, memory + plan.transposed, a.q.size, scale);
    }
  }
  for (int64_t i = 0; (a.softcap > 0 || mask.view.present()) && i < block.rows; ++i) {
    // The mask counts keys from 0.
    const int64_t first = mask.offset(block.b, block.head, block.first + i) + all.first;
    AttentionMask from_first = mask;
    from_first.length = mask.length - all.first;
    adjust(a, from_first, first, seen[i], rows.scores + i * rows.stride);
  }
  float inverse[kBlock];
  attention_softmax(rows, inverse);
  if (s.dots) {
    return attention_dot_values(rows, {bf16(2) + v_at, a.v.row_step}, a.v.size, inverse,
                                c.outputs[0].as<BFloat16>() + y_at, a.y.row_step);
  }
  const HeadRows v = rows_of(c.inputs[2], a.v, v_at, keys, part(plan.v, plan.y), plan.v_step);
  float* copy = part(plan.y, plan.end);
  attention_values(rows, v, a.v.size, inverse, copy ? copy : c.outputs[0].as<float>() + y_at,
                   copy ? a.v.size : a.y.row_step);
  if (copy) round_rows(copy, a.v.size, c.outputs[0], y_at, a.y.row_step, block.rows);
}

}  // namespace

Acceptance accepts_attention_simd(const Problem& p) {
  for (const size_t i : {0, 1, 2}) {
    if (!contains(Operand{}, p.inputs[i].dtype)) return fmt::format("{} query, key or value", name(p.inputs[i].dtype));
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

namespace {

// Treats one query of several heads that share keys and values as several queries of one head, which reads them once.
void join_heads(const Problem& p, AttentionShape& a) {
  if (a.q.rows != 1 || a.causal || a.left >= 0 || a.right >= 0 || p.has(3)) return;
  const int64_t group = a.group();
  for (HeadLayout* layout : {&a.q, &a.y}) {
    layout->rows = group;
    layout->heads /= group;
    layout->row_step = layout->head_step;
    layout->head_step *= group;
  }
}

// Whether everything is bf16, and keys can be moved by pairs.
bool takes_dots(const Problem& p, const AttentionShape& a) {
  const auto even = [](const HeadLayout& l) {
    return (l.size | l.first | l.batch_step | l.head_step | l.row_step) % 2 == 0;
  };
  const bool bf16 = p.outputs[0].dtype == DType::bf16 &&
                    std::all_of(p.inputs.begin(), p.inputs.begin() + 3,
                                [](const TensorType& input) { return input.dtype == DType::bf16; });
  return has_attention_dots() && bf16 && a.q.rows > kFewQueries && even(a.k);
}

}  // namespace

std::unique_ptr<KernelState> prepare_attention_simd(const Problem& p) {
  auto state = std::make_unique<SimdState>();
  join_heads(p, state->a = attention_shape(p));
  const AttentionShape& a = state->a;
  state->blocks = (a.q.rows + kBlock - 1) / kBlock;
  state->tasks = a.q.batch * a.q.heads * state->blocks;
  state->slots = std::min<int64_t>(state->tasks, 64);
  const int64_t rows = std::min(kBlock, a.q.rows);
  ScratchPlan& plan = state->scratch;
  plan.stride = whole_lines(a.total);
  plan.v_step = whole_lines(a.v.size);
  state->dots = takes_dots(p, a);
  const auto wide = [&](size_t i) { return state->dots || p.inputs[i].dtype == DType::f32; };
  plan.transposed = rows * plan.stride;
  plan.q = plan.transposed + (rows > kFewQueries ? a.k.size * plan.stride : 0);
  plan.k = plan.q + (wide(0) ? 0 : whole_lines(rows * a.q.size));
  plan.v = plan.k + (wide(1) ? 0 : whole_lines(a.total * a.k.size));
  plan.y = plan.v + (state->dots || (wide(2) && a.v.size == plan.v_step) ? 0 : a.total * plan.v_step);
  plan.end = plan.y + (state->dots || p.outputs[0].dtype == DType::f32 ? 0 : whole_lines(rows * a.v.size));
  if (!p.has(6)) {
    state->seen.resize(static_cast<size_t>(a.q.rows));
    for (int64_t first = 0; first < a.q.rows; first += kBlock) {
      const Block block{0, 0, first, std::min(kBlock, a.q.rows - first)};
      state->seen_by_block.push_back(seen_by(a, block, -1, state->seen.data() + first));
    }
  }
  state->workspace = state->slots * plan.end * static_cast<int64_t>(sizeof(float));
  return state;
}

void run_attention_simd(const Call& c) {
  const SimdState& s = c.as<SimdState>();
  const AttentionShape& a = s.a;
  const AttentionMask mask(c, a);
  // A thread is worth waking for about 20,000 multiplications.
  const int64_t work = s.tasks / s.slots * std::min(kBlock, a.q.rows) * a.total * (a.q.size + a.v.size) + 1;
  parallel_for(s.slots, std::max<int64_t>(1, 20000 / work), [&](int64_t begin, int64_t end) {
    // A thread always uses the scratch of its first slot, which is in its cache.
    float* memory = reinterpret_cast<float*>(c.workspace) + begin * s.scratch.end;
    for (int64_t i = s.tasks * begin / s.slots; i < s.tasks * end / s.slots; ++i) {
      const int64_t first = i % s.blocks * kBlock;
      const Block block{i / s.blocks / a.q.heads, i / s.blocks % a.q.heads, first, std::min(kBlock, a.q.rows - first)};
      attend(c, s, mask, block, memory);
    }
  });
}

}  // namespace sparkpilot
