// Replaces convolutions and products of quantized tensors with constant weights by sparkpilot::QConv and
// sparkpilot::QGemm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/infer.h"
#include "passes/quantized.h"

namespace sparkpilot {
namespace {

constexpr int64_t kMaxDepth = int64_t{1} << 15;  // products in a sum, so that it fits in 32 bits

int64_t code(DType dtype) { return onnx_code(dtype); }

// A convolution or product that is to become QConv or QGemm.
struct Product {
  NodeId node;
  bool conv = false;
  ValueId x;
  double x_scale = 1;
  QuantizedWeights weights;
  ValueId y;                 // the last value computed so far, in floats
  std::vector<double> bias;  // by channel, in units of the integer sum; empty: no bias
  bool transposed = false;
  Attributes attrs;

  int64_t channels() const { return static_cast<int64_t>(weights.scales.size()); }
  double scale(size_t c) const { return x_scale * weights.scales[c]; }
  // In f32, rounded after each operation as QLinearConv and QLinearMatMul do, so that ties fall to the same side.
  float multiplier(size_t c, double y_scale) const {
    return static_cast<float>(x_scale) * static_cast<float>(weights.scales[c]) / static_cast<float>(y_scale);
  }
  bool has_safe_multipliers(double y_scale) const;
};

// Whether nothing comes close to the limits of f32.
bool Product::has_safe_multipliers(double y_scale) const {
  const auto is_safe = [](double v) { return v <= 1e30 && v >= 1e-30; };
  for (size_t c = 0; c < weights.scales.size(); ++c) {
    if (!is_safe(scale(c)) || !is_safe(scale(c) / y_scale)) return false;
  }
  return true;
}

class Products {
 public:
  explicit Products(Edit& edit) : edit_(edit), graph_(edit.graph()) {}
  bool product(NodeId id);
  bool linear(NodeId id);
  bool integer(NodeId id);

 private:
  std::optional<Product> read_product(NodeId id);
  bool take_bias(Product& p, ValueId bias);
  void take_added_bias(Product& p);
  void finish(const Product& p, std::vector<ValueId> inputs, ValueId result, const Quantization* q, double low,
              double high);
  std::vector<ValueId> operands(const Product& p, double y_scale);
  ValueId floats(std::span<const float> values) {
    Tensor t(DType::f32, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data<float>().begin());
    return graph_.add_constant(std::move(t));
  }

  Edit& edit_;
  Graph& graph_;
};

std::optional<Product> Products::read_product(NodeId id) {
  const Node& node = edit_.node(id);
  Product p;
  p.node = id;
  p.conv = is_op(node, "Conv");
  const bool gemm = is_op(node, "Gemm");
  if (!p.conv && !gemm && !is_op(node, "MatMul")) return {};
  const auto x = dequantized(edit_, node.inputs[0]);
  if (!x) return {};
  if (gemm) {
    if (node.attrs.integer("transA", 0) != 0 || node.attrs.real("alpha", 1) != 1) return {};
    p.transposed = node.attrs.integer("transB", 0) != 0;
  }
  if (!p.conv && (edit_.shape(node.inputs[1]).rank() != 2 || edit_.shape(node.inputs[0]).rank() < 2)) return {};
  auto weights = quantized_weights(edit_, node.inputs[1], p.conv || p.transposed ? 0 : 1);
  if (!weights || weights->scales.empty() ||
      weights->bytes.elements() / static_cast<int64_t>(weights->scales.size()) > kMaxDepth) {
    return {};
  }
  p.x = x->bytes;
  p.x_scale = x->q.scale;
  p.weights = std::move(*weights);
  p.y = node.outputs[0];
  if (p.conv) p.attrs = node.attrs;
  if (p.transposed) p.attrs.set("transB", int64_t{1});
  p.attrs.set("x_zero", x->q.zero);
  if (node.inputs.size() > 2 && node.inputs[2].present()) {
    if (gemm && node.attrs.real("beta", 1) != 1) return {};
    if (!take_bias(p, node.inputs[2])) return {};
  }
  return p;
}

// Reads a bias: a constant, or a DequantizeLinear of constant integers, one element per channel.
bool Products::take_bias(Product& p, ValueId bias) {
  Tensor values;
  if (const Tensor* constant = edit_.constant(bias)) {
    values = *constant;
  } else {
    const NodeId id = edit_.maker(bias, "DequantizeLinear");
    if (!id.present()) return false;
    std::vector<Tensor> inputs;
    for (const ValueId input : edit_.node(id).inputs) {
      if (input.present() && !edit_.constant(input)) return false;
      inputs.push_back(input.present() ? *edit_.constant(input) : Tensor());
    }
    values = evaluate(edit_.node(id), inputs)[0];
  }
  const Shape& shape = values.shape();
  if (values.dtype() != DType::f32 || values.elements() != p.channels() ||
      (shape.rank() > 0 && shape[shape.rank() - 1] != p.channels())) {
    return false;
  }
  p.bias.clear();
  for (int64_t c = 0; c < p.channels(); ++c) {
    const double v = static_cast<double>(values.data<float>()[static_cast<size_t>(c)]);
    if (!std::isfinite(v)) return false;
    p.bias.push_back(v / p.scale(static_cast<size_t>(c)));
  }
  return true;
}

// The bias of a MatMul is an Add after it.
void Products::take_added_bias(Product& p) {
  if (p.conv || !p.bias.empty()) return;
  const NodeId next = edit_.only_reader(p.y);
  if (!next.present() || !is_op(edit_.node(next), "Add")) return;
  const Node& node = edit_.node(next);
  const ValueId other = node.inputs[node.inputs[0] == p.y ? 1 : 0];
  if (other == p.y || !(edit_.shape(node.outputs[0]) == edit_.shape(p.y))) return;
  const ValueId result = node.outputs[0];
  if (take_bias(p, other)) p.y = result;
}

// W, multiplier, bias, shift. A bias that is a whole number of units (to within its own rounding) is added to the
// integer sum.
std::vector<ValueId> Products::operands(const Product& p, double y_scale) {
  constexpr double kRounding = 2e-7, kMax = 1 << 30;
  std::vector<float> multiplier, shift;
  for (size_t c = 0; c < p.weights.scales.size(); ++c) multiplier.push_back(p.multiplier(c, y_scale));
  std::vector<ValueId> out{graph_.add_constant(p.weights.bytes), floats(multiplier)};
  if (p.bias.empty()) return out;
  const bool whole = std::all_of(p.bias.begin(), p.bias.end(), [](double b) {
    return std::abs(b) <= kMax && std::abs(b - std::nearbyint(b)) <= kRounding * std::abs(b);
  });
  if (whole) {
    Tensor t(DType::i32, Shape{p.channels()});
    for (size_t c = 0; c < p.bias.size(); ++c) t.data<int32_t>()[c] = static_cast<int32_t>(std::nearbyint(p.bias[c]));
    out.push_back(graph_.add_constant(std::move(t)));
    return out;
  }
  for (size_t c = 0; c < p.bias.size(); ++c) {
    shift.push_back(static_cast<float>(p.bias[c] * p.scale(c) / y_scale));
  }
  out.push_back({});
  out.push_back(floats(shift));
  return out;
}

bool Products::product(NodeId id) {
  std::optional<Product> p = read_product(id);
  if (!p) return false;
  take_added_bias(*p);
  ValueId y = p->y;
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  absorb_clamps(edit_, y, low, high);
  Requantized to = requantized(edit_, y);
  const double y_scale = to.node.present() ? to.q.scale : 1;
  if (!p->has_safe_multipliers(y_scale)) return false;
  std::vector<ValueId> inputs = operands(*p, y_scale);
  inputs.insert(inputs.begin(), p->x);
  if (!to.node.present()) {
    finish(*p, inputs, p->y, nullptr, 0, 0);
    return true;
  }
  // A following Relu or Clip in the same quantization only narrows the range.
  ValueId result = edit_.node(to.node).outputs[0];
  if (const NodeId back = edit_.only_reader(result); back.present() && quantization_of(edit_, back) == to.q) {
    ValueId clamped = edit_.node(back).outputs[0];
    double least = low, most = high;
    if (is_op(edit_.node(back), "DequantizeLinear") && absorb_clamps(edit_, clamped, least, most)) {
      const Requantized again = requantized(edit_, clamped);
      if (again.node.present() && again.q == to.q) {
        result = edit_.node(again.node).outputs[0];
        low = least;
        high = most;
      }
    }
  }
  finish(*p, inputs, result, &to.q, low, high);
  return true;
}

void Products::finish(const Product& p, std::vector<ValueId> inputs, ValueId result, const Quantization* q, double low,
                      double high) {
  Attributes attrs = p.attrs;
  attrs.set("y_dtype", code(q ? q->dtype : DType::f32));
  if (q) {
    attrs.set("y_zero", q->zero);
    attrs.set("low", q->quantize(low));
    attrs.set("high", q->quantize(high));
  }
  edit_.replace(result,
                edit_.make(p.node, p.conv ? "sparkpilot::QConv" : "sparkpilot::QGemm", std::move(inputs), attrs));
}

// QLinearConv: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias; QLinearMatMul the same without bias.
bool Products::linear(NodeId id) {
  const Node node = edit_.node(id);
  const bool conv = is_op(node, "QLinearConv");
  if (!conv && !is_op(node, "QLinearMatMul")) return false;
  std::vector<const Tensor*> constants;
  for (const ValueId input : node.inputs) constants.push_back(input.present() ? edit_.constant(input) : nullptr);
  for (const size_t i : {1, 2, 3, 4, 5, 6, 7}) {
    if (!constants[i] || ((i < 3 || i > 5) && constants[i]->elements() != 1)) return false;
  }
  const auto byte = [](DType dtype) { return dtype == DType::u8 || dtype == DType::i8; };
  if (!byte(edit_.dtype(node.inputs[0])) || !byte(edit_.dtype(node.outputs[0]))) return false;
  if (!conv && (constants[3]->shape().rank() != 2 || edit_.shape(node.inputs[0]).rank() < 2)) return false;
  auto weights = weights_without_zero(*constants[3], constants[4], constants[5], conv ? 0 : 1);
  if (!weights || weights->scales.empty()) return false;
  if (weights->bytes.elements() / static_cast<int64_t>(weights->scales.size()) > kMaxDepth) return false;
  Product p;
  p.node = id;
  p.conv = conv;
  p.x = node.inputs[0];
  p.x_scale = constants[1]->to_scalar();
  p.weights = std::move(*weights);
  p.attrs = node.attrs;
  p.attrs.set("x_zero", static_cast<int64_t>(constants[2]->to_scalar()));
  Quantization q{edit_.dtype(node.outputs[0]), constants[6]->to_scalar(),
                 static_cast<int64_t>(constants[7]->to_scalar())};
  if (!p.has_safe_multipliers(q.scale)) return false;
  std::vector<ValueId> inputs = operands(p, q.scale);
  inputs.insert(inputs.begin(), p.x);
  if (node.inputs.size() > 8 && node.inputs[8].present()) {
    if (!constants[8]) return false;
    inputs.push_back(node.inputs[8]);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  finish(p, inputs, node.outputs[0], &q, -infinity, infinity);
  return true;
}

// ConvInteger and MatMulInteger: x, w, x_zero, w_zero. The zero point of x may be computed at run time.
bool Products::integer(NodeId id) {
  const Node node = edit_.node(id);
  const bool conv = is_op(node, "ConvInteger");
  if (!conv && !is_op(node, "MatMulInteger")) return false;
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ValueId{}; };
  const Tensor* bytes = edit_.constant(input(1));
  const Tensor* zero = input(3).present() ? edit_.constant(input(3)) : nullptr;
  if (!bytes || (input(3).present() && !zero)) return false;
  if (input(2).present() && (!edit_.known(input(2)) || edit_.shape(input(2)).elements() != 1)) return false;
  if (!conv && (bytes->shape().rank() != 2 || edit_.shape(input(0)).rank() < 2)) return false;
  auto weights = weights_without_zero(*bytes, nullptr, zero, conv ? 0 : 1);
  if (!weights || weights->scales.empty()) return false;
  if (weights->bytes.elements() / static_cast<int64_t>(weights->scales.size()) > kMaxDepth) return false;
  Attributes attrs = node.attrs;
  attrs.set("y_dtype", code(DType::i32));
  std::vector<ValueId> inputs{input(0), graph_.add_constant(weights->bytes),
                              floats(std::vector<float>(weights->scales.size(), 1))};
  if (input(2).present()) {
    inputs.resize(5);
    inputs.push_back(input(2));
  }
  edit_.replace(node.outputs[0], edit_.make(id, conv ? "sparkpilot::QConv" : "sparkpilot::QGemm", inputs, attrs));
  return true;
}

}  // namespace

bool fuse_quantized_product(Edit& edit, NodeId id) {
  Products products(edit);
  return products.product(id) || products.linear(id) || products.integer(id);
}

}  // namespace sparkpilot
