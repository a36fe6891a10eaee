// Folds the gain and the shift of a normalisation, and the scale of an attention, into the constant products next to
// them:
//   (n(x) g + s) W = n(x) (g W) + s W      and      scale * q k^T = (x (scale W)) k^T where q = x W.
#include <algorithm>
#include <cmath>

#include "passes/affine.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

bool all_are(const std::vector<double>& values, double value) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == value; });
}

// A constant operand of the normalisation as one value for each element of the last axis; empty if it is not finite.
std::optional<std::vector<double>> operand(Edit& edit, const Node& node, size_t input, double absent) {
  const Shape& shape = edit.shape(node.inputs[0]);
  const int last = shape.rank() - 1;
  if (node.inputs.size() <= input || !node.inputs[input].present())
    return std::vector<double>(static_cast<size_t>(shape[last]), absent);
  const Tensor* tensor = edit.constant(node.inputs[input]);
  if (!tensor || tensor->dtype() != DType::f32) return {};
  auto values = per_channel(*tensor, shape, last);
  const bool finite = values && std::all_of(values->begin(), values->end(), [](double v) { return std::isfinite(v); });
  return finite ? values : std::nullopt;
}

// The Add of a constant by channel that is the only reader of a product; empty if there is none.
struct Bias {
  NodeId add;
  std::vector<double> values;
};
std::optional<Bias> bias_behind(Edit& edit, const Linear& linear) {
  const ValueId y = edit.node(linear.node).outputs[0];
  const NodeId add = edit.only_reader(y);
  if (!add.present() || !is_op(edit.node(add), "Add")) return {};
  const auto affine = affine_of(edit, add, linear.out_axis);
  if (!affine || affine->x != y || static_cast<int64_t>(affine->shift.size()) != linear.out_channels) return {};
  return Bias{add, affine->shift};
}

void set_bias(Edit& edit, const Bias& bias) {
  Tensor tensor(DType::f32, Shape{static_cast<int64_t>(bias.values.size())});
  std::transform(bias.values.begin(), bias.values.end(), tensor.data<float>().begin(),
                 [](double v) { return static_cast<float>(v); });
  const size_t at = edit.constant(edit.node(bias.add).inputs[1]) ? 1 : 0;
  edit.forget_name(edit.node(bias.add).inputs[1 - at]);
  edit.set_input(bias.add, at, edit.graph().add_constant(tensor));
}

// --- normalisations
void take_gain(Edit& edit, Linear& linear, const std::vector<double>& scale, const std::vector<double>& shift) {
  std::vector<double> added(static_cast<size_t>(linear.out_channels), 0.0);
  linear.weights = linear.weights.clone();
  linear.for_weights([&](float& w, int64_t in, int64_t out) {
    const auto i = static_cast<size_t>(in);
    added[static_cast<size_t>(out)] += linear.alpha * static_cast<double>(w) * shift[i];
    w = static_cast<float>(static_cast<double>(w) * scale[i]);
  });
  auto bias = linear.kind == Linear::matmul && !all_are(added, 0) ? bias_behind(edit, linear) : std::nullopt;
  std::vector<double>& to = bias ? bias->values : linear.bias;
  to.resize(added.size(), 0.0);
  std::transform(to.begin(), to.end(), added.begin(), to.begin(), std::plus<>());
  if (bias) set_bias(edit, *bias);
  rewrite(edit, linear, edit.node(linear.node).inputs[0], edit.node(linear.node).outputs[0]);
}

bool fold_norm(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  const bool layer = is_op(node, "LayerNormalization");
  if ((!layer && !is_op(node, "RMSNormalization")) || node.outputs.size() != 1 || !edit.known(node.inputs[0]))
    return false;
  const ValueId y = node.outputs[0];
  const int rank = edit.shape(node.inputs[0]).rank();
  if (edit.dtype(y) != DType::f32 || normalize_axis(node.attrs.integer("axis", -1), rank) != rank - 1) return false;
  const auto scale = operand(edit, node, 1, 1), shift = operand(edit, node, 2, 0);
  if (!scale || !shift || (all_are(*scale, 1) && all_are(*shift, 0))) return false;
  std::vector<NodeId> readers = edit.readers(y);
  if (readers.empty() || edit.leaves_graph(y)) return false;
  std::vector<Linear> products;
  for (const NodeId reader : readers) {
    const auto linear = linear_of(edit, reader);
    if (!linear || linear->in_axis != rank - 1 || edit.node(reader).inputs[0] != y) return false;
    if (linear->in_channels != static_cast<int64_t>(scale->size())) return false;
    products.push_back(*linear);
  }
  edit.forget_name(y);
  Tensor ones(DType::f32, Shape{static_cast<int64_t>(scale->size())});
  std::fill(ones.data<float>().begin(), ones.data<float>().end(), 1.0f);
  edit.replace(y, edit.remake(id, {node.inputs[0], edit.graph().add_constant(ones)}, node.attrs));
  for (Linear& linear : products) take_gain(edit, linear, *scale, *shift);
  return true;
}

// --- attention
// A product with constant weights. Its `count` channels from `first` on are the queries of one attention and have no
// other use.
struct Queries {
  Linear product;
  std::optional<Bias> bias;
  int64_t first = 0, count = 0;
};

std::optional<Queries> queries_of(Edit& edit, NodeId attention) {
  ValueId value = edit.node(attention).inputs[0];
  if (!edit.known(value) || edit.shape(value).rank() != 3) return {};
  if (edit.only_reader(value) != attention || edit.readers(value).size() != 1) return {};
  Queries out;
  out.count = edit.shape(value)[2];
  if (const NodeId split = edit.maker(value, "Split"); split.present()) {
    const Node& node = edit.node(split);
    if (normalize_axis(node.attrs.integer("axis", 0), 3) != 2) return {};
    for (const ValueId part : node.outputs) {
      if (part == value) break;
      out.first += edit.shape(part)[2];
    }
    value = node.inputs[0];
    if (edit.only_reader(value) != split) return {};
  }
  if (const NodeId add = edit.maker(value, "Add"); add.present()) {
    const std::vector<ValueId>& operands = edit.node(add).inputs;
    value = operands[edit.constant(operands[0]) ? 1 : 0];
    out.bias.emplace();
    out.bias->add = add;
  }
  const NodeId maker = edit.maker(value);
  const auto linear = maker.present() ? linear_of(edit, maker) : std::nullopt;
  if (!linear || (linear->kind != Linear::matmul && linear->kind != Linear::gemm)) return {};
  out.product = *linear;
  if (out.bias) {
    auto bias = bias_behind(edit, *linear);
    if (!bias || bias->add != out.bias->add) return {};
    out.bias = bias;
  }
  return out;
}

bool fold_scale(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Attention") || node.outputs.size() != 1) return false;
  auto q = queries_of(edit, id);
  const int64_t heads = node.attrs.integer("q_num_heads", 0);
  if (!q || heads < 1 || node.attrs.integer("qk_matmul_output_mode", 0) != 0) return false;
  const double size = static_cast<double>(q->count) / static_cast<double>(heads);
  const double scale = static_cast<double>(node.attrs.real("scale", static_cast<float>(1 / std::sqrt(size))));
  if (scale == 1 || !std::isfinite(scale)) return false;
  const auto asked = [&](size_t channel) {
    const auto at = static_cast<int64_t>(channel);
    return at >= q->first && at < q->first + q->count;
  };
  Linear& linear = q->product;
  edit.forget_name(node.inputs[0]);
  edit.forget_name(edit.node(linear.node).outputs[0]);
  if (q->bias) edit.forget_name(edit.node(q->bias->add).outputs[0]);
  linear.weights = linear.weights.clone();
  linear.for_weights([&](float& w, int64_t, int64_t out) {
    if (asked(static_cast<size_t>(out))) w = static_cast<float>(static_cast<double>(w) * scale);
  });
  std::vector<double>& bias = q->bias ? q->bias->values : linear.bias;
  for (size_t c = 0; c < bias.size(); ++c) bias[c] *= asked(c) ? scale : 1;
  Attributes attrs = node.attrs;
  attrs.set("scale", 1.0f);
  if (q->bias) set_bias(edit, *q->bias);
  rewrite(edit, linear, edit.node(linear.node).inputs[0], edit.node(linear.node).outputs[0]);
  edit.replace(node.outputs[0], edit.remake(id, edit.node(id).inputs, attrs));
  return true;
}

}  // namespace

int fold_gain(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += fold_norm(edit, id);
    if (!graph.erased(id)) changes += fold_scale(edit, id);
  }
  graph.compact();
  return changes;
}

}  // namespace sparkpilot
