// Computes attention of few queries without keys and values. With k = x K and v = x V,
//   q k^T = (q K^T) x^T      and      softmax(..) v W = (softmax(..) x) (V W),
// so K is merged into the weights that make q, and V into those after the attention. The queries then attend to x
// itself, and nothing is computed for each key. The bias of the keys adds the same number to all scores of a query,
// which does not change the softmax.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/affine.h"
#include "passes/narrow.h"

namespace sparkpilot {
namespace {

// x W + bias, or a range of its columns.
struct Projection {
  ValueId x;
  int64_t depth = 0, columns = 0;
  std::vector<double> weights, bias;  // [depth, columns] and [columns]
};

std::optional<Projection> projection_of(Edit& edit, ValueId value) {
  if (!edit.known(value) || edit.shape(value).rank() != 3) return {};
  const int64_t columns = edit.shape(value)[2];
  int64_t first = 0;
  if (const NodeId split = edit.maker(value, "Split"); split.present()) {
    if (normalize_axis(edit.node(split).attrs.integer("axis", 0), 3) != 2) return {};
    for (const ValueId part : edit.node(split).outputs) {
      if (part == value) break;
      first += edit.shape(part)[2];
    }
    value = edit.node(split).inputs[0];
  }
  Projection out;
  out.columns = columns;
  out.bias.assign(static_cast<size_t>(columns), 0);
  if (const NodeId add = edit.maker(value, "Add"); add.present()) {
    const std::vector<ValueId>& operands = edit.node(add).inputs;
    const size_t constant = edit.constant(operands[0]) ? 0 : 1;
    const Tensor* tensor = edit.constant(operands[constant]);
    const auto bias = tensor ? per_channel(*tensor, edit.shape(value), 2) : std::nullopt;
    if (!bias) return {};
    for (int64_t j = 0; j < columns; ++j) out.bias[static_cast<size_t>(j)] = (*bias)[static_cast<size_t>(first + j)];
    value = operands[1 - constant];
  }
  const NodeId product = edit.maker(value, "MatMul");
  if (!product.present()) return {};
  const Tensor* weights = edit.constant(edit.node(product).inputs[1]);
  out.x = edit.node(product).inputs[0];
  if (!weights || weights->shape().rank() != 2 || weights->dtype() != DType::f32) return {};
  if (!edit.known(out.x) || edit.shape(out.x).rank() != 3) return {};
  out.depth = weights->shape()[0];
  const int64_t width = weights->shape()[1];
  for (int64_t p = 0; p < out.depth; ++p) {
    const float* row = weights->data<float>().data() + p * width + first;
    out.weights.insert(out.weights.end(), row, row + columns);
  }
  return out;
}

// Whether only `node` uses the value and the other parts of what it was split from.
bool only_for(Edit& edit, ValueId value, NodeId node) {
  const NodeId split = edit.maker(value, "Split");
  const std::vector<ValueId> parts = split.present() ? edit.node(split).outputs : std::vector<ValueId>{value};
  return std::all_of(parts.begin(), parts.end(), [&](ValueId part) { return edit.only_reader(part) == node; });
}

struct Match {
  Projection q, k, v;
  int64_t heads = 0, kv_heads = 0, batch = 0, queries = 0, keys = 0;
  NodeId behind;  // the product with `out`
  Tensor out;     // [heads * v size, columns]
  double scale = 1;
  int64_t size() const { return q.columns / heads; }
  int64_t v_size() const { return v.columns / kv_heads; }
};

std::optional<Match> match(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Attention") || node.inputs.size() != 3 || node.outputs.size() != 1) return {};
  for (const auto& [key, value] : node.attrs) {
    const bool known = key == "scale" || key == "q_num_heads" || key == "kv_num_heads";
    if (!known && !(key == "is_causal" && node.attrs.integer("is_causal") == 0)) return {};
  }
  Match m;
  m.behind = edit.only_reader(node.outputs[0]);
  if (!m.behind.present() || !is_op(edit.node(m.behind), "MatMul")) return {};
  const Tensor* out = edit.constant(edit.node(m.behind).inputs[1]);
  if (!out || out->shape().rank() != 2 || out->dtype() != DType::f32) return {};
  m.out = *out;
  auto q = projection_of(edit, node.inputs[0]), k = projection_of(edit, node.inputs[1]);
  auto v = projection_of(edit, node.inputs[2]);
  if (!q || !k || !v) return {};
  for (size_t i = 0; i < 3; ++i) {
    if (!only_for(edit, node.inputs[i], id)) return {};
  }
  m.q = std::move(*q), m.k = std::move(*k), m.v = std::move(*v);
  m.heads = node.attrs.integer("q_num_heads", 0), m.kv_heads = node.attrs.integer("kv_num_heads", 0);
  if (m.heads < 1 || m.kv_heads < 1) return {};
  const Shape queries = edit.shape(node.inputs[0]);
  m.batch = queries[0], m.queries = queries[1], m.keys = edit.shape(node.inputs[1])[1];
  m.scale =
      static_cast<double>(node.attrs.real("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(m.size())))));
  return m;
}

// Cost in multiply-adds, plus reading each weight once, which costs as much as kRead of them.
double cost(double entries, double weights) {
  constexpr double kRead = 6;
  return entries * weights + kRead * weights;
}

bool pays(const Match& m) {
  const auto f = [](int64_t n) { return static_cast<double>(n); };
  const double queries = f(m.batch * m.queries), keys = f(m.batch * m.keys), columns = f(m.out.shape()[1]);
  const double scores = queries * f(m.keys * m.heads);
  const double before = cost(queries, f(m.q.depth * m.q.columns)) + cost(keys, f(m.k.depth * m.k.columns)) +
                        cost(keys, f(m.v.depth * m.v.columns)) + cost(queries, f(m.heads * m.v_size()) * columns) +
                        scores * f(m.size() + m.v_size());
  const double after = cost(queries, f(m.q.depth * m.heads * m.k.depth)) +
                       cost(queries, f(m.heads * m.v.depth) * columns) + scores * f(m.k.depth + m.v.depth);
  return after < 0.8 * before;
}

// y[p, h * k.depth + c] = sum over i of a[p, h * size + i] * K[c, the head's i]
Tensor through_keys(const Match& m, const std::vector<double>& a, int64_t rows) {
  const int64_t size = m.size(), depth = m.k.depth, group = m.heads / m.kv_heads;
  Tensor y(DType::f32, Shape{rows, m.heads * depth});
  float* to = y.data<float>().data();
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t h = 0; h < m.heads; ++h) {
      const double* left = a.data() + p * m.q.columns + h * size;
      for (int64_t c = 0; c < depth; ++c) {
        const double* right = m.k.weights.data() + c * m.k.columns + h / group * size;
        *to++ = static_cast<float>(std::inner_product(left, left + size, right, 0.0));
      }
    }
  }
  return y;
}

// y[h * rows + c, n] = sum over i of a[c, the head's i] * out[h * size + i, n]; the rows of all heads are concatenated.
std::vector<double> through_values(const Match& m, const std::vector<double>& a, int64_t rows) {
  const int64_t size = m.v_size(), columns = m.out.shape()[1], group = m.heads / m.kv_heads;
  const float* out = m.out.data<float>().data();
  std::vector<double> y(static_cast<size_t>(m.heads * rows * columns), 0);
  for (int64_t h = 0; h < m.heads; ++h) {
    for (int64_t c = 0; c < rows; ++c) {
      double* to = y.data() + (h * rows + c) * columns;
      for (int64_t i = 0; i < size; ++i) {
        const double factor = a[static_cast<size_t>(c * m.v.columns + h / group * size + i)];
        for (int64_t n = 0; n < columns; ++n) to[n] += factor * static_cast<double>(out[(h * size + i) * columns + n]);
      }
    }
  }
  return y;
}

Tensor to_f32(const std::vector<double>& values, const Shape& shape) {
  const Tensor out(DType::f32, shape);
  std::transform(values.begin(), values.end(), out.data<float>().begin(),
                 [](double v) { return static_cast<float>(v); });
  return out;
}

ValueId with_bias(Edit& edit, NodeId like, ValueId y, Tensor bias) {
  const std::span<const float> values = bias.data<float>();
  if (std::all_of(values.begin(), values.end(), [](float b) { return b == 0; })) return y;
  return edit.make(like, "Add", {y, edit.graph().add_constant(std::move(bias))});
}

}  // namespace

bool attend_without_keys(Edit& edit, NodeId id) {
  const auto m = match(edit, id);
  if (!m || !pays(*m)) return false;
  Graph& graph = edit.graph();
  const int64_t columns = m->out.shape()[1];
  ValueId q = edit.make(id, "MatMul", {m->q.x, graph.add_constant(through_keys(*m, m->q.weights, m->q.depth))});
  q = with_bias(edit, id, q, through_keys(*m, m->q.bias, 1).reshaped(Shape{m->heads * m->k.depth}));
  const ValueId y =
      edit.make(id, "Attention", {q, m->k.x, m->v.x},
                {{"scale", static_cast<float>(m->scale)}, {"q_num_heads", m->heads}, {"kv_num_heads", int64_t{1}}});
  const Tensor out = to_f32(through_values(*m, m->v.weights, m->v.depth), Shape{m->heads * m->v.depth, columns});
  // Softmax weights of a query sum to one, so the bias of the values is added to the result unchanged.
  const std::vector<double> by_head = through_values(*m, m->v.bias, 1);
  std::vector<double> bias(static_cast<size_t>(columns), 0);
  for (size_t i = 0; i < by_head.size(); ++i) bias[i % bias.size()] += by_head[i];
  const ValueId result = edit.make(m->behind, "MatMul", {y, graph.add_constant(out)});
  edit.replace(edit.node(m->behind).outputs[0], with_bias(edit, m->behind, result, to_f32(bias, Shape{columns})));
  return true;
}

}  // namespace sparkpilot
