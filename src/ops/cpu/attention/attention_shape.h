// The geometry of Attention: sizes, where each head's rows are in memory, and which keys a query sees.
#pragma once

#include <cstdint>

#include "ir/op.h"

namespace sparkpilot {

// [batch, heads, rows, size] in memory, for tensors of that rank and for tensors that hold the heads as columns of the
// last axis ([batch, rows, heads * size]).
struct HeadLayout {
  int64_t batch = 0, heads = 0, rows = 0, size = 0;
  int64_t first = 0, batch_step = 0, head_step = 0, row_step = 0;  // in elements
  int64_t offset(int64_t b, int64_t head, int64_t row) const {
    return first + b * batch_step + head * head_step + row * row_step;
  }
};

struct AttentionShape {
  HeadLayout q, k, v;         // k and v without the past
  HeadLayout past_k, past_v;  // without past: no rows
  HeadLayout y;
  int64_t total = 0;  // number of keys, including the past
  double scale = 1, softcap = 0;
  int64_t output_mode = 0;  // selects what the fourth output holds
  bool causal = false;
  int64_t left = -1, right = -1;                       // window sizes; -1: unbounded
  int64_t group() const { return q.heads / k.heads; }  // query heads per key head
};

// Reads shapes and attributes; fails (user) if they do not fit. `shape(i)` is null for an absent input.
struct AttentionInputs {
  const Shape* shape[7] = {};
};
AttentionShape attention_shape(const AttentionInputs& inputs, const Attributes& attrs);
AttentionShape attention_shape(const Call& c);
AttentionShape attention_shape(const Problem& p);

// The keys [first, last) that query `row` may see, apart from masks. `valid` is the number of keys that are not
// padding, or -1 if nonpad_kv_seqlen is absent.
struct KeyRange {
  int64_t first, last;
};
KeyRange visible_keys(const AttentionShape& a, int64_t row, int64_t valid);

// nonpad_kv_seqlen of a batch entry, -1 without that input; fails (user) if it exceeds the number of keys.
int64_t valid_keys(const Call& c, const AttentionShape& a, int64_t b);

// attn_mask as a bias on the scores.
struct AttentionMask {
  ConstView view;  // absent: all zero
  int64_t batch_step = 0, head_step = 0, row_step = 0, length = 0;
  AttentionMask(const Call& c, const AttentionShape& a);
  int64_t offset(int64_t b, int64_t head, int64_t row) const {
    return b * batch_step + head * head_step + row * row_step;
  }
  // 0 or the number to add; -infinity: masked out. `at` is offset() of the query.
  double bias(int64_t at, int64_t key) const;
};

}  // namespace sparkpilot
