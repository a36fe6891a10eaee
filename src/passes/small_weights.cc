#include "passes/small_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/infer.h"
#include "passes/makers.h"
#include "passes/pass.h"
#include "passes/quantized.h"
#include "tensor/small_floats.h"

namespace sparkpilot {
namespace {

// Scales by which kernels may multiply, with a factor of 256, without reaching infinity or subnormal numbers.
constexpr float kLeastScale = 0x1p-100f, kMostScale = 0x1p100f;

bool scales_fit(const Tensor* scales) {
  if (!scales || scales->dtype() != DType::f32) return false;
  return std::ranges::all_of(scales->data<float>(), [](float s) { return s >= kLeastScale && s <= kMostScale; });
}

bool is_finite(const Tensor& floats) {
  return std::ranges::all_of(floats.data<float>(), [](float v) { return std::isfinite(v); });
}

bool is_matrix_product(const Node& node) { return is_op(node, "Gemm") || is_op(node, "MatMul"); }

std::span<const uint8_t> bytes_of(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.raw()), static_cast<size_t>(tensor.bytes())};
}

// Constant codes of E4M3 without NaN.
const Tensor* e4m3(Edit& edit, ValueId value) {
  const Tensor* codes = value.present() ? edit.constant(value) : nullptr;
  if (!codes || codes->dtype() != DType::f8e4m3fn) return nullptr;
  return std::ranges::all_of(bytes_of(*codes), [](uint8_t c) { return (c & 0x7f) != 0x7f; }) ? codes : nullptr;
}

// Whether a DequantizeLinear has no zero point, or one of zeros.
bool without_zero(Edit& edit, const Node& node) {
  if (node.inputs.size() < 3 || !node.inputs[2].present()) return true;
  const Tensor* zero = edit.constant(node.inputs[2]);
  if (!zero) return false;
  for (int64_t i = 0; i < zero->elements(); ++i) {
    if (load_element(zero->dtype(), zero->raw(), i) != 0) return false;
  }
  return true;
}

// The node that dequantizes to f32 without a zero point; null if the value is made otherwise.
const Node* dequantize(Edit& edit, ValueId value) {
  const NodeId id = edit.maker(value, "DequantizeLinear");
  if (!id.present() || !edit.known(value) || edit.dtype(value) != DType::f32) return nullptr;
  return without_zero(edit, edit.node(id)) ? &edit.node(id) : nullptr;
}

// Weights of `rank` axes, with a scale for each index of one of them.
std::optional<SmallWeights> in_8_bits(Edit& edit, const Node& node, int scaled_axis, int rank = 2) {
  const Tensor* codes = e4m3(edit, node.inputs[0]);
  const Tensor* scales = edit.constant(node.inputs[1]);
  if (!codes || codes->shape().rank() != rank || !scales_fit(scales) || node.attrs.integer("block_size", 0) != 0)
    return {};
  if (scales->elements() > 1 && normalize_axis(node.attrs.integer("axis", 1), rank) != scaled_axis) return {};
  return SmallWeights{node.inputs[0], node.inputs[1], {}};
}

std::optional<SmallWeights> in_4_bits(Edit& edit, const Node& node, int column_axis) {
  const Tensor* codes = edit.constant(node.inputs[0]);
  if (!codes || codes->dtype() != DType::f4e2m1 || codes->shape().rank() != 2) return {};
  if (node.attrs.integer("block_size", 0) != Fp4Weights::kBlock) return {};
  if (normalize_axis(node.attrs.integer("axis", 1), 2) == column_axis) return {};
  const Node* scales = dequantize(edit, node.inputs[1]);
  if (!scales || scales->attrs.integer("block_size", 0) != 0 || !e4m3(edit, scales->inputs[0])) return {};
  const Tensor* scale = edit.constant(scales->inputs[1]);
  if (!scales_fit(scale) || scale->elements() != 1) return {};
  return SmallWeights{node.inputs[0], scales->inputs[1], scales->inputs[0]};
}

// Writes the forms of small_weights.h.
class Storing {
 public:
  explicit Storing(Graph& graph) : edit_(graph), graph_(graph) {}

  void weights(NodeId id, WeightFormat format) {
    const Node& node = graph_.node(id);
    const WeightAxes axes = weight_axes(node, edit_.constant(node.inputs[1])->shape().rank());
    const int axis = format == WeightFormat::fp4 ? axes.depth : axes.channels;
    edit_.set_input(id, 1, stored(id, node.inputs[1], format, axis));
  }

  void input(NodeId id, WeightFormat format, double largest) {
    const ValueId x = graph_.node(id).inputs[0];
    const auto [known, fresh] = rounded_.try_emplace({x, format});
    if (fresh && format == WeightFormat::fp4) {
      const ValueId scale = constant(Tensor::scalar(fp4_scale(static_cast<float>(largest))), x, "_scale");
      known->second = add(id, "RoundToNvfp4", {x, scale}, {}, "sparkpilot");
    } else if (fresh) {
      const ValueId scale = constant(Tensor::scalar(fp8_scale(static_cast<float>(largest))), x, "_scale");
      // The zero point says the type: the attribute for it came with opset 21.
      const ValueId zero = constant(Tensor::zeros(DType::f8e4m3fn, Shape{}), x, "_zero");
      const ValueId codes = add(id, "QuantizeLinear", {x, scale, zero}, {});
      known->second = add(id, "DequantizeLinear", {codes, scale}, {});
    }
    edit_.set_input(id, 0, known->second);
  }

 private:
  // Several products may share weights; of two that read them along different axes each gets its own.
  struct Key {
    ValueId weights;
    WeightFormat format;
    int axis;
    auto operator<=>(const Key&) const = default;
  };

  ValueId stored(NodeId id, ValueId weights, WeightFormat format, int axis) {
    const auto [known, fresh] = stored_.try_emplace({weights, format, axis});
    if (!fresh) return known->second;
    const Tensor values = *edit_.constant(weights);
    Attributes attrs{{"axis", int64_t{axis}}};
    ValueId codes, steps;
    if (format == WeightFormat::fp4) {
      Fp4Weights w = to_fp4(values, axis);
      const ValueId scale = constant(std::move(w.scale), weights, "_scale");
      steps = add(id, "DequantizeLinear", {constant(std::move(w.block_scales), weights, "_block_scales"), scale}, {});
      codes = constant(std::move(w.codes), weights, "_fp4");
      attrs.set("block_size", Fp4Weights::kBlock);
    } else {
      Fp8Weights w = to_fp8(values, axis);
      steps = constant(std::move(w.scales), weights, "_scale");
      codes = constant(std::move(w.codes), weights, "_fp8");
    }
    return known->second = add(id, "DequantizeLinear", {codes, steps}, std::move(attrs));
  }

  ValueId constant(Tensor tensor, ValueId like, const char* what) {
    const std::string name = graph_.value(like).name;
    return graph_.add_constant(std::move(tensor), name.empty() ? name : name + what);
  }
  ValueId add(NodeId like, std::string_view op, std::vector<ValueId> inputs, Attributes attrs,
              std::string_view domain = "") {
    const NodeId id =
        graph_.add_node(*find_op(domain, op, 26), std::move(inputs), std::move(attrs), 1, graph_.node(like).name);
    infer_node(graph_, id);
    return graph_.node(id).outputs[0];
  }

  Edit edit_;
  Graph& graph_;
  std::map<Key, ValueId> stored_;
  std::map<std::pair<ValueId, WeightFormat>, ValueId> rounded_;
};

}  // namespace

WeightAxes weight_axes(const Node& product, int rank) {
  if (!is_matrix_product(product)) return {0, 1};
  const bool side = product.attrs.integer("transB", 0) != 0;
  return {side ? rank - 2 : rank - 1, side ? rank - 1 : rank - 2};
}

std::optional<SmallWeights> small_weights(Edit& edit, NodeId product) {
  const Node& node = edit.node(product);
  const bool gemm = is_op(node, "Gemm");
  if (!gemm && !is_op(node, "MatMul")) return {};
  if (!edit.known(node.inputs[0]) || edit.dtype(node.inputs[0]) != DType::f32 ||
      edit.shape(node.inputs[0]).rank() < 2) {
    return {};
  }
  if (gemm && (node.attrs.integer("transA", 0) != 0 || node.attrs.real("alpha", 1) != 1)) return {};
  const Node* weights = dequantize(edit, node.inputs[1]);
  if (!weights) return {};
  const int column_axis = weight_axes(node, 2).channels;
  if (auto small = in_8_bits(edit, *weights, column_axis)) return small;
  return in_4_bits(edit, *weights, column_axis);
}

std::map<NodeId, WeightFormat> plan_small(Graph& graph, Precision precision) {
  std::map<NodeId, WeightFormat> plan;
  if (!stores_small(precision)) return plan;
  Edit edit(graph);
  NodeMap<bool> heads = find_heads(edit);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool matrix = is_matrix_product(node);
    if ((!matrix && !is_op(node, "Conv")) || heads[id]) continue;
    const Tensor* weights = edit.constant(node.inputs[1]);
    if (!weights || weights->dtype() != DType::f32 || weights->shape().rank() < 2 || weights->elements() == 0) continue;
    if (!is_finite(*weights)) continue;
    plan[id] = matrix && precision == Precision::fp4 ? WeightFormat::fp4 : WeightFormat::fp8;
  }
  return plan;
}

std::string not_finite_weights(const Graph& graph) {
  constexpr int kNamed = 3;
  std::string text;
  int found = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_matrix_product(node) && !is_op(node, "Conv")) continue;
    const Tensor* weights = graph.constant(node.inputs[1]);
    if (!weights || weights->dtype() != DType::f32 || is_finite(*weights)) continue;
    if (++found <= kNamed) text += fmt::format("{}\"{}\"", found == 1 ? "" : ", ", graph.label(id));
  }
  return found > kNamed ? fmt::format("{} and {} more", text, found - kNamed) : text;
}

int store_small(Graph& graph, const std::map<NodeId, WeightFormat>& plan, const std::map<std::string, double>& largest,
                bool compact, bool fp4_inputs) {
  int changes = 0;
  {
    Storing storing(graph);
    for (const auto& [id, format] : plan) {
      if (format == WeightFormat::f32) continue;
      storing.weights(id, format);
      const auto seen = largest.find(graph.value(graph.node(id).inputs[0]).name);
      const bool rounds = format == WeightFormat::fp8 || fp4_inputs;
      if (rounds && seen != largest.end() && !seen->first.empty()) storing.input(id, format, seen->second);
      ++changes;
    }
  }
  if (changes && compact) graph.compact();
  return changes;
}

namespace {

// The scales of a product's weights times that of what it reads; empty if kernels may not multiply by them.
std::optional<Tensor> scales_of_both(const Tensor* scale, const Tensor* step) {
  if (!scale || scale->dtype() != DType::f32 || !scales_fit(step) || step->elements() != 1) return {};
  Tensor both = Tensor::zeros(DType::f32, scale->shape());
  std::ranges::transform(scale->data<float>(), both.data<float>().begin(),
                         [&](float each) { return each * step->data<float>()[0]; });
  if (!scales_fit(&both)) return {};
  return both;
}

// What gives the value of codes of E4M3, with one step for all; null if it is made otherwise.
const Node* coded_activations(Edit& edit, ValueId value) {
  const Node* node = dequantize(edit, value);
  const bool coded =
      node && node->attrs.integer("block_size", 0) == 0 && edit.dtype(node->inputs[0]) == DType::f8e4m3fn;
  return coded ? node : nullptr;
}

bool read_e4m3(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  const Node* activations = coded_activations(edit, node.inputs[0]);
  if (!activations) return false;
  const ValueId codes = activations->inputs[0];
  std::optional<Tensor> both = scales_of_both(edit.constant(node.inputs[2]), edit.constant(activations->inputs[1]));
  if (!both) return false;
  edit.set_input(id, 2, edit.graph().add_constant(std::move(*both), edit.graph().value(node.inputs[2]).name));
  edit.set_input(id, 0, codes);
  return true;
}

// What a launch of a GPU's kernels has, whatever the depth.
constexpr int64_t kMostCodedPixels = int64_t{65535} * 32;

// A convolution of one group whose image and weights are codes, each with constant scales, as sparkpilot::ScaledConv.
bool read_coded_image(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Conv") || node.attrs.integer("group", 1) != 1) return false;
  if (!edit.known(node.inputs[0]) || !edit.known(node.outputs[0])) return false;
  const int rank = edit.shape(node.inputs[0]).rank();
  const Shape& y = edit.shape(node.outputs[0]);
  if (rank < 3 || rank > 4 || y.elements() == 0 || y.elements() / y[1] > kMostCodedPixels) return false;
  const Node *image = coded_activations(edit, node.inputs[0]), *weights = dequantize(edit, node.inputs[1]);
  if (!image || !weights) return false;
  const std::optional<SmallWeights> small = in_8_bits(edit, *weights, 0, rank);
  if (!small) return false;
  const ValueId bias = node.inputs.size() > 2 ? node.inputs[2] : ValueId{};
  if (bias.present() && !edit.constant(bias)) return false;
  std::optional<Tensor> both = scales_of_both(edit.constant(small->scale), edit.constant(image->inputs[1]));
  if (!both) return false;
  if (both->elements() == 1) both = both->reshaped(Shape{1});
  const ValueId codes = image->inputs[0];
  const ValueId scale = edit.graph().add_constant(std::move(*both), edit.graph().value(small->scale).name);
  edit.replace(node.outputs[0],
               edit.make(id, "sparkpilot::ScaledConv", {codes, small->codes, scale, bias}, node.attrs));
  return true;
}

bool round_to_nvfp4(Edit& edit, NodeId id) {
  const NodeId rounds = edit.maker(edit.node(id).inputs[0], "sparkpilot::RoundToNvfp4");
  if (!rounds.present()) return false;
  const Tensor* step = edit.constant(edit.node(rounds).inputs[1]);
  if (!scales_of_both(edit.constant(edit.node(id).inputs[2]), step)) return false;
  edit.graph().node(id).attrs.set("a_scale", step->data<float>()[0]);
  edit.set_input(id, 0, edit.node(rounds).inputs[0]);
  return true;
}

}  // namespace

int read_codes(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (graph.erased(id) || !is_op(edit.node(id), "sparkpilot::ScaledGemm")) continue;
    const bool in_8_bits = edit.dtype(edit.node(id).inputs[1]) == DType::f8e4m3fn;
    changes += in_8_bits ? read_e4m3(edit, id) : round_to_nvfp4(edit, id);
  }
  if (changes) graph.compact();
  return changes;
}

int read_coded_images(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += read_coded_image(edit, id);
  }
  if (changes) graph.compact();
  return changes;
}

int decode_for_each_reader(Graph& graph) {
  int changes = 0;
  Edit edit(graph);
  const std::vector<NodeId> order = graph.order();
  // Readers first, as scales of blocks are decoded, too.
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const NodeId id = *at;
    const Node node = edit.node(id);
    if (!is_op(node, "DequantizeLinear") || edit.leaves_graph(node.outputs[0])) continue;
    const Tensor* codes = edit.constant(node.inputs[0]);
    if (!codes || (codes->dtype() != DType::f8e4m3fn && codes->dtype() != DType::f4e2m1)) continue;
    const std::vector<NodeId> reads = edit.readers(node.outputs[0]);
    const std::set<NodeId> readers(reads.begin(), reads.end());
    for (const NodeId reader : readers) {
      if (reader == *readers.begin()) continue;
      const NodeId own = graph.add_node(*node.op, node.inputs, node.attrs, 1, node.name);
      infer_node(graph, own);
      const ValueId floats = graph.node(own).outputs[0];
      for (size_t i = 0; i < graph.node(reader).inputs.size(); ++i) {
        if (graph.node(reader).inputs[i] == node.outputs[0]) edit.set_input(reader, i, floats);
      }
      ++changes;
    }
  }
  return changes;
}

bool feeds_packed(Edit& edit, NodeId id) {
  const ValueId weights = edit.node(id).outputs[0];
  if (edit.leaves_graph(weights)) return false;
  const std::vector<NodeId> readers = edit.readers(weights);
  return !readers.empty() && std::ranges::all_of(readers, [&](NodeId reader) {
    if (edit.node(reader).inputs.size() < 2 || edit.node(reader).inputs[1] != weights) return false;
    if (is_op(edit.node(reader), "DequantizeLinear")) return feeds_packed(edit, reader);
    return small_weights(edit, reader).has_value();
  });
}

}  // namespace sparkpilot
