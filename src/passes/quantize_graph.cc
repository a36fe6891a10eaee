#include "passes/quantize_graph.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/infer.h"
#include "passes/edit.h"

namespace sparkpilot {
namespace {

constexpr double kMaxBias = 1 << 30;

bool is_f32(Edit& edit, ValueId v) { return edit.known(v) && edit.dtype(v) == DType::f32; }

// Whether the node is a convolution or product with constant weights that are all finite.
bool is_product(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_one_of(node, {"Conv", "Gemm", "MatMul"}) || !is_f32(edit, node.inputs[0]) || edit.constant(node.inputs[0])) {
    return false;
  }
  const Tensor* w = edit.constant(node.inputs[1]);
  if (!w || w->dtype() != DType::f32 || w->elements() == 0) return false;
  if (!is_op(node, "Conv") && (w->shape().rank() != 2 || edit.shape(node.inputs[0]).rank() < 2)) return false;
  if (is_op(node, "Gemm") &&
      (node.attrs.integer("transA", 0) != 0 || node.attrs.real("alpha", 1) != 1 || node.attrs.real("beta", 1) != 1)) {
    return false;
  }
  const auto finite = [](const Tensor& t) {
    const auto values = t.data<float>();
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  };
  if (!finite(*w)) return false;
  if (node.inputs.size() < 3 || !node.inputs[2].present()) return true;
  const Tensor* bias = edit.constant(node.inputs[2]);
  const int64_t channels = w->shape()[is_op(node, "Conv") || node.attrs.integer("transB", 0) != 0 ? 0 : 1];
  return bias && bias->dtype() == DType::f32 && bias->shape() == Shape{channels} && finite(*bias);
}

// The value after the bias of a MatMul and the clamps that follow a node.
ValueId behind_clamps(Edit& edit, ValueId v) {
  const NodeId sum = edit.only_reader(v);
  if (edit.maker(v, "MatMul").present() && sum.present() && is_op(edit.node(sum), "Add")) {
    const Node& add = edit.node(sum);
    if (edit.constant(add.inputs[add.inputs[0] == v ? 1 : 0]) && edit.shape(add.outputs[0]) == edit.shape(v)) {
      v = add.outputs[0];
    }
  }
  while (true) {
    const NodeId next = edit.only_reader(v);
    if (!next.present() || edit.node(next).inputs[0] != v) return v;
    const Node& node = edit.node(next);
    if (!is_op(node, "Relu") && !is_op(node, "Clip")) return v;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].present() && !edit.constant(node.inputs[i])) return v;
    }
    v = node.outputs[0];
  }
}

// Scale and zero point of u8 for a range; the range is widened to include 0.
struct Bytes {
  float scale;
  uint8_t zero;
};
Bytes bytes_for(ValueRange range, const std::string& name) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high)) fail("\"{}\" holds values that are not finite", name);
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  const auto scale = static_cast<float>((high - low) / 255);
  if (!std::isnormal(scale)) return {1, 0};
  return {scale, static_cast<uint8_t>(std::clamp(std::nearbyint(-low / static_cast<double>(scale)), 0.0, 255.0))};
}

class Quantizer {
 public:
  explicit Quantizer(Graph& graph) : edit_(graph), graph_(graph) {}

  // Quantizes the value and dequantizes it again for all its readers.
  ValueId quantize(ValueId v, const ValueRange& range) {
    const std::string name = graph_.value(v).name;
    const Bytes b = bytes_for(range, name);
    const ValueId scale = constant(Tensor::scalar(b.scale), name + "_scale");
    const ValueId zero = constant(Tensor::scalar(b.zero), name + "_zero_point");
    const std::vector<NodeId> readers = edit_.readers(v);
    const ValueId bytes = node("QuantizeLinear", {v, scale, zero}, name + "_quantized");
    const ValueId floats = node("DequantizeLinear", {bytes, scale, zero}, name + "_dequantized");
    for (const NodeId reader : readers) {
      const std::vector<ValueId> inputs = edit_.node(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == v) edit_.set_input(reader, i, floats);
      }
    }
    scales_[floats] = static_cast<double>(b.scale);
    return floats;
  }

  // Weights and bias of a product whose input has been quantized.
  void quantize_weights(NodeId id) {
    const Node op = edit_.node(id);
    const auto x = scales_.find(op.inputs[0]);
    if (x == scales_.end()) fail_internal("a product without a quantized input");
    const Tensor weights = *edit_.constant(op.inputs[1]);
    const int axis = is_op(op, "Conv") || op.attrs.integer("transB", 0) != 0 ? 0 : 1;
    const int64_t channels = weights.shape()[axis];
    const bool given = op.inputs.size() > 2 && op.inputs[2].present(), has_bias = !is_op(op, "MatMul");
    const Tensor bias = given ? *edit_.constant(op.inputs[2]) : Tensor::zeros(DType::f32, Shape{channels});
    const std::string weights_name = graph_.value(op.inputs[1]).name;
    const std::string bias_name = given ? graph_.value(op.inputs[2]).name : weights_name + "_bias";
    const int64_t inner = weights.shape().elements(axis + 1, weights.shape().rank());
    std::vector<float> scales(static_cast<size_t>(channels), 0);
    const auto values = weights.data<float>();
    const auto channel = [&](size_t i) { return static_cast<size_t>(static_cast<int64_t>(i) / inner % channels); };
    for (size_t i = 0; i < values.size(); ++i) {
      scales[channel(i)] = std::max(scales[channel(i)], std::abs(values[i]) / 127);
    }
    for (size_t c = 0; c < scales.size(); ++c) {
      // A bias has to fit in 32 bits, counted in units of input scale times weight scale.
      if (has_bias) {
        const double least = std::abs(static_cast<double>(bias.data<float>()[c])) / (kMaxBias * x->second);
        scales[c] = std::max(scales[c], static_cast<float>(least));
      }
      if (!std::isnormal(scales[c])) scales[c] = 1;
    }
    Tensor bytes(DType::i8, weights.shape());
    for (size_t i = 0; i < values.size(); ++i) {
      bytes.data<int8_t>()[i] =
          static_cast<int8_t>(std::clamp(std::nearbyint(values[i] / scales[channel(i)]), -127.0f, 127.0f));
    }
    edit_.set_input(id, 1, dequantized(weights_name, bytes, scales, axis));
    if (!has_bias) return;
    Tensor sums(DType::i32, Shape{channels});
    std::vector<float> bias_scales;
    for (size_t c = 0; c < scales.size(); ++c) {
      bias_scales.push_back(static_cast<float>(x->second) * scales[c]);
      const double units = static_cast<double>(bias.data<float>()[c]) / static_cast<double>(bias_scales[c]);
      sums.data<int32_t>()[c] = static_cast<int32_t>(std::nearbyint(std::clamp(units, -kMaxBias, kMaxBias)));
    }
    const ValueId floats = dequantized(bias_name, sums, bias_scales, 0);
    if (!given) graph_.node(id).inputs.resize(3);
    edit_.set_input(id, 2, floats);
    biases_[id] = {graph_.node(edit_.maker(floats)).inputs[0], bias_scales};
  }
  std::map<NodeId, QuantizedBias> biases() { return std::move(biases_); }

 private:
  ValueId constant(Tensor tensor, std::string name) { return graph_.add_constant(std::move(tensor), std::move(name)); }
  ValueId node(std::string_view op, std::vector<ValueId> inputs, const std::string& name, Attributes attrs = {}) {
    const NodeId id = graph_.add_node(*find_op("", op, 26), std::move(inputs), std::move(attrs), 1, name);
    infer_node(graph_, id);
    const ValueId y = graph_.node(id).outputs[0];
    graph_.value(y).name = name;
    return y;
  }
  // Adds a DequantizeLinear node instead of the result that it computes, so that the file holds the integers.
  ValueId dequantized(const std::string& name, const Tensor& integers, const std::vector<float>& scales, int axis) {
    const Shape shape{static_cast<int64_t>(scales.size())};
    const ValueId scale = constant(Tensor::of<float>(shape, scales), name + "_scale");
    const ValueId zero = constant(Tensor::zeros(integers.dtype(), shape), name + "_zero_point");
    const ValueId values = constant(integers, name + "_quantized");
    return node("DequantizeLinear", {values, scale, zero}, name + "_dequantized", {{"axis", int64_t{axis}}});
  }

  Edit edit_;
  Graph& graph_;
  std::map<ValueId, double> scales_;  // scales of dequantized activations
  std::map<NodeId, QuantizedBias> biases_;
};

}  // namespace

void check_excluded(const Graph& graph, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    bool known = find_op("", name, 26) != nullptr;
    for (const NodeId id : graph.order()) known |= graph.node(id).name == name;
    if (!known) fail("no node and no op is named \"{}\"", name);
  }
}

void refuse_quantized(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    if (is_one_of(graph.node(id), {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv",
                                   "QLinearMatMul", "ConvInteger", "MatMulInteger"})) {
      fail("the model is quantized already (node \"{}\")", graph.label(id));
    }
  }
}

QuantizePlan plan_quantization(Graph& graph, const QuantizeOptions& options) {
  refuse_quantized(graph);
  Edit edit(graph);
  check_excluded(graph, options.exclude);
  QuantizePlan plan;
  std::set<ValueId> tensors;
  const auto want = [&](ValueId v) {
    if (tensors.insert(v).second) plan.tensors.push_back(v);
  };
  const auto excluded = [&](NodeId id) {
    const Node& node = edit.node(id);
    return options.floats.contains(id) || options.exclude.contains(node.name) ||
           options.exclude.contains(std::string(node.op->name));
  };
  const std::vector<NodeId> order = graph.order();
  std::set<ValueId> made;  // computed in integers, clamped
  for (const NodeId id : order) {
    const Node& node = edit.node(id);
    if (excluded(id)) continue;
    if (is_product(edit, id)) {
      plan.nodes.push_back(id);
      want(node.inputs[0]);
      made.insert(behind_clamps(edit, node.outputs[0]));
    }
  }
  // Sums, concatenations and pools of values computed in integers run in integers too, if a reader needs them as
  // integers.
  for (const NodeId id : order) {
    const Node& node = edit.node(id);
    if (excluded(id) || !is_one_of(node, {"Add", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool"}) ||
        node.outputs.size() != 1)
      continue;
    const bool from_integers = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v.present() && is_f32(edit, v) && (made.contains(v) || tensors.contains(v)) &&
             edit.shape(v).rank() == edit.shape(node.outputs[0]).rank();
    });
    if (!from_integers) continue;
    if (is_op(node, "Add") && !(edit.shape(node.inputs[0]) == edit.shape(node.inputs[1]))) continue;
    const ValueId y = behind_clamps(edit, node.outputs[0]);
    if (edit.leaves_graph(y) && edit.readers(y).empty()) continue;
    for (const ValueId v : node.inputs) want(v);
    want(y);
    made.insert(y);
    plan.nodes.push_back(id);
  }
  if (plan.nodes.empty()) fail("no convolution and no product with constant weights of f32 to quantize");
  return plan;
}

QuantizedGraph quantize_graph(Graph& graph, const QuantizePlan& plan, const std::map<ValueId, ValueRange>& ranges) {
  Quantizer quantizer(graph);
  QuantizedGraph out;
  for (const ValueId v : plan.tensors) {
    const auto range = ranges.find(v);
    if (range == ranges.end()) fail_internal("no range of \"{}\"", graph.value(v).name);
    out.stands_for[v] = quantizer.quantize(v, range->second);
  }
  for (const NodeId id : plan.nodes) {
    if (is_one_of(graph.node(id), {"Conv", "Gemm", "MatMul"})) quantizer.quantize_weights(id);
  }
  out.biases = quantizer.biases();
  return out;
}

std::vector<ValueId> free_channels(Graph& graph) {
  Edit edit(graph);
  std::vector<ValueId> tensors;
  const auto own = [&](ValueId constant) { return edit.readers(constant).size() == 1; };
  for (const NodeId id : graph.order()) {
    const Node& node = edit.node(id);
    if (!is_op(node, "Conv") || !is_product(edit, id) || !own(node.inputs[1])) continue;
    const Shape& w = edit.shape(node.inputs[1]);
    if (w[1] != 1 || node.attrs.integer("group", 1) != w[0] || edit.only_reader(node.inputs[0]) != id) continue;
    NodeId maker = edit.maker(node.inputs[0]);
    if (maker.present() && is_op(edit.node(maker), "Relu")) {
      if (edit.only_reader(edit.node(maker).inputs[0]) != maker) continue;
      maker = edit.maker(edit.node(maker).inputs[0], "Conv");
    }
    if (!maker.present() || !is_op(edit.node(maker), "Conv") || !is_product(edit, maker)) continue;
    const std::vector<ValueId>& inputs = edit.node(maker).inputs;
    if (own(inputs[1]) && (inputs.size() < 3 || !inputs[2].present() || own(inputs[2]))) {
      tensors.push_back(node.inputs[0]);
    }
  }
  return tensors;
}

void equalise_channels(Graph& graph, ValueId tensor, std::span<const double> reach) {
  Edit edit(graph);
  const double most = *std::max_element(reach.begin(), reach.end());
  if (!(most > 0) || !std::isfinite(most)) return;
  constexpr double kMin = 1e-3;  // of the largest; limits how much a channel that is hardly used is scaled up
  std::vector<double> factors;
  for (const double r : reach) factors.push_back(most / std::max(r, kMin * most));
  const auto scale = [&](NodeId id, size_t input, bool up) {
    const Tensor scaled = edit.constant(edit.node(id).inputs[input])->clone();
    const auto values = scaled.data<float>();
    const size_t inner = values.size() / factors.size();
    for (size_t i = 0; i < values.size(); ++i) {
      const double f = factors[i / inner];
      values[i] = static_cast<float>(static_cast<double>(values[i]) * (up ? f : 1 / f));
    }
    const std::string name = graph.value(edit.node(id).inputs[input]).name;
    edit.set_input(id, input, graph.add_constant(scaled, name));
  };
  NodeId maker = edit.maker(tensor);
  if (is_op(edit.node(maker), "Relu")) maker = edit.maker(edit.node(maker).inputs[0]);
  scale(maker, 1, true);
  if (edit.node(maker).inputs.size() > 2 && edit.node(maker).inputs[2].present()) scale(maker, 2, true);
  scale(edit.only_reader(tensor), 1, false);
}

}  // namespace sparkpilot
