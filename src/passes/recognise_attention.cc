// Recognises attention written as single ops: softmax(scale * Q K^T + mask) V, with a mask that is added, or applied by
// a Where.
#include <algorithm>
#include <cmath>

#include "passes/recognise.h"

namespace sparkpilot {
namespace {

constexpr double kMinusInfinityLike = -1e9;  // a finite mask value that makes the softmax weight 0

struct Match {
  ValueId q, k_transposed, v;
  ValueId product;  // Q K^T
  double scale = 1;
  ValueId mask;         // in Attention's form: boolean (true = keep) or added; absent: no mask
  bool negate = false;  // `mask` is boolean with true = drop
  bool is_where = false;
};

// v = x * c or x / c with a constant c: x, with c multiplied into the scale.
bool peel_scale(Edit& edit, Region& region, ValueId& v, double& scale) {
  if (!edit.known(v)) return false;
  const NodeId mul = edit.maker(v, "Mul"), div = edit.maker(v, "Div");
  if (mul.present()) {
    const Node& node = edit.node(mul);
    for (const size_t i : {size_t{1}, size_t{0}}) {
      const auto c = edit.scalar(node.inputs[i]);
      if (!c || !edit.known(node.inputs[1 - i]) || !(edit.shape(node.inputs[1 - i]) == edit.shape(v))) continue;
      scale *= *c;
      v = node.inputs[1 - i];
      region.take(mul);
      return true;
    }
  }
  if (div.present()) {
    const Node& node = edit.node(div);
    const auto c = edit.scalar(node.inputs[1]);
    if (!c || *c == 0 || !edit.known(node.inputs[0]) || !(edit.shape(node.inputs[0]) == edit.shape(v))) return false;
    scale /= *c;
    v = node.inputs[0];
    region.take(div);
    return true;
  }
  return false;
}

bool is_masked_value(Edit& edit, ValueId v) {
  const auto c = edit.scalar(v);
  if (!c) return false;
  return *c <= kMinusInfinityLike || (edit.dtype(v) == DType::f16 && *c == -65504);
}

// Matches Q K^T with its scales, from the value that goes into the softmax or the mask.
bool match_scores(Edit& edit, Region& region, ValueId v, Match& m) {
  while (peel_scale(edit, region, v, m.scale)) {
  }
  const Node* product = region.take(v, "MatMul");
  if (!product) return false;
  m.product = v;
  m.q = product->inputs[0];
  m.k_transposed = product->inputs[1];
  return true;
}

bool match_masked(Edit& edit, Region& region, ValueId v, Match& m) {
  const size_t mark = region.mark();
  if (match_scores(edit, region, v, m)) return true;
  region.back_to(mark);
  m.scale = 1;
  if (const Node* where = region.take(v, "Where")) {
    const bool drop = is_masked_value(edit, where->inputs[1]);
    if (!drop && !is_masked_value(edit, where->inputs[2])) return false;
    const ValueId fill = where->inputs[drop ? 1 : 2];
    // With a finite fill, a row where everything is dropped is uniform, not undefined: only a constant mask can exclude
    // that.
    if (std::isfinite(*edit.scalar(fill)) && !edit.constant(where->inputs[0])) return false;
    m.mask = where->inputs[0];
    m.negate = drop;
    m.is_where = true;
    return match_scores(edit, region, where->inputs[drop ? 2 : 1], m);
  }
  const NodeId add = edit.maker(v, "Add");
  if (!add.present()) return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    region.back_to(mark);
    region.take(add);
    m.scale = 1;
    m.mask = edit.node(add).inputs[1 - i];
    if (match_scores(edit, region, edit.node(add).inputs[i], m)) return true;
  }
  return false;
}

// The mask as rows of keep or drop, if it is constant, contains only these two and is the same for all heads.
std::optional<std::vector<bool>> keep_table(Edit& edit, const Match& m, int64_t rows, int64_t columns) {
  const Tensor* mask = edit.constant(m.mask);
  if (!mask || mask->elements() != rows * columns) return {};
  const Shape& shape = mask->shape();
  const bool of_rows = shape.rank() > 1 && shape[shape.rank() - 2] == rows;
  if (shape.rank() < 1 || shape[shape.rank() - 1] != columns || (rows > 1 && !of_rows)) return {};
  std::vector<bool> keep;
  for (int64_t i = 0; i < mask->elements(); ++i) {
    const double value = load_element(mask->dtype(), mask->raw(), i);
    if (mask->dtype() == DType::boolean) keep.push_back((value != 0) != m.negate);
    else if (value == 0) keep.push_back(true);
    else if (value <= kMinusInfinityLike) keep.push_back(false);
    else return {};
  }
  return keep;
}

bool any_row_empty(const std::vector<bool>& keep, int64_t columns) {
  for (size_t row = 0; row < keep.size(); row += static_cast<size_t>(columns)) {
    const auto first = keep.begin() + static_cast<std::ptrdiff_t>(row);
    if (std::find(first, first + columns, true) == first + columns) return true;
  }
  return false;
}

bool is_causal(const std::vector<bool>& keep, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (keep[static_cast<size_t>(i * columns + j)] != (j <= i)) return false;
    }
  }
  return rows == columns;
}

// Whether the mask broadcasts to scores [batch, heads, rows, columns] without enlarging them, and has the whole last
// axis.
bool mask_fits(const Shape& mask, const Shape& scores) {
  if (mask.rank() > scores.rank() || mask.rank() < 1 || mask[mask.rank() - 1] != scores[scores.rank() - 1])
    return false;
  for (int i = 0; i < mask.rank(); ++i) {
    if (mask[i] != 1 && mask[i] != scores[scores.rank() - mask.rank() + i]) return false;
  }
  return true;
}

// [..., S, D] as [B, H, S, D]: missing axes are 1 (three axes are batch, S, D).
Shape four_axes(const Shape& shape) {
  const int rank = shape.rank();
  return {rank > 2 ? shape[0] : 1, rank > 3 ? shape[1] : 1, shape[rank - 2], shape[rank - 1]};
}

// K from K^T: removes the final swap of axes from a Transpose, so that only the rest of the permutation remains.
ValueId untransposed(Edit& edit, NodeId like, ValueId k) {
  const int rank = edit.shape(k).rank();
  std::vector<int> perm;
  const NodeId transpose = edit.maker(k, "Transpose");
  if (transpose.present()) {
    perm = permutation_of(edit.node(transpose), rank);
    k = edit.node(transpose).inputs[0];
  } else {
    for (int i = 0; i < rank; ++i) perm.push_back(i);
  }
  std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
  return edit.transpose(like, k, perm);
}

bool shapes_fit(Edit& edit, const Match& m, ValueId scores) {
  if (!edit.known(m.q) || !edit.known(m.k_transposed) || !edit.known(m.v) || !edit.known(scores)) return false;
  const Shape q = edit.shape(m.q), k = edit.shape(m.k_transposed), v = edit.shape(m.v), s = edit.shape(scores);
  const int rank = q.rank();
  if (!edit.known(m.product) || !(edit.shape(m.product) == s)) return false;  // enlarged by the mask
  if (rank < 2 || rank > 4 || k.rank() != rank || v.rank() != rank || q.elements() == 0 || v.elements() == 0)
    return false;
  for (int i = 0; i < rank - 2; ++i) {
    if (k[i] != q[i] || v[i] != q[i]) return false;
  }
  return q[rank - 1] == k[rank - 2] && k[rank - 1] == v[rank - 2] && s.rank() == rank && s[rank - 1] == k[rank - 1];
}

// Reshape and Transpose that split off heads at the inputs and join them at the output are what Attention does itself
// on [batch, rows, heads * size].
bool swaps_heads(const Node& transpose) { return permutation_of(transpose, 4) == std::vector<int>{0, 2, 1, 3}; }

bool splits_heads(Edit& edit, ValueId heads) {
  const NodeId transpose = edit.maker(heads, "Transpose");
  return transpose.present() && swaps_heads(edit.node(transpose));
}

ValueId packed(Edit& edit, NodeId like, ValueId heads) {
  const Shape s = edit.shape(heads);
  return edit.reshape(like, edit.node(edit.maker(heads)).inputs[0], Shape{s[0], s[2], s[1] * s[3]});
}

}  // namespace

bool pack_attention(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
  if (!edit.known(node.outputs[0]) || edit.shape(node.outputs[0]).rank() != 4) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (!splits_heads(edit, node.inputs[i])) return false;
  }
  const NodeId merge = edit.only_reader(node.outputs[0]);
  if (!merge.present() || !is_op(edit.node(merge), "Transpose")) return false;
  if (!swaps_heads(edit.node(merge))) return false;
  std::vector<ValueId> inputs = node.inputs;
  for (size_t i = 0; i < 3; ++i) inputs[i] = packed(edit, id, node.inputs[i]);
  Attributes attrs = node.attrs;
  attrs.set("q_num_heads", edit.shape(node.inputs[0])[1]);
  attrs.set("kv_num_heads", edit.shape(node.inputs[1])[1]);
  const ValueId result = edit.make(id, "Attention", inputs, attrs);
  ValueId y = edit.node(merge).outputs[0];
  const NodeId flat = edit.only_reader(y);
  if (flat.present() && is_op(edit.node(flat), "Reshape") && edit.known(edit.node(flat).outputs[0])) {
    y = edit.node(flat).outputs[0];
  }
  edit.replace(y, edit.reshape(id, result, edit.shape(y)));
  return true;
}

bool unstack_heads(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Transpose") || !edit.known(node.inputs[0]) || edit.shape(node.inputs[0]).rank() != 5) return false;
  if (permutation_of(node, 5) != std::vector<int>{2, 0, 3, 1, 4}) return false;
  const Shape stacked = edit.shape(node.inputs[0]);  // batch, rows, parts, heads, size
  const int64_t batch = stacked[0], rows = stacked[1], parts = stacked[2], heads = stacked[3], size = stacked[4];
  const NodeId split = edit.only_reader(node.outputs[0]);
  if (!split.present() || !is_op(edit.node(split), "Split")) return false;
  const std::vector<ValueId> outputs = edit.node(split).outputs;
  if (normalize_axis(edit.node(split).attrs.integer("axis", 0), 5) != 0) return false;
  if (static_cast<int64_t>(outputs.size()) != parts || parts < 2) return false;
  for (const ValueId output : outputs) {
    if (!edit.known(output) || edit.shape(output)[0] != 1) return false;
  }
  const ValueId flat = edit.reshape(id, node.inputs[0], Shape{batch, rows, parts * heads * size});
  Builder builder(edit.graph(), edit.node(split).name);
  const std::vector<int64_t> sizes(static_cast<size_t>(parts), heads * size);
  const std::vector<ValueId> made =
      builder.add_many("Split", {flat, builder.ints(sizes)}, {{"axis", int64_t{2}}}, static_cast<int>(parts));
  constexpr int kSwapped[] = {0, 2, 1, 3};
  for (size_t i = 0; i < made.size(); ++i) {
    const ValueId part = edit.transpose(id, edit.reshape(id, made[i], Shape{batch, rows, heads, size}), kSwapped);
    // Replaces the Squeeze too, so that later patterns find the Transpose directly.
    const NodeId view = edit.only_reader(outputs[i]);
    const bool squeezed = view.present() && edit.node(view).op->traits.view && edit.known(edit.node(view).outputs[0]) &&
                          edit.shape(edit.node(view).outputs[0]) == edit.shape(part);
    if (squeezed) edit.replace(edit.node(view).outputs[0], part);
    else edit.replace(outputs[i], edit.reshape(id, part, edit.shape(outputs[i])));
  }
  return true;
}

bool recognise_attention(Edit& edit, NodeId id) {
  if (!is_op(edit.node(id), "Softmax")) return false;
  const ValueId weights = edit.node(id).outputs[0], scores = edit.node(id).inputs[0];
  const NodeId last = edit.only_reader(weights);
  if (!last.present() || !is_op(edit.node(last), "MatMul") || edit.node(last).inputs[0] != weights) return false;
  Region region(edit);
  region.take(id);
  region.take(last);
  Match m;
  m.v = edit.node(last).inputs[1];
  if (!edit.known(scores) || !match_masked(edit, region, scores, m) || !shapes_fit(edit, m, scores)) return false;
  const Shape s = edit.shape(scores);
  if (normalize_axis(edit.node(id).attrs.integer("axis", -1), s.rank()) != s.rank() - 1) return false;
  const ValueId y = edit.node(last).outputs[0];
  if (!region.closed(y)) return false;
  // Scales may also be on Q and K before the product; those may have other readers.
  Region outside(edit);
  while (peel_scale(edit, outside, m.q, m.scale)) {
  }
  while (peel_scale(edit, outside, m.k_transposed, m.scale)) {
  }
  if (!(m.scale > 0) || !std::isfinite(m.scale)) return false;

  const int64_t rows = s[s.rank() - 2], columns = s[s.rank() - 1];
  Attributes attrs{{"scale", static_cast<float>(m.scale)}};
  if (m.mask.present()) {
    if (!edit.known(m.mask) || !mask_fits(edit.shape(m.mask), s)) return false;
    const auto keep = keep_table(edit, m, rows, columns);
    if (m.is_where && (!keep || any_row_empty(*keep, columns)) && edit.constant(m.mask)) return false;
    if (keep && is_causal(*keep, rows, columns)) {
      attrs.set("is_causal", int64_t{1});
      m.mask = ValueId{};
    }
  }
  const auto four = [&](ValueId v) { return edit.reshape(last, v, four_axes(edit.shape(v))); };
  std::vector<ValueId> inputs{four(m.q), four(untransposed(edit, last, m.k_transposed)), four(m.v)};
  if (m.mask.present()) {
    ValueId mask = m.negate ? edit.make(last, "Not", {m.mask}) : m.mask;
    const Shape shape = edit.shape(mask);
    std::vector<int64_t> dims(shape.begin(), shape.end());
    if (s.rank() == 3 && shape.rank() == 3) dims.insert(dims.begin() + 1, 1);  // batch, rows, columns
    while (dims.size() < 4) dims.insert(dims.begin(), 1);
    inputs.push_back(edit.reshape(last, mask, Shape(std::span<const int64_t>(dims))));
  }
  const ValueId result = edit.make(last, "Attention", inputs, attrs);
  edit.replace(y, edit.reshape(last, result, edit.shape(y)));
  return true;
}

}  // namespace sparkpilot
