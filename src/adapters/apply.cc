#include "adapters/apply.h"

#include <map>
#include <optional>
#include <utility>

#include "adapters/merge.h"
#include "base/error.h"
#include "passes/edit.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace {

// The tensors of one layer's adapter in the graph; shared by all nodes of the layer.
struct Parts {
  ValueId a, b;
  Tensor weights = {};  // of the base, f32 [out, in]
  ValueId gain = {};    // m / |V|, [out]; absent for LoRA
  float scale = 1;
};

// The nodes of each layer in a graph whose layers were named; fails (user) if a pass has replaced one.
std::vector<std::vector<NodeId>> nodes_of(const Graph& graph, const std::vector<Layer>& layers) {
  std::map<std::string_view, std::vector<NodeId>> named;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_op(node, "Conv") || is_op(node, "Gemm") || is_op(node, "MatMul")) named[node.name].push_back(id);
  }
  std::vector<std::vector<NodeId>> out;
  for (const Layer& layer : layers) {
    const auto at = named.find(layer.path);
    if (at == named.end()) fail("the layer \"{}\" is no longer a separate node after the passes", layer.path);
    out.push_back(at->second);
  }
  return out;
}

// Whether the node's weights are [in, out].
bool is_transposed(const Node& node, const Layer& layer) { return !layer.conv && node.attrs.integer("transB", 0) == 0; }

// The weights as the graph has them now, f32 [out, in].
Tensor frozen_weights(const Graph& graph, NodeId id, const Layer& layer) {
  const Node& node = graph.node(id);
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (!weights || weights->dtype() != DType::f32) fail("the weights of \"{}\" are not constant f32", layer.path);
  return is_transposed(node, layer) ? transposed(*weights) : weights->reshaped(Shape{layer.out(), layer.in()});
}

class Application {
 public:
  Application(Graph& graph, const Adapter& adapter, const std::vector<Layer>& layers, AdapterForm form, double times)
      : graph_(graph), adapter_(adapter), layers_(layers), form_(form), times_(times) {}

  AppliedAdapter run() {
    const std::vector<std::vector<NodeId>> nodes = nodes_of(graph_, layers_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Parts parts = add_tensors(i, nodes[i][0]);
      if (changes_weights(i, nodes[i])) {
        change_weights(i, nodes[i], parts);
        continue;
      }
      for (const NodeId id : nodes[i]) {
        if (layers_[i].conv) change_conv(id, i, parts);
        else change_product(id, i, parts);
      }
    }
    return std::move(out_);
  }

 private:
  Parts add_tensors(size_t i, NodeId node) {
    const AdapterLayer& mine = adapter_.layers[i];
    const Layer& layer = layers_[i];
    Builder b(graph_, mine.path);
    const auto parameter = [&](const Tensor& tensor, std::string_view end, bool decay) {
      std::string name = adapter_parameter_name(mine.path, end);
      const ValueId value = b.constant(tensor, name);
      out_.parameters.push_back({std::move(name), value, decay});
      return value;
    };
    Parts parts{.a = parameter(mine.a, kLoraA, true), .b = parameter(mine.b, kLoraB, true)};
    parts.scale = static_cast<float>(adapter_.scale(mine));
    parts.weights = frozen_weights(graph_, node, layer);
    if (adapter_.kind != AdapterKind::dora) return parts;
    const ValueId magnitude = parameter(mine.magnitude, kLoraMagnitude, false);
    AdapterNorm norm{.name = mine.path + ".norm",
                     .value = {},
                     .a = graph_.value(parts.a).name,
                     .b = graph_.value(parts.b).name,
                     .weights = parts.weights,
                     .groups = layer.groups,
                     .scale = adapter_.scale(mine)};
    norm.value = b.constant(norm_of(norm.weights, layer, adapter_, mine), norm.name);
    const ValueId flat = magnitude_as(b, magnitude, Shape{layer.out()});
    parts.gain = b.add("Div", {flat, norm.value}, {}, "gain");
    out_.norms.push_back(std::move(norm));
    return parts;
  }

  // Multiply-adds of a step besides those of the base forwards and backwards to its inputs. Each of the branches'
  // products is made three times; the weights' form takes the gradient of the weights, and three small products.
  bool changes_weights(size_t i, const std::vector<NodeId>& nodes) const {
    if (form_ == AdapterForm::branches) return false;
    const Layer& layer = layers_[i];
    const int64_t rank = adapter_.layers[i].rank() / layer.groups, in = layer.in(), out = layer.out();
    double samples = 0;  // results of each output
    for (const NodeId id : nodes) {
      const Node& node = graph_.node(id);
      const std::optional<Shape>& shape = graph_.value(node.outputs[0]).shape;
      if (!shape || node.attrs.real("alpha", 1) != 1) return false;
      samples += times_ * static_cast<double>(shape->elements()) / static_cast<double>(out);
    }
    if (form_ == AdapterForm::weights) return true;
    const double whole = static_cast<double>(out * in);
    const double branches = 3 * samples * static_cast<double>(rank * (layer.groups * in + out));
    return samples * whole + 3 * static_cast<double>(rank) * whole < branches;
  }

  // g (W + s A B) in place of the weights.
  void change_weights(size_t i, const std::vector<NodeId>& nodes, const Parts& parts) {
    const Layer& layer = layers_[i];
    const int64_t out = layer.out(), in = layer.in(), groups = layer.groups;
    const int64_t rank = adapter_.layers[i].rank() / groups;
    Builder b(graph_, layer.path);
    const auto shaped = [&](ValueId x, const Shape& shape) { return b.add("Reshape", {x, b.ints(shape.dims())}); };
    const Shape grouped = groups == 1 ? Shape{out, rank} : Shape{groups, out / groups, rank};
    const ValueId rows = shaped(parts.a, groups == 1 ? Shape{rank, in} : Shape{groups, rank, in});
    const ValueId product = b.add("MatMul", {shaped(parts.b, grouped), rows}, {}, "lora_product");
    const ValueId step = scaled(b, groups == 1 ? product : shaped(product, Shape{out, in}), parts);
    ValueId changed = b.add("Add", {b.constant(parts.weights), step}, {}, "changed");
    if (parts.gain.present()) changed = b.add("Mul", {changed, shaped(parts.gain, Shape{out, 1})}, {}, "scaled");
    std::map<bool, ValueId> as;  // by is_transposed()
    for (const NodeId id : nodes) {
      const bool turned = is_transposed(graph_.node(id), layer);
      if (!as.contains(turned)) {
        as[turned] = turned ? b.add("Transpose", {changed}, {{"perm", std::vector<int64_t>{1, 0}}})
                            : shaped(changed, *graph_.value(graph_.node(id).inputs[1]).shape);
      }
      graph_.node(id).inputs[1] = as[turned];
    }
  }

  // A value [out], which may be absent, in the shape in which it meets a convolution's result.
  static ValueId by_channel(Builder& b, ValueId value, const Layer& layer) {
    if (!value.present()) return value;
    Shape shape{layer.out()};
    for (int axis = 2; axis < layer.weight.rank(); ++axis) shape = shape.inserted(axis - 1, 1);
    return b.add("Reshape", {value, b.ints(shape.dims())});
  }

  static ValueId magnitude_as(Builder& b, ValueId magnitude, const Shape& shape) {
    return b.shape(magnitude) == shape ? magnitude : b.add("Reshape", {magnitude, b.ints(shape.dims())});
  }

  // g (u + d) + bias in place of the node's result; gain and bias may be absent.
  void replace(NodeId id, Builder& b, ValueId u, ValueId d, ValueId gain, ValueId bias) {
    ValueId y = b.add("Add", {u, d}, {}, "adapted");
    if (gain.present()) y = b.add("Mul", {y, gain}, {}, "scaled");
    if (bias.present()) y = b.add("Add", {y, bias}, {}, "biased");
    const ValueId before = graph_.node(id).outputs[0];
    graph_.value(y).name = graph_.value(before).name;
    graph_.value(before).name.clear();
    graph_.replace_uses(before, y);
    graph_.erase(id);
  }

  void change_product(NodeId id, size_t i, const Parts& parts) {
    const Node node = graph_.node(id);
    Builder b(graph_, layers_[i].path);
    const bool gemm = is_op(node, "Gemm");
    ValueId bias = gemm && node.inputs.size() > 2 ? node.inputs[2] : ValueId{};
    const float beta = node.attrs.real("beta", 1);
    if (bias.present() && beta != 1) bias = b.add("Mul", {bias, b.scalar(DType::f32, static_cast<double>(beta))});
    const ValueId u = b.add(node.op->name, {node.inputs[0], node.inputs[1]}, node.attrs, "base");
    const auto by = [&](ValueId x, ValueId matrix, const char* name) {
      // A matrix stored as PyTorch does, [out, in].
      if (b.shape(x).rank() == 2) return b.add("Gemm", {x, matrix}, {{"transB", int64_t{1}}}, name);
      return b.add("MatMul", {x, b.add("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}})}, {}, name);
    };
    const ValueId d = by(scaled(b, by(node.inputs[0], parts.a, "lora_A"), parts), parts.b, "lora_B");
    replace(id, b, u, d, parts.gain, bias);
  }

  void change_conv(NodeId id, size_t i, const Parts& parts) {
    const Node node = graph_.node(id);
    const Layer& layer = layers_[i];
    Builder b(graph_, layer.path);
    const ValueId bias = by_channel(b, node.inputs.size() > 2 ? node.inputs[2] : ValueId{}, layer);
    const ValueId u = b.add("Conv", {node.inputs[0], node.inputs[1]}, node.attrs, "base");
    const ValueId t = b.add("Conv", {node.inputs[0], parts.a}, node.attrs, "lora_A");
    const ValueId d = b.add("Conv", {scaled(b, t, parts), parts.b}, {{"group", layer.groups}}, "lora_B");
    replace(id, b, u, d, by_channel(b, parts.gain, layer), bias);
  }

  static ValueId scaled(Builder& b, ValueId x, const Parts& parts) {
    return parts.scale == 1 ? x
                            : b.add("Mul", {x, b.scalar(DType::f32, static_cast<double>(parts.scale))}, {}, "scale");
  }

  Graph& graph_;
  const Adapter& adapter_;
  const std::vector<Layer>& layers_;
  AdapterForm form_;
  double times_;
  AppliedAdapter out_;
};

}  // namespace

AppliedAdapter apply_adapter(Graph& graph, const Adapter& adapter, const std::vector<Layer>& layers, AdapterForm form,
                             double times) {
  return Application(graph, adapter, layers, form, times).run();
}

void apply_merged(Graph& graph, const Adapter& adapter, const std::vector<Layer>& layers) {
  const std::vector<std::vector<NodeId>> nodes = nodes_of(graph, layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const Tensor merged = merged_weights(frozen_weights(graph, nodes[i][0], layer), layer, adapter, adapter.layers[i]);
    for (const NodeId id : nodes[i]) {
      const Node& node = graph.node(id);
      const Shape shape = *graph.value(node.inputs[1]).shape;
      const Tensor weights =
          is_transposed(node, layer) ? transposed(merged.reshaped({layer.out(), layer.in()})) : merged.reshaped(shape);
      const ValueId constant = graph.add_constant(weights);
      graph.node(id).inputs[1] = constant;
    }
  }
}

ValueId renewed_norm(Builder& b, const AdapterNorm& norm, ValueId a, ValueId b_matrix, NormForm form) {
  // A [r, in], B [out, r] and W [out, in], with groups each [groups, ...].
  const int64_t out = norm.weights.shape()[0], in = norm.weights.shape()[1], groups = norm.groups;
  const int64_t r = b.shape(a)[0] / groups;
  const auto matrix = [&](int64_t m, int64_t n) { return groups == 1 ? Shape{m, n} : Shape{groups, m, n}; };
  const auto shaped = [&](ValueId x, const Shape& shape) { return b.add("Reshape", {x, b.ints(shape.dims())}); };
  const ValueId rows = shaped(a, matrix(r, in)), columns = shaped(b_matrix, matrix(out / groups, r));
  const Tensor& w = norm.weights;
  const ValueId weights = b.constant(w.reshaped(matrix(out / groups, in)));
  const auto along_rows = [&](ValueId x) {
    return shaped(b.add("ReduceSum", {x, b.ints({-1})}, {{"keepdims", int64_t{0}}}), Shape{out});
  };
  const auto times = [&](ValueId x, double by) { return b.add("Mul", {x, b.scalar(DType::f32, by)}); };
  // A row of zeros divides nothing: its gain is m / 1 times 0.
  const auto root = [&](ValueId squares) {
    return b.add("Sqrt", {b.add("Max", {squares, b.scalar(DType::f32, 1e-30)})});
  };
  if (form == NormForm::exact) {
    const ValueId v = b.add("Add", {weights, times(b.add("MatMul", {columns, rows}), norm.scale)});
    return root(along_rows(b.add("Mul", {v, v})));
  }
  Tensor squares(DType::f32, Shape{out});
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t i = 0; i < in; ++i) {
      const double x = w.data<float>()[static_cast<size_t>(o * in + i)];
      sum += x * x;
    }
    squares.data<float>()[static_cast<size_t>(o)] = static_cast<float>(sum);
  }
  // 2 s <W A', B> + s^2 <B (A A'), B> = <2 s W A' + s^2 B (A A'), B>
  const std::vector<int64_t> perm = groups == 1 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1};
  const ValueId across = b.add("Transpose", {rows}, {{"perm", perm}});
  const ValueId cross = times(b.add("MatMul", {weights, across}), 2 * norm.scale);
  const ValueId own = times(b.add("MatMul", {columns, b.add("MatMul", {rows, across})}), norm.scale * norm.scale);
  const ValueId change = along_rows(b.add("Mul", {b.add("Add", {cross, own}), columns}));
  return root(b.add("Add", {b.constant(squares), change}));
}

}  // namespace sparkpilot
