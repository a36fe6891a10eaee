#include "train/first_weights.h"

#include <cmath>
#include <optional>
#include <vector>

#include "ir/interpret.h"

namespace sparkpilot::train {
namespace {

struct Layer {
  ValueId weight, bias;
  size_t axis = 0;  // of the channels in the result
};

class Centre {
 public:
  Centre(Graph& graph, const std::map<ValueId, std::string>& weights)
      : graph_(graph), weights_(weights), uses_(graph.uses()) {}

  void run(std::span<const Tensor> inputs) {
    const Graph before = graph_;
    interpret(before, inputs, nullptr, {}, [this](NodeId id, std::vector<Tensor>& results) {
      if (const std::optional<Layer> layer = layer_of(id)) adjust(*layer, results[0]);
    });
  }

 private:
  bool is_trained(ValueId value) const {
    return value.present() && weights_.contains(value) && uses_[static_cast<size_t>(value.index)].size() == 1;
  }

  std::optional<Layer> layer_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string_view op = node.op->name;
    const auto rank = [&](ValueId value) { return static_cast<size_t>(graph_.value(value).shape->rank()); };
    if (op == "Conv" || op == "Gemm") {
      if (node.inputs.size() < 3 || !is_trained(node.inputs[1]) || !is_trained(node.inputs[2])) return {};
      if (op == "Conv") return Layer{node.inputs[1], node.inputs[2], 1};
      const bool plain = node.attrs.real("alpha", 1) == 1 && node.attrs.real("beta", 1) == 1;
      if (!plain || rank(node.inputs[2]) != 1) return {};
      return Layer{node.inputs[1], node.inputs[2], 1};
    }
    if (op != "Add") return {};
    for (const size_t which : {0u, 1u}) {
      const NodeId product = graph_.value(node.inputs[which]).producer;
      if (!product.present() || graph_.node(product).op->name != "MatMul") continue;
      const ValueId weight = graph_.node(product).inputs[1], bias = node.inputs[1 - which];
      const bool alone = uses_[static_cast<size_t>(node.inputs[which].index)].size() == 1;
      if (!alone || !is_trained(weight) || !is_trained(bias) || rank(weight) != 2 || rank(bias) != 1) continue;
      return Layer{weight, bias, rank(node.outputs[0]) - 1};
    }
    return {};
  }

  // y' = (y - mean of its channel) * factor, and the same of weight and bias.
  void adjust(const Layer& layer, Tensor& result) {
    const auto axis = static_cast<int>(layer.axis);
    const Shape& shape = result.shape();
    const auto channels = static_cast<size_t>(shape[axis]);
    const auto inner = static_cast<size_t>(shape.elements(axis + 1, shape.rank()));
    const auto values = result.data<float>();
    const auto channel = [&](size_t i) { return i / inner % channels; };
    std::vector<double> mean(channels);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      mean[channel(i)] += static_cast<double>(values[i]);
      squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    const double count = static_cast<double>(values.size()) / static_cast<double>(channels);
    double means = 0;
    for (double& each : mean) each /= count, means += each * each * count;
    const double left = squares - means;
    // A layer that hardly varies is left as it is: there is nothing to scale but noise.
    if (!(left > 1e-6 * squares)) return;
    const double factor = std::sqrt(squares / left);
    Tensor bias = graph_.value(layer.bias).constant.clone(), weight = graph_.value(layer.weight).constant.clone();
    for (size_t c = 0; c < channels; ++c) {
      float& b = bias.data<float>()[c];
      b = static_cast<float>((static_cast<double>(b) - mean[c]) * factor);
    }
    for (float& w : weight.data<float>()) w = static_cast<float>(static_cast<double>(w) * factor);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((static_cast<double>(values[i]) - mean[channel(i)]) * factor);
    }
    graph_.value(layer.bias).constant = bias;
    graph_.value(layer.weight).constant = weight;
  }

  Graph& graph_;
  const std::map<ValueId, std::string>& weights_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

void centre_layers(Graph& graph, const std::map<ValueId, std::string>& weights, std::span<const Tensor> inputs) {
  Centre(graph, weights).run(inputs);
}

std::map<std::string, Tensor> spread_batch(const Samples& samples, int64_t batch) {
  std::vector<Tensor> fields;
  for (const Field& field : samples.fields()) fields.emplace_back(field.dtype, field.shape.inserted(0, batch));
  for (int64_t i = 0; i < batch; ++i) read_entry(samples, i * samples.size() / batch, fields, i);
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < fields.size(); ++i) out[samples.fields()[i].name] = std::move(fields[i]);
  return out;
}

}  // namespace sparkpilot::train
