// What Attention's inputs mean: sizes, where each head's rows lie, and which keys a query sees.
#pragma once

#include <cstdint>

#include "ir/op.h"

namespace sparkpilot {

// [batch, heads, rows, size] as it lies in memory, whether the tensor has that rank or holds the heads side by side in
// its last axis ([batch, rows, heads * size]).
struct HeadLayout {
  int64_t batch = 0, heads = 0, rows = 0, size = 0;
  int64_t first = 0, batch_step = 0, head_step = 0, row_step = 0;  // in elements
  int64_t offset(int64_t b, int64_t head, int64_t row) const {
    return first + b * batch_step + head * head_step + row * row_step;
  }
};

struct AttentionShape {
  HeadLayout q, k, v;         // k and v without the past
  HeadLayout past_k, past_v;  // no rows where there is none
  HeadLayout y;
  int64_t total = 0;  // keys with the past
  double scale = 1, softcap = 0;
  int64_t output_mode = 0;  // of the fourth output
  bool causal = false;
  int64_t left = -1, right = -1;                       // window sizes, -1: unbounded
  int64_t group() const { return q.heads / k.heads; }  // query heads to a head of keys
};

// From shapes and attributes; fails (user) where they do not fit. `shape(i)` is null for an absent input.
struct AttentionInputs {
  const Shape* shape[7] = {};
};
AttentionShape attention_shape(const AttentionInputs& inputs, const Attributes& attrs);
AttentionShape attention_shape(const Call& c);
AttentionShape attention_shape(const Problem& p);

// The keys [first, last) that query `row` may see, masks aside. `valid` is the number of keys that are no padding, or
// -1 where nonpad_kv_seqlen is not given.
struct KeyRange {
  int64_t first, last;
};
KeyRange visible_keys(const AttentionShape& a, int64_t row, int64_t valid);

// nonpad_kv_seqlen of a batch entry, -1 without that input; fails (user) where it is more than there are keys.
int64_t valid_keys(const Call& c, const AttentionShape& a, int64_t b);

// attn_mask as the bias of a query's keys.
struct AttentionMask {
  ConstView view;  // absent: all zero
  int64_t batch_step = 0, head_step = 0, row_step = 0, length = 0;
  AttentionMask(const Call& c, const AttentionShape& a);
  int64_t offset(int64_t b, int64_t head, int64_t row) const {
    return b * batch_step + head * head_step + row * row_step;
  }
  // 0 or the number to add; -infinity: not seen. `at` is offset() of the query.
  double bias(int64_t at, int64_t key) const;
};

}  // namespace sparkpilot
