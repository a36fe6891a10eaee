// FlexAttention, expanded to simpler nodes: scores = scale q k^T, then the graph score_mod, softmax, the graph
// prob_mod, and the product with the values. The nodes of the two graphs are inlined.
#include <cmath>
#include <memory>

#include "ir/id_map.h"
#include "ir/infer.h"
#include "ops/control/body.h"
#include "ops/registry.h"

namespace sparkpilot::flex_attention_ops {
namespace {

ValueId cast(Builder& b, ValueId v, DType dtype) {
  return b.dtype(v) == dtype ? v : b.add("Cast", {v}, {{"to", onnx_code(dtype)}});
}

// Adds the nodes of `body`, reading `inputs` instead of its inputs; returns its first output.
ValueId inlined(Builder& b, const Graph& body, const std::vector<ValueId>& inputs) {
  ValueMap<ValueId> slot(body.value_count());
  for (int i = 0; i < body.value_count(); ++i) {
    if (const Tensor* constant = body.constant(ValueId{i})) slot[ValueId{i}] = b.constant(*constant);
  }
  for (size_t i = 0; i < inputs.size(); ++i) slot[body.inputs()[i]] = inputs[i];
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    std::vector<ValueId> operands;
    for (const ValueId input : node.inputs) operands.push_back(input.present() ? slot[input] : ValueId{});
    const NodeId copy =
        b.graph().add_node(*node.op, std::move(operands), node.attrs, static_cast<int>(node.outputs.size()), node.name);
    infer_node(b.graph(), copy);
    for (size_t i = 0; i < node.outputs.size(); ++i) slot[node.outputs[i]] = b.graph().node(copy).outputs[i];
  }
  return slot[body.outputs()[0].value];
}

// The graph attribute `key` applied to `x`, or `x` itself if the attribute is absent.
ValueId modified(ExpandContext& e, std::string_view key, ValueId x) {
  if (!e.node.attrs.has(key)) return x;
  const int captures = capture_count(e.node.attrs, static_cast<int>(e.node.inputs.size()));
  std::vector<ValueId> inputs{x};
  inputs.insert(inputs.end(), e.node.inputs.end() - captures, e.node.inputs.end());
  const Graph& body = checked_body(e.node.attrs, key, inputs.size(), 1);
  return inlined(e.b, body, inputs);
}

void check_shapes(const Shape& q, const Shape& k, const Shape& v) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k[0] == q[0] && v[0] == q[0] && k[3] == q[3] &&
                    v[1] == k[1] && v[2] == k[2] && k[1] > 0 && q[1] % k[1] == 0;
  if (!fits) fail("queries {}, keys {} and values {} do not fit each other", q.str(), k.str(), v.str());
}

DType softmax_dtype(const Attributes& attrs, DType dtype) {
  if (!attrs.has("softmax_precision")) return dtype == DType::f64 ? DType::f64 : DType::f32;
  const std::optional<DType> given = dtype_from_onnx(attrs.integer("softmax_precision"));
  if (!given || !contains(FloatTypes{}, *given)) fail("softmax_precision names no float type");
  return *given;
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const DType dtype = b.dtype(e.in(0));
  if (!contains(FloatTypes{}, dtype)) fail("input 0 is {}, expected a float type", name(dtype));
  const Shape q = b.shape(e.in(0)), k = b.shape(e.in(1)), v = b.shape(e.in(2));
  check_shapes(q, k, v);
  const DType compute = softmax_dtype(e.node.attrs, dtype);
  const double fallback = q[3] > 0 ? 1 / std::sqrt(static_cast<double>(q[3])) : 1;
  const double scale = e.node.attrs.has("scale") ? static_cast<double>(e.node.attrs.real("scale", 1)) : fallback;
  // Query heads that share a key head become more rows of one matrix.
  const int64_t rows = q[1] / k[1] * q[2];
  const auto split = [&](ValueId x, int64_t last) { return b.add("Reshape", {x, b.ints({q[0], k[1], rows, last})}); };
  const auto joined = [&](ValueId x, int64_t last) { return b.add("Reshape", {x, b.ints({q[0], q[1], q[2], last})}); };
  const ValueId keys = b.add("Transpose", {cast(b, e.in(1), compute)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId queries = b.add("Mul", {cast(b, e.in(0), compute), b.scalar(compute, scale)});
  ValueId x = joined(b.add("MatMul", {split(queries, q[3]), keys}), k[2]);
  x = modified(e, "score_mod", x);
  x = b.add("Softmax", {cast(b, x, compute)}, {{"axis", int64_t{-1}}});
  x = cast(b, modified(e, "prob_mod", x), compute);
  const ValueId y = b.add("MatMul", {split(x, k[2]), cast(b, e.in(2), compute)});
  return {cast(b, joined(y, v[3]), dtype)};
}

constexpr AttrSpec kAttrs[] = {{"captures", AttrType::integer},
                               {"prob_mod", AttrType::graph},
                               {"scale", AttrType::real},
                               {"score_mod", AttrType::graph},
                               {"softmax_precision", AttrType::integer}};

const OpDef kOps[] = {{.name = "FlexAttention",
                       .domain = "ai.onnx.preview",
                       .doc = "Attention with graphs that change scores and weights.",
                       .since = 1,
                       .inputs = {3, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .expand = expand}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::flex_attention_ops
