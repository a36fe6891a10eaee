#include "ops/cpu/attention/attention_shape.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sparkpilot {
namespace {

// `columns`, for rank 3: the first column of the heads and the number of columns; empty: all columns.
HeadLayout layout_of(const Shape& shape, int64_t heads, const char* what, std::span<const int64_t> columns = {}) {
  HeadLayout l{.batch = shape[0]};
  if (shape.rank() == 4) {
    l.heads = shape[1], l.rows = shape[2], l.size = shape[3];
    l.row_step = l.size, l.head_step = l.rows * l.size;
  } else {
    int64_t width = shape[2];
    if (!columns.empty()) {
      if (columns.size() != 2 || columns[0] < 0 || columns[1] < 0 || columns[0] > width - columns[1]) {
        fail("{} of width {} does not hold the columns that are asked for", what, width);
      }
      l.first = columns[0];
      width = columns[1];
    }
    if (heads < 1 || width % heads != 0) fail("{} of width {} does not hold {} heads", what, width, heads);
    l.heads = heads, l.rows = shape[1], l.size = width / heads;
    l.row_step = shape[2], l.head_step = l.size;
  }
  l.batch_step = shape.elements(1, shape.rank());
  return l;
}

HeadLayout past_layout(const Shape* shape, const HeadLayout& now, const char* what) {
  if (!shape) return {.batch = now.batch, .heads = now.heads, .rows = 0, .size = now.size};
  if (shape->rank() != 4 || (*shape)[0] != now.batch || (*shape)[1] != now.heads || (*shape)[3] != now.size) {
    fail("{} has shape {}, expected [{},{},past,{}]", what, shape->str(), now.batch, now.heads, now.size);
  }
  return layout_of(*shape, 0, what);
}

int64_t window(const Attributes& attrs, const char* key) {
  const int64_t size = attrs.integer(key, -1);
  if (size < -1) fail("{} is {}, expected at least -1", key, size);
  return std::min(size, Shape::kMaxElements);
}

void check_heads(const AttentionShape& a) {
  if (a.k.batch != a.q.batch || a.v.batch != a.q.batch) {
    fail("batch sizes {}, {} and {} differ", a.q.batch, a.k.batch, a.v.batch);
  }
  if (a.k.size != a.q.size) fail("queries have size {}, keys {}", a.q.size, a.k.size);
  if (a.k.rows != a.v.rows) fail("{} keys and {} values", a.k.rows, a.v.rows);
  if (a.k.heads != a.v.heads) fail("{} heads of keys and {} of values", a.k.heads, a.v.heads);
  if (a.k.heads < 1 || a.q.heads % a.k.heads != 0) {
    fail("{} query heads do not share {} heads of keys evenly", a.q.heads, a.k.heads);
  }
}

void check_mask(const Shape& mask, const AttentionShape& a) {
  const int64_t limits[] = {a.q.batch, a.q.heads, a.q.rows};
  bool fits = mask.rank() >= 1 && mask.rank() <= 4 && mask[mask.rank() - 1] <= a.total;
  for (int i = 0; fits && i < mask.rank() - 1; ++i) {
    fits = mask[i] == 1 || mask[i] == limits[4 - mask.rank() + i];
  }
  if (!fits) {
    fail("mask {} does not broadcast to [{},{},{},{}]", mask.str(), a.q.batch, a.q.heads, a.q.rows, a.total);
  }
}

}  // namespace

AttentionShape attention_shape(const AttentionInputs& inputs, const Attributes& attrs) {
  const Shape &q = *inputs.shape[0], &k = *inputs.shape[1], &v = *inputs.shape[2];
  for (const Shape* shape : {&q, &k, &v}) {
    if (shape->rank() != q.rank() || q.rank() < 3 || q.rank() > 4) {
      fail("queries, keys and values are {}, {} and {}, expected all of rank 3 or of rank 4", q.str(), k.str(),
           v.str());
    }
  }
  AttentionShape a;
  const int64_t q_heads = attrs.integer("q_num_heads", 0), kv_heads = attrs.integer("kv_num_heads", 0);
  a.q = layout_of(q, q_heads, "query", attrs.integers("q_columns"));
  a.k = layout_of(k, kv_heads, "key", attrs.integers("k_columns"));
  a.v = layout_of(v, kv_heads, "value", attrs.integers("v_columns"));
  check_heads(a);
  if ((inputs.shape[4] == nullptr) != (inputs.shape[5] == nullptr)) fail("past_key and past_value come together");
  a.past_k = past_layout(inputs.shape[4], a.k, "past_key");
  a.past_v = past_layout(inputs.shape[5], a.v, "past_value");
  if (a.past_k.rows != a.past_v.rows) fail("{} past keys and {} past values", a.past_k.rows, a.past_v.rows);
  a.total = a.past_k.rows + a.k.rows;
  if (inputs.shape[3]) check_mask(*inputs.shape[3], a);
  if (inputs.shape[6]) {
    if (!(*inputs.shape[6] == Shape{a.q.batch})) {
      fail("nonpad_kv_seqlen has shape {}, expected [{}]", inputs.shape[6]->str(), a.q.batch);
    }
    if (inputs.shape[4]) fail("nonpad_kv_seqlen does not go with a past");
  }
  const Shape y = q.rank() == 4 ? Shape{a.q.batch, a.q.heads, a.q.rows, a.v.size}
                                : Shape{a.q.batch, a.q.rows, Shape{a.q.heads, a.v.size}.elements()};
  a.y = layout_of(y, a.q.heads, "output");
  a.causal = attrs.integer("is_causal", 0) != 0;
  a.left = window(attrs, "left_window_size");
  a.right = window(attrs, "right_window_size");
  a.softcap = attrs.real("softcap", 0);
  a.scale = a.q.size > 0 ? 1 / std::sqrt(static_cast<double>(a.q.size)) : 1;
  if (attrs.has("scale")) a.scale = attrs.real("scale", 1);
  a.output_mode = attrs.integer("qk_matmul_output_mode", 0);
  if (a.output_mode < 0 || a.output_mode > 3) fail("qk_matmul_output_mode is {}, expected 0 to 3", a.output_mode);
  return a;
}

AttentionShape attention_shape(const Call& c) {
  AttentionInputs inputs;
  for (size_t i = 0; i < 7; ++i) inputs.shape[i] = c.has(i) ? &c.inputs[i].shape : nullptr;
  return attention_shape(inputs, c.attrs());
}

AttentionShape attention_shape(const Problem& p) {
  AttentionInputs inputs;
  for (size_t i = 0; i < 7; ++i) inputs.shape[i] = p.has(i) ? &p.inputs[i].shape : nullptr;
  return attention_shape(inputs, p.attrs());
}

KeyRange visible_keys(const AttentionShape& a, int64_t row, int64_t valid) {
  // The query's own position among the keys.
  const int64_t position = row + (valid >= 0 ? valid - a.q.rows : a.past_k.rows);
  KeyRange range{0, valid >= 0 ? valid : a.total};
  if (a.causal) range.last = std::min(range.last, position + 1);
  if (a.right >= 0) range.last = std::min(range.last, position + a.right + 1);
  if (a.left >= 0) range.first = std::max<int64_t>(0, position - a.left);
  range.first = std::min(range.first, a.total);
  range.last = std::max(range.first, range.last);
  return range;
}

int64_t valid_keys(const Call& c, const AttentionShape& a, int64_t b) {
  if (!c.has(6)) return -1;
  const int64_t valid = c.inputs[6].as<int64_t>()[b];
  if (valid < 0 || valid > a.total)
    fail("nonpad_kv_seqlen of batch entry {} is {}, there are {} keys", b, valid, a.total);
  return valid;
}

AttentionMask::AttentionMask(const Call& c, const AttentionShape& a) : length(a.total) {
  if (!c.has(3)) return;
  view = c.inputs[3];
  const Shape& shape = view.shape;
  length = shape[shape.rank() - 1];
  int64_t* steps[] = {&batch_step, &head_step, &row_step};
  int64_t step = length;
  for (int i = shape.rank() - 2; i >= 0; --i) {
    if (shape[i] != 1) *steps[4 - shape.rank() + i] = step;
    step *= shape[i];
  }
}

double AttentionMask::bias(int64_t at, int64_t key) const {
  if (!view.present()) return 0;
  if (key >= length) return -INFINITY;
  const double value = load_element(view.dtype, view.data, at + key);
  if (view.dtype != DType::boolean) return value;
  return value != 0 ? 0 : -INFINITY;
}

}  // namespace sparkpilot
