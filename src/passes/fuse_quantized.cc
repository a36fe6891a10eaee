// Runs quantized graphs in integers. Exporters and quantizers write them as float ops between DequantizeLinear and
// QuantizeLinear; here each such section becomes one op on bytes:
//   Conv, Gemm, MatMul by constant weights, with bias, Relu or Clip   sparkpilot::QConv, sparkpilot::QGemm
//   Add                                                               sparkpilot::QAdd
//   AveragePool, GlobalAveragePool                                    sparkpilot::QAveragePool
//   any chain of elementwise ops on one tensor                        sparkpilot::ByteTable
//   what only moves elements                                          the op itself, on bytes
// QLinearConv, QLinearMatMul, ConvInteger and MatMulInteger with constant weights become QConv and QGemm too.
//
// What does not fit (scales that are not positive numbers, zero points computed at run time, other granularities) stays
// as it is: floats between the two ops, with constant weights dequantized once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/infer.h"
#include "passes/pass.h"
#include "passes/quantized.h"
#include "passes/small_weights.h"

namespace sparkpilot {
namespace {

int64_t code(DType dtype) { return onnx_code(dtype); }

class Quantized {
 public:
  Quantized(Graph& graph, bool training) : edit_(graph), graph_(graph), training_(training) {}

  int run() {
    int changes = dequantize_constants(true);
    for (const NodeId id : graph_.order()) {
      if (!graph_.erased(id)) changes += rewrite(id);
    }
    changes += dequantize_constants(false);
    return changes;
  }

 private:
  bool rewrite(NodeId id);
  bool move_bytes(NodeId id);
  bool concat(NodeId id);
  bool table(NodeId id);
  bool add(NodeId id);
  bool average(NodeId id);
  int dequantize_constants(bool numbers_alone);
  bool is_number(ValueId value);
  bool stays_packed(NodeId dequantize);

  // The value's bytes converted to another quantization.
  ValueId as(NodeId like, const Dequantized& from, NodeId dequantize, NodeId quantize, const Quantization& to) {
    if (from.q == to) return from.bytes;
    const NodeId chain[] = {dequantize, quantize};
    return make_table(like, from.bytes, chain);
  }
  ValueId make_table(NodeId like, ValueId bytes, std::span<const NodeId> chain) {
    return edit_.make(like, "sparkpilot::ByteTable", {bytes}, {{"table", table_of(edit_, chain)}});
  }

  Edit edit_;
  Graph& graph_;
  bool training_;
};

bool Quantized::rewrite(NodeId id) {
  for (const ValueId output : edit_.node(id).outputs) {
    if (!edit_.known(output)) return false;
  }
  if (edit_.node(id).inputs.empty() || !edit_.known(edit_.node(id).inputs[0])) return false;
  return move_bytes(id) || concat(id) || add(id) || average(id) || fuse_quantized_product(edit_, id) || table(id);
}

// op(dequantize(x)) becomes dequantize(op(x)) if op only picks elements of x; not for Pad, whose padding is no element
// of x.
bool Quantized::move_bytes(NodeId id) {
  const Node node = edit_.node(id);
  if (!node.op->traits.picks || node.outputs.size() != 1 || is_one_of(node, {"Concat", "Pad"})) return false;
  const auto from = dequantized(edit_, node.inputs[0]);
  if (!from) return false;
  const NodeId dequantize = edit_.maker(node.inputs[0]);
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = from->bytes;
  const ValueId moved = edit_.remake(id, inputs, node.attrs);
  std::vector<ValueId> back = edit_.node(dequantize).inputs;
  back[0] = moved;
  const ValueId result = edit_.remake(dequantize, back, edit_.node(dequantize).attrs);
  edit_.replace(node.outputs[0], result);
  return true;
}

// Concat of quantized tensors: on bytes, each converted to the output's quantization.
bool Quantized::concat(NodeId id) {
  const Node node = edit_.node(id);
  if (!is_op(node, "Concat")) return false;
  const Requantized to = requantized(edit_, node.outputs[0]);
  if (!to.node.present()) return false;
  std::vector<Dequantized> parts;
  for (const ValueId input : node.inputs) {
    const auto from = dequantized(edit_, input);
    if (!from) return false;
    parts.push_back(*from);
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < parts.size(); ++i) {
    inputs.push_back(as(id, parts[i], edit_.maker(node.inputs[i]), to.node, to.q));
  }
  edit_.replace(edit_.node(to.node).outputs[0], edit_.make(id, "Concat", inputs, node.attrs));
  return true;
}

// A QuantizeLinear whose input is an elementwise function of one tensor of bytes becomes a table.
bool Quantized::table(NodeId id) {
  if (!is_op(edit_.node(id), "QuantizeLinear")) return false;
  const auto to = quantization_of(edit_, id);
  if (!to) return false;
  std::vector<NodeId> chain{id};
  ValueId at = edit_.node(id).inputs[0];
  const Shape shape = edit_.shape(at);
  while (true) {
    const NodeId maker = edit_.maker(at);
    if (!maker.present()) return false;
    chain.push_back(maker);
    if (const auto from = dequantized(edit_, at)) {
      std::reverse(chain.begin(), chain.end());
      const bool same = chain.size() == 2 && from->q == *to;
      edit_.replace(edit_.node(id).outputs[0], same ? from->bytes : make_table(id, from->bytes, chain));
      return true;
    }
    const Node& node = edit_.node(maker);
    if (!node.op->traits.elementwise || !node.op->traits.pure || node.outputs.size() != 1) return false;
    ValueId next;
    for (const ValueId input : node.inputs) {
      if (!input.present()) continue;
      if (edit_.constant(input)) {
        if (edit_.constant(input)->elements() != 1) return false;
      } else {
        if (next.present() && next != input) return false;
        next = input;
      }
    }
    if (!next.present() || !edit_.known(next) || !(edit_.shape(next) == shape)) return false;
    at = next;
  }
}

bool Quantized::add(NodeId id) {
  const Node node = edit_.node(id);
  if (!is_op(node, "Add")) return false;
  const auto a = dequantized(edit_, node.inputs[0]), b = dequantized(edit_, node.inputs[1]);
  if (!a || !b || !(edit_.shape(a->bytes) == edit_.shape(b->bytes))) return false;
  ValueId y = node.outputs[0];
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  absorb_clamps(edit_, y, low, high);
  const Requantized to = requantized(edit_, y);
  if (!to.node.present()) return false;
  const auto ratio = [&](double scale) { return static_cast<float>(scale / to.q.scale); };
  if (!std::isfinite(ratio(a->q.scale)) || !std::isfinite(ratio(b->q.scale))) return false;
  const Attributes attrs{{"a_zero", a->q.zero},          {"b_zero", b->q.zero},         {"a_scale", ratio(a->q.scale)},
                         {"b_scale", ratio(b->q.scale)}, {"y_dtype", code(to.q.dtype)}, {"y_zero", to.q.zero},
                         {"low", to.q.quantize(low)},    {"high", to.q.quantize(high)}};
  edit_.replace(edit_.node(to.node).outputs[0], edit_.make(id, "sparkpilot::QAdd", {a->bytes, b->bytes}, attrs));
  return true;
}

bool Quantized::average(NodeId id) {
  const Node node = edit_.node(id);
  if (!is_one_of(node, {"AveragePool", "GlobalAveragePool"})) return false;
  const auto x = dequantized(edit_, node.inputs[0]);
  const Requantized to = requantized(edit_, node.outputs[0]);
  const Shape shape = edit_.shape(node.inputs[0]);
  if (!x || !to.node.present() || shape.rank() < 3 || shape.rank() > 5) return false;
  const auto scale = static_cast<float>(x->q.scale / to.q.scale);
  if (!std::isfinite(scale)) return false;
  Attributes attrs = node.attrs;
  if (is_op(node, "GlobalAveragePool")) {
    attrs.set("kernel_shape", std::vector<int64_t>(shape.begin() + 2, shape.end()));
  }
  attrs.set("scale", scale);
  attrs.set("x_zero", x->q.zero);
  attrs.set("y_dtype", code(to.q.dtype));
  attrs.set("y_zero", to.q.zero);
  edit_.replace(edit_.node(to.node).outputs[0], edit_.make(id, "sparkpilot::QAveragePool", {x->bytes}, attrs));
  return true;
}

// Whether the value is one element that only elementwise ops read, so it is not weights.
bool Quantized::is_number(ValueId value) {
  const std::vector<NodeId>& readers = edit_.readers(value);
  return edit_.known(value) && edit_.shape(value).elements() == 1 && !edit_.leaves_graph(value) &&
         std::all_of(readers.begin(), readers.end(), [&](NodeId id) { return edit_.node(id).op->traits.elementwise; });
}

int Quantized::dequantize_constants(bool numbers_alone) {
  int changes = 0;
  for (const NodeId id : graph_.order()) {
    if (graph_.erased(id) || !is_op(edit_.node(id), "DequantizeLinear")) continue;
    if (numbers_alone ? !is_number(edit_.node(id).outputs[0]) : stays_packed(id)) continue;
    changes += dequantize_constant(edit_, id);
  }
  return changes;
}

// In a training the frozen weights are read backward, too: what each step decodes takes memory while it is read only.
bool Quantized::stays_packed(NodeId dequantize) {
  const Tensor* codes = edit_.constant(edit_.node(dequantize).inputs[0]);
  const bool small = codes && (codes->dtype() == DType::f8e4m3fn || codes->dtype() == DType::f4e2m1);
  return (training_ && small) || feeds_packed(edit_, dequantize);
}

int fuse(Graph& graph, bool training) {
  Quantized quantized(graph, training);
  const int changes = quantized.run();
  graph.compact();
  return changes;
}

}  // namespace

int fuse_quantized(Graph& graph) { return fuse(graph, false); }

int fuse_quantized_of_training(Graph& graph) {
  const int changes = fuse(graph, true);
  return changes + decode_for_each_reader(graph);
}

}  // namespace sparkpilot
