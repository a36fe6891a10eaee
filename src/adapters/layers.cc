#include "adapters/layers.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/fnv.h"
#include "passes/edit.h"
#include "tensor/tensor.h"

namespace sparkpilot {
namespace {

constexpr std::string_view kWeight = ".weight";

// What lies between a node and its weights.
struct Weights {
  ValueId constant;
  bool transposed = false;  // an odd number of Transposes of a matrix
  bool quantized = false;
};

Weights weights_of(const Graph& graph, ValueId value) {
  Weights out{.constant = {}};
  while (value.present()) {
    if (graph.constant(value)) {
      out.constant = value;
      return out;
    }
    const NodeId maker = graph.value(value).producer;
    if (!maker.present()) return out;
    const Node& node = graph.node(maker);
    if (is_op(node, "Transpose")) {
      // Of a matrix, which has only two permutations; anything else is computed, not a layer's weights.
      const std::vector<int64_t> order = node.attrs.integers("perm", {1, 0});
      if (order.size() != 2) return out;
      if (order[0] == 1) out.transposed = !out.transposed;
    } else if (is_op(node, "DequantizeLinear")) {
      out.quantized = true;
    } else if (!is_op(node, "Cast") && !is_op(node, "Identity")) {
      return out;
    }
    value = node.inputs[0];
  }
  return out;
}

// "policy.temporal.in" of "/policy/temporal/in/MatMul"; empty if the name has no scopes.
std::string scope_of(const Node& node) {
  std::string_view name = node.name;
  if (name.starts_with('/')) name.remove_prefix(1);
  const size_t last = name.rfind('/');
  if (last == std::string_view::npos) return {};
  if (name.substr(last + 1).starts_with(node.op->name)) name = name.substr(0, last);
  std::string out(name);
  std::ranges::replace(out, '/', '.');
  return out;
}

// Only characters that a module's path can have.
std::string as_path(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    const bool kept =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!kept) c = '_';
  }
  return out;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {}

  std::vector<Layer> run() {
    std::map<std::string_view, int> nodes_of_op;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const bool conv = is_op(node, "Conv");
      if (!conv && !is_op(node, "Gemm") && !is_op(node, "MatMul")) continue;
      add(id, conv, nodes_of_op[node.op->name]++);
    }
    return std::move(layers_);
  }

 private:
  void add(NodeId id, bool conv, int position) {
    const Node& node = graph_.node(id);
    const Weights weights = weights_of(graph_, node.inputs[1]);
    if (!weights.constant.present()) return;
    const Tensor& tensor = *graph_.constant(weights.constant);
    Layer layer{.path = {}, .conv = conv, .weight = tensor.shape(), .dtype = tensor.dtype(), .nodes = {id}};
    layer.constant = weights.constant;
    if (conv) {
      layer.groups = node.attrs.integer("group", 1);
      if (tensor.shape().rank() < 3 || weights.transposed || layer.groups < 1) return;
      if (tensor.shape()[0] % layer.groups != 0) return;  // no model that runs
      if (layer.groups > 1 && layer.in() == tensor.shape().elements(2, tensor.shape().rank())) {
        layer.cannot = "depthwise: an adapter would be larger than its weights";
      }
    } else {
      if (tensor.shape().rank() != 2) return;
      const bool by_node = is_op(node, "Gemm") && node.attrs.integer("transB", 0) != 0;
      layer.transposed = weights.transposed == by_node;
      if (layer.transposed) layer.weight = Shape{tensor.shape()[1], tensor.shape()[0]};
      if (is_op(node, "Gemm") && node.attrs.integer("transA", 0) != 0) layer.cannot = "its input is transposed";
      if (is_op(node, "Gemm") && node.attrs.real("alpha", 1) != 1) layer.cannot = "alpha is not 1";
    }
    if (layer.weight.elements() == 0) return;
    if (weights.quantized || !is_float(tensor.dtype())) layer.cannot = "quantized weights";
    merge_or_name(std::move(layer), position);
  }

  // Another use of a layer that is known, or a new one.
  void merge_or_name(Layer layer, int position) {
    const auto key = std::tuple(layer.constant, layer.conv, layer.transposed, layer.groups);
    if (const auto at = by_weights_.find(key); at != by_weights_.end()) {
      layers_[at->second].nodes.push_back(layer.nodes[0]);
      return;
    }
    const Node& node = graph_.node(layer.nodes[0]);
    std::string_view weight_name = graph_.value(layer.constant).name;
    std::string path;
    if (weight_name.ends_with(kWeight)) {
      path = as_path(weight_name.substr(0, weight_name.size() - kWeight.size()));
    } else if (const std::string scope = scope_of(node); !scope.empty()) {
      path = as_path(scope);
    }
    if (path.empty()) path = fmt::format("{}_{}", node.op->name, position);
    const std::string first = path;
    for (int again = 1; !paths_.insert(path).second; ++again) path = fmt::format("{}_{}", first, again);
    layer.path = path;
    by_weights_.emplace(key, layers_.size());
    layers_.push_back(std::move(layer));
  }

  const Graph& graph_;
  std::vector<Layer> layers_;
  std::map<std::tuple<ValueId, bool, bool, int64_t>, size_t> by_weights_;
  std::set<std::string> paths_;
};

}  // namespace

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor out(DType::f32, Shape{columns, rows});
  const auto from = matrix.data<float>(), to = out.data<float>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
  }
  return out;
}

std::vector<Layer> find_layers(const Graph& graph) { return Finder(graph).run(); }

std::vector<bool> matching_layers(const std::vector<Layer>& layers, const std::string& pattern) {
  std::regex path;
  try {
    path.assign(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    fail("\"{}\" is not a regular expression: {}", pattern, error.what());
  }
  std::vector<bool> out;
  for (const Layer& layer : layers) out.push_back(std::regex_match(layer.path, path));
  return out;
}

void name_layers(Graph& graph) {
  for (const Layer& layer : find_layers(graph)) {
    for (const NodeId id : layer.nodes) graph.node(id).name = layer.path;
  }
}

Tensor layer_weights(const Graph& graph, const Layer& layer) {
  const Tensor stored = convert(*graph.constant(layer.constant), DType::f32);
  return layer.transposed ? transposed(stored) : stored;
}

void set_layer_weights(Graph& graph, const Layer& layer, const Tensor& weights) {
  const Value& old = graph.value(layer.constant);
  if (!(weights.shape() == layer.weight))
    fail("weights {} for the layer \"{}\", expected {}", weights.shape().str(), layer.path, layer.weight.str());
  const Tensor stored = convert(layer.transposed ? transposed(weights) : weights, old.constant.dtype());
  // The constant and what leads from it to this layer's nodes, copied if anything else reads it.
  const auto uses = graph.uses();
  const auto only_here = [&](ValueId value, const auto& self) -> bool {
    if (std::ranges::any_of(graph.outputs(), [&](const auto& o) { return o.value == value; })) return false;
    return std::ranges::all_of(uses[static_cast<size_t>(value.index)], [&](NodeId id) {
      if (std::ranges::find(layer.nodes, id) != layer.nodes.end()) return graph.node(id).inputs[1] == value;
      const Node& node = graph.node(id);
      return (is_op(node, "Cast") || is_op(node, "Transpose") || is_op(node, "Identity")) &&
             self(node.outputs[0], self);
    });
  };
  if (only_here(layer.constant, only_here)) {
    graph.value(layer.constant).constant = stored;
    return;
  }
  const ValueId fresh = graph.add_constant(stored, layer.path + std::string(kWeight));
  for (const NodeId id : layer.nodes) {
    std::vector<NodeId> between;
    for (ValueId at = graph.node(id).inputs[1]; at != layer.constant;) {
      between.push_back(graph.value(at).producer);
      at = graph.node(between.back()).inputs[0];
    }
    ValueId at = fresh;
    for (auto node = between.rbegin(); node != between.rend(); ++node) {
      const Node copy = graph.node(*node);
      const ValueId before = copy.outputs[0];
      const NodeId made = graph.add_node(*copy.op, {at}, copy.attrs, 1);
      at = graph.node(made).outputs[0];
      graph.value(at).dtype = graph.value(before).dtype;
      graph.value(at).shape = graph.value(before).shape;
    }
    graph.node(id).inputs[1] = at;
  }
}

std::string base_fingerprint(const Graph& graph) {
  Fnv hash;
  for (const Layer& layer : find_layers(graph)) {
    const Tensor& tensor = *graph.constant(layer.constant);
    hash.text(fmt::format("{}{}{}", layer.path, layer.weight.str(), name(layer.dtype)));
    hash.bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace sparkpilot
