#include "passes/affine.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot {
namespace {

std::vector<double> doubles(const Tensor& tensor) {
  std::vector<double> out(static_cast<size_t>(tensor.elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = load_element(tensor.dtype(), tensor.raw(), static_cast<int64_t>(i));
  return out;
}

// Reads the bias of a Gemm as one value per column.
bool read_gemm_bias(Edit& edit, const Node& node, Linear& linear) {
  if (node.inputs.size() < 3 || !node.inputs[2].present()) return true;
  const Tensor* tensor = edit.constant(node.inputs[2]);
  const auto bias = tensor ? per_channel(*tensor, edit.shape(node.outputs[0]), 1) : std::nullopt;
  if (!bias) return false;
  linear.bias = *bias;
  for (double& b : linear.bias) b *= static_cast<double>(node.attrs.real("beta", 1));
  return true;
}

bool read_matrix(Edit& edit, const Node& node, Linear& linear) {
  const int rank = edit.shape(node.outputs[0]).rank();
  if (linear.weights.shape().rank() != 2 || rank < 1 || edit.shape(node.inputs[0]).rank() != rank) return false;
  linear.transposed = linear.kind == Linear::gemm && node.attrs.integer("transB", 0) != 0;
  linear.in_channels = linear.weights.shape()[linear.transposed ? 1 : 0];
  linear.out_channels = linear.weights.shape()[linear.transposed ? 0 : 1];
  linear.in_axis = linear.out_axis = rank - 1;
  if (linear.kind == Linear::matmul) return true;
  if (node.attrs.integer("transA", 0) != 0) linear.in_axis = -1;
  linear.alpha = static_cast<double>(node.attrs.real("alpha", 1));
  return read_gemm_bias(edit, node, linear);
}

bool read_convolution(Edit& edit, const Node& node, Linear& linear) {
  const Shape& shape = linear.weights.shape();
  linear.groups = node.attrs.integer("group", 1);
  if (shape.rank() < 3 || linear.groups < 1) return false;
  const bool forward = linear.kind == Linear::conv;
  linear.in_channels = forward ? shape[1] * linear.groups : shape[0];
  linear.out_channels = forward ? shape[0] : shape[1] * linear.groups;
  if (linear.in_channels % linear.groups != 0 || linear.out_channels % linear.groups != 0) return false;
  const std::string automatic = node.attrs.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.attrs.integers("pads");
  linear.padded = forward && automatic != "VALID" &&
                  (automatic != "NOTSET" || std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }));
  // Outputs at the edges of a transposed convolution are sums of fewer inputs, so a constant added to the input is not
  // a constant added to the output there.
  if (!forward) linear.padded = true;
  if (node.inputs.size() < 3 || !node.inputs[2].present()) return true;
  const Tensor* bias = edit.constant(node.inputs[2]);
  if (bias) linear.bias = doubles(*bias);
  return bias != nullptr;
}

}  // namespace

std::optional<std::vector<double>> per_channel(const Tensor& tensor, const Shape& like, int axis) {
  const Shape& shape = tensor.shape();
  if (shape.rank() > like.rank()) return {};
  for (int i = 0; i < shape.rank(); ++i) {
    const int at = i + like.rank() - shape.rank();
    if (shape[i] != 1 && (at != axis || shape[i] != like[axis])) return {};
  }
  std::vector<double> values = doubles(tensor);
  if (values.size() == 1) values.resize(static_cast<size_t>(like[axis]), values[0]);
  return values;
}

std::optional<Affine> affine_of(Edit& edit, NodeId id, int axis) {
  const Node& node = edit.node(id);
  if (!edit.known(node.outputs[0]) || !is_float(edit.dtype(node.outputs[0]))) return {};
  const bool add = is_op(node, "Add"), sub = is_op(node, "Sub"), mul = is_op(node, "Mul"), div = is_op(node, "Div");
  if (!add && !sub && !mul && !div) return {};
  const bool second = edit.constant(node.inputs[1]) != nullptr;
  if (!second && div) return {};
  const Tensor* tensor = edit.constant(node.inputs[second ? 1 : 0]);
  const ValueId x = node.inputs[second ? 0 : 1];
  const Shape shape = edit.shape(node.outputs[0]);
  if (!tensor || !edit.known(x) || !(edit.shape(x) == shape) || axis < 0 || axis >= shape.rank()) return {};
  const auto values = per_channel(*tensor, shape, axis);
  if (!values) return {};
  Affine out{x, std::vector<double>(values->size(), 1.0), std::vector<double>(values->size(), 0.0)};
  for (size_t c = 0; c < values->size(); ++c) {
    const double v = (*values)[c];
    if (mul) out.scale[c] = v;
    else if (div) out.scale[c] = 1 / v;
    else if (add) out.shift[c] = v;
    else out.shift[c] = second ? -v : v;
    if (sub && !second) out.scale[c] = -1;
    if (!std::isfinite(out.scale[c]) || !std::isfinite(out.shift[c])) return {};
  }
  return out;
}

std::optional<Linear> linear_of(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  Linear linear;
  linear.node = id;
  if (is_op(node, "Conv")) linear.kind = Linear::conv;
  else if (is_op(node, "ConvTranspose")) linear.kind = Linear::conv_transpose;
  else if (is_op(node, "Gemm")) linear.kind = Linear::gemm;
  else if (is_op(node, "MatMul")) linear.kind = Linear::matmul;
  else return {};
  const Tensor* weights = edit.constant(node.inputs[1]);
  if (!weights || weights->dtype() != DType::f32 || weights->elements() == 0) return {};
  if (edit.readers(node.inputs[1]).size() != 1 || edit.leaves_graph(node.inputs[1])) return {};
  if (!edit.known(node.inputs[0]) || !edit.known(node.outputs[0])) return {};
  linear.weights = *weights;
  const bool matrix = linear.kind == Linear::gemm || linear.kind == Linear::matmul;
  if (!(matrix ? read_matrix(edit, node, linear) : read_convolution(edit, node, linear))) return {};
  return linear;
}

NodeId rewrite(Edit& edit, const Linear& linear, ValueId x, ValueId result) {
  Graph& graph = edit.graph();
  const Node node = edit.node(linear.node);
  Tensor bias(DType::f32, Shape{linear.out_channels});
  const bool biased = std::any_of(linear.bias.begin(), linear.bias.end(), [](double b) { return b != 0; });
  for (size_t c = 0; biased && c < linear.bias.size(); ++c) bias.data<float>()[c] = static_cast<float>(linear.bias[c]);
  std::vector<ValueId> inputs{x, graph.add_constant(linear.weights, graph.value(node.inputs[1]).name)};
  const bool separate = linear.kind == Linear::matmul;
  const ValueId bias_id = biased ? graph.add_constant(bias) : ValueId{};
  if (biased && !separate) inputs.push_back(bias_id);
  Attributes attrs = node.attrs;
  if (attrs.has("beta")) attrs.set("beta", 1.0f);
  ValueId y = edit.make(linear.node, node.op->name, inputs, attrs);
  const NodeId made = edit.maker(y);
  if (biased && separate) y = edit.make(linear.node, "Add", {y, bias_id});
  graph.value(node.inputs[1]).constant = Tensor();  // released now: the pass may rewrite every weight of a model
  edit.replace(result, y);
  return made;
}

}  // namespace sparkpilot
