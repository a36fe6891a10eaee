#include "train/output_scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "ir/op.h"
#include "route/contract/outputs.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::train {
namespace {

constexpr float kLeastDeviation = 0.01f;

// Heads of n means and n log scales, if they have one hypothesis.
constexpr std::string_view kLaplacian[] = {"plan",
                                           "lead",
                                           "lane_lines",
                                           "road_edges",
                                           "pose",
                                           "road_transform",
                                           "sim_pose",
                                           "action",
                                           "wide_from_device_euler",
                                           "desired_curvature"};

bool has_one_hypothesis(std::string_view head, int64_t width) {
  using namespace drive;  // NOLINT(google-build-using-namespace): openpilot's sizes
  if (head == "plan") return width == 2 * kPoints * kPlanWidth;
  if (head == "lead") return width == 2 * kLeads * kLeadTimes * kLeadWidth;
  return width % 2 == 0 && !(head == "action" && width == 2);
}

// Multiplies or divides the rows of a matrix.
Tensor rows_by(const Tensor& matrix, bool transposed, const std::function<float(float, size_t)>& change) {
  Tensor out = matrix.clone();
  const auto columns = static_cast<size_t>(matrix.shape()[1]);
  const auto values = out.data<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = change(values[i], transposed ? i % columns : i / columns);
  return out;
}

// Where a last layer's result lies in the output.
struct Piece {
  ValueId weight, bias;
  NodeId product, sum;  // sum: absent for Gemm
  bool transposed = false;
  int64_t begin = 0;
};

class LastLayers {
 public:
  explicit LastLayers(const Graph& graph) : graph_(graph), uses_(graph.uses()) {}

  std::vector<Piece> run() {
    follow(graph_.outputs()[0].value, 0);
    return std::move(out_);
  }

 private:
  bool is_alone(ValueId value) const { return uses_[static_cast<size_t>(value.index)].size() == 1; }
  bool is_bias(ValueId value, int64_t width) const {
    const Tensor* constant = graph_.constant(value);
    return constant && constant->dtype() == DType::f32 && constant->elements() == width && is_alone(value);
  }
  bool is_weight(ValueId value) const {
    const Tensor* constant = graph_.constant(value);
    return constant && constant->dtype() == DType::f32 && constant->shape().rank() == 2 && is_alone(value);
  }

  void follow(ValueId value, int64_t begin) {
    const NodeId id = graph_.value(value).producer;
    if (!id.present() || !graph_.value(value).shape) return;
    const Node& node = graph_.node(id);
    const Shape& shape = *graph_.value(value).shape;
    const int64_t width = shape[shape.rank() - 1];
    if (node.op->name == "Cast") return follow(node.inputs[0], begin);
    if (node.op->name == "Concat" && normalize_axis(node.attrs.integer("axis"), shape.rank()) == shape.rank() - 1) {
      for (const ValueId input : node.inputs) {
        follow(input, begin);
        const Shape& part = *graph_.value(input).shape;
        begin += part[part.rank() - 1];
      }
      return;
    }
    if (node.op->name == "Gemm" && node.inputs.size() == 3 && node.inputs[2].present() && is_weight(node.inputs[1]) &&
        is_bias(node.inputs[2], width) && node.attrs.real("alpha", 1) == 1 && node.attrs.real("beta", 1) == 1) {
      out_.push_back({node.inputs[1], node.inputs[2], id, {}, node.attrs.integer("transB", 0) == 0, begin});
    }
    if (node.op->name != "Add") return;
    // What other parts of the network add to a last layer's result, one after the other.
    for (const std::string_view op : {"Gemm", "Add"}) {
      for (const ValueId part : node.inputs) {
        if (op_of(part) != op || graph_.value(part).shape != shape) continue;
        const size_t before = out_.size();
        follow(part, begin);
        if (out_.size() > before) return;
      }
    }
    for (const size_t which : {0u, 1u}) {
      if (op_of(node.inputs[which]) != "MatMul") continue;
      const NodeId product = graph_.value(node.inputs[which]).producer;
      const Node& matmul = graph_.node(product);
      if (!is_weight(matmul.inputs[1]) || !is_bias(node.inputs[1 - which], width)) continue;
      out_.push_back({matmul.inputs[1], node.inputs[1 - which], product, id, true, begin});
    }
  }
  std::string_view op_of(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.present() ? graph_.node(id).op->name : std::string_view();
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<Piece> out_;
};

}  // namespace

OutputUnits output_units(const Samples& samples, std::string_view field, const OutputSlices& slices, int64_t most) {
  const size_t at = place_of(samples.fields(), field);
  const auto width = static_cast<size_t>(samples.fields()[at].shape.elements());
  std::vector<double> sum(width), squares(width);
  const int64_t count = std::min(most, samples.size());
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<Tensor> sample = sample_of(samples, i * samples.size() / count);
    for (size_t k = 0; k < width; ++k) {
      const double value = sample[at].data<float>()[k];
      sum[k] += value;
      squares[k] += value * value;
    }
  }
  OutputUnits out{.deviation = std::vector<float>(width, 1), .mean = std::vector<float>(width, 0), .log_scales = {}};
  for (const auto& [head, slice] : slices) {
    const auto [begin, end] = slice.resolve(static_cast<int64_t>(width));
    if (std::ranges::find(kLaplacian, head) == std::end(kLaplacian) || !has_one_hypothesis(head, end - begin)) continue;
    const auto n = static_cast<size_t>((end - begin) / 2);
    for (size_t k = static_cast<size_t>(begin); k < static_cast<size_t>(begin) + n; ++k) {
      const double mean = sum[k] / static_cast<double>(count);
      const double variance = std::max(0.0, squares[k] / static_cast<double>(count) - mean * mean);
      out.mean[k] = static_cast<float>(mean);
      out.deviation[k] = std::max(kLeastDeviation, static_cast<float>(std::sqrt(variance)));
      out.mean[k + n] = std::log(out.deviation[k]);
      out.log_scales.push_back(static_cast<int64_t>(k + n));
    }
  }
  return out;
}

std::vector<ScaledLayer> scale_outputs(Graph& graph, const OutputUnits& units,
                                       const std::map<ValueId, std::string>& weights, const std::string& prefix,
                                       bool fresh) {
  std::vector<ScaledLayer> out;
  Builder b(graph);
  for (const Piece& piece : LastLayers(graph).run()) {
    const auto weight = weights.find(piece.weight), bias = weights.find(piece.bias);
    if (weight == weights.end() || bias == weights.end()) continue;
    const int64_t rows = graph.constant(piece.bias)->elements();
    if (piece.begin + rows > std::ssize(units.mean)) continue;
    Tensor scale(DType::f32, Shape{rows}), mean(DType::f32, Shape{rows});
    std::copy_n(units.deviation.begin() + piece.begin, rows, scale.data<float>().begin());
    std::copy_n(units.mean.begin() + piece.begin, rows, mean.data<float>().begin());
    const auto s = scale.data<float>(), m = mean.data<float>();
    Value& w = graph.value(piece.weight);
    w.constant = rows_by(w.constant, piece.transposed, [&](float x, size_t row) { return fresh ? 0 : x / s[row]; });
    Value& v = graph.value(piece.bias);
    v.constant = v.constant.clone();
    for (size_t i = 0; i < s.size(); ++i) {
      float& x = v.constant.data<float>()[i];
      x = fresh ? 0 : (x - m[i]) / s[i];
    }
    ScaledLayer layer{.weight = weight->second,
                      .bias = bias->second,
                      .scale = prefix + weight->second + ".unit",
                      .mean = prefix + bias->second + ".mean",
                      .transposed = piece.transposed};
    const auto state = [&](const Tensor& tensor, const std::string& name) {
      const ValueId id = graph.add_state(tensor, name, false);
      graph.set_next(id, id);
      return id;
    };
    const ValueId scales = state(scale, layer.scale), means = state(mean, layer.mean);
    const ValueId by = piece.transposed ? scales : b.add("Reshape", {scales, b.ints({rows, 1})});
    const ValueId whole_weight = b.add("Mul", {piece.weight, by});
    const Shape bias_shape = b.shape(piece.bias);
    const auto as_bias = [&](ValueId x) { return b.add("Reshape", {x, b.ints(bias_shape.dims())}); };
    const ValueId whole_bias = b.add("Add", {b.add("Mul", {piece.bias, as_bias(scales)}), as_bias(means)});
    graph.node(piece.product).inputs[1] = whole_weight;
    Node& sum = graph.node(piece.sum.present() ? piece.sum : piece.product);
    std::ranges::replace(sum.inputs, piece.bias, whole_bias);
    out.push_back(std::move(layer));
  }
  return out;
}

Tensor unscaled_weight(const Tensor& weight, const Tensor& scale, bool transposed) {
  const auto s = scale.data<float>();
  return rows_by(weight, transposed, [&](float x, size_t row) { return x * s[row]; });
}

Tensor unscaled_bias(const Tensor& bias, const Tensor& scale, const Tensor& mean) {
  Tensor out = bias.clone();
  for (size_t i = 0; i < scale.data<float>().size(); ++i) {
    float& x = out.data<float>()[i];
    x = x * scale.data<float>()[i] + mean.data<float>()[i];
  }
  return out;
}

namespace {

constexpr double kImageMean = 128, kImageDeviation = 64;

// Whether a value is an input of bytes, or several of them side by side.
bool is_image(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  if (v.kind == ValueKind::input) return v.dtype == DType::u8;
  if (!v.producer.present()) return false;
  const Node& node = graph.node(v.producer);
  return (node.op->name == "Cast" || node.op->name == "Concat") &&
         std::ranges::all_of(node.inputs, [&](ValueId input) { return is_image(graph, input); });
}

// Adds to each bias, or takes from it, what its filter makes of an image's mean.
void move_bias(Tensor& bias, const Tensor& weight, double by) {
  const auto each = static_cast<size_t>(weight.elements() / weight.shape()[0]);
  for (size_t o = 0; o < bias.data<float>().size(); ++o) {
    double sum = 0;
    for (size_t i = 0; i < each; ++i) sum += static_cast<double>(weight.data<float>()[o * each + i]);
    bias.data<float>()[o] += static_cast<float>(by * sum);
  }
}

void multiply(Tensor& tensor, double by) {
  for (float& x : tensor.data<float>()) x = static_cast<float>(by * static_cast<double>(x));
}

}  // namespace

std::vector<ImageLayer> scale_images(Graph& graph, const std::map<ValueId, std::string>& weights) {
  std::vector<ImageLayer> out;
  Builder b(graph);
  const auto uses = graph.uses();
  for (const NodeId id : graph.order()) {
    const Node node = graph.node(id);
    if (node.op->name != "Conv" || node.inputs.size() < 3 || !is_image(graph, node.inputs[0])) continue;
    const auto weight = weights.find(node.inputs[1]), bias = weights.find(node.inputs[2]);
    const auto alone = [&](ValueId v) { return uses[static_cast<size_t>(v.index)].size() == 1; };
    if (weight == weights.end() || bias == weights.end() || !alone(weight->first) || !alone(bias->first)) continue;
    Tensor w = graph.value(weight->first).constant.clone(), v = graph.value(bias->first).constant.clone();
    move_bias(v, w, kImageMean);
    multiply(w, kImageDeviation);
    std::vector<int64_t> axes;
    for (int axis = 1; axis < w.shape().rank(); ++axis) axes.push_back(axis);
    graph.value(weight->first).constant = w;
    graph.value(bias->first).constant = v;
    const ValueId sums = b.add("ReduceSum", {weight->first, b.ints(axes)}, {{"keepdims", int64_t{0}}});
    const ValueId whole_weight = b.add("Mul", {weight->first, b.scalar(DType::f32, 1 / kImageDeviation)});
    const ValueId whole_bias =
        b.add("Sub", {bias->first, b.add("Mul", {sums, b.scalar(DType::f32, kImageMean / kImageDeviation)})});
    graph.node(id).inputs[1] = whole_weight;
    graph.node(id).inputs[2] = whole_bias;
    out.push_back({weight->second, bias->second});
  }
  return out;
}

std::pair<Tensor, Tensor> unscaled_image_layer(const Tensor& weight, const Tensor& bias) {
  Tensor w = weight.clone(), v = bias.clone();
  multiply(w, 1 / kImageDeviation);
  move_bias(v, w, -kImageMean);
  return {w, v};
}

}  // namespace sparkpilot::train
