#include "onnx/compositions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sparkpilot {
namespace {

ValueId cast(Builder& b, ValueId x, DType dtype) {
  return b.dtype(x) == dtype ? x : b.add("Cast", {x}, {{"to", onnx_code(dtype)}});
}

// x / 2 * (1 + erf(x / sqrt(2))), or with tanh.
std::vector<ValueId> gelu(ExpandContext& e) {
  Builder& b = e.b;
  const ValueId x = e.in(0);
  const DType t = b.dtype(x);
  ValueId inner;
  if (e.node.attrs.text("approximate", "none") == "tanh") {
    const ValueId cube = b.add("Mul", {b.add("Mul", {x, x}), x});
    const ValueId sum = b.add("Add", {x, b.add("Mul", {cube, b.scalar(t, 0.044715)})});
    inner = b.add("Tanh", {b.add("Mul", {sum, b.scalar(t, std::sqrt(2 * std::numbers::inv_pi))})});
  } else {
    inner = b.add("Erf", {b.add("Mul", {x, b.scalar(t, std::numbers::sqrt2 / 2)})});
  }
  return {b.add("Mul", {b.add("Mul", {x, b.scalar(t, 0.5)}), b.add("Add", {inner, b.scalar(t, 1)})})};
}

std::vector<ValueId> hard_swish(ExpandContext& e) {
  const Attributes slope{{"alpha", 1.0f / 6}, {"beta", 0.5f}};
  return {e.b.add("Mul", {e.in(0), e.b.add("HardSigmoid", {e.in(0)}, slope)})};
}

std::vector<ValueId> swish(ExpandContext& e) {
  const ValueId alpha = e.b.scalar(e.b.dtype(e.in(0)), e.node.attrs.real("alpha", 1));
  return {e.b.add("Mul", {e.in(0), e.b.add("Sigmoid", {e.b.add("Mul", {e.in(0), alpha})})})};
}

std::vector<ValueId> mish(ExpandContext& e) {
  return {e.b.add("Mul", {e.in(0), e.b.add("Tanh", {e.b.add("Softplus", {e.in(0)})})})};
}

// What the two norms share: the input in the type they compute in, and the axes they normalise over.
struct Norm {
  Builder& b;
  ValueId x, axes;
  double epsilon;

  explicit Norm(ExpandContext& e) : b(e.b), epsilon(e.node.attrs.real("epsilon", 1e-5f)) {
    x = cast(b, e.in(0), b.dtype(e.in(0)) == DType::f64 ? DType::f64 : DType::f32);
    std::vector<int64_t> over;
    const int rank = b.shape(x).rank();
    for (int axis = normalize_axis(e.node.attrs.integer("axis", -1), rank); axis < rank; ++axis) over.push_back(axis);
    axes = b.ints(over);
  }
  // sqrt(mean(v * v) + epsilon)
  ValueId deviation(ValueId v) {
    const ValueId variance = b.add("ReduceMean", {b.add("Mul", {v, v}), axes});
    return b.add("Sqrt", {b.add("Add", {variance, b.scalar(b.dtype(v), epsilon)})});
  }
};

std::vector<ValueId> layer_norm(ExpandContext& e) {
  Norm n(e);
  const ValueId mean = n.b.add("ReduceMean", {n.x, n.axes});
  const ValueId distance = n.b.add("Sub", {n.x, mean}), deviation = n.deviation(distance);
  ValueId y = cast(n.b, n.b.add("Div", {distance, deviation}), n.b.dtype(e.in(0)));
  y = n.b.add("Mul", {y, e.in(1)});
  if (e.has(2)) y = n.b.add("Add", {y, e.in(2)});
  std::vector<ValueId> out{y};
  if (e.node.outputs.size() > 1) out.push_back(mean);
  if (e.node.outputs.size() > 2) out.push_back(n.b.add("Reciprocal", {deviation}));
  return out;
}

std::vector<ValueId> rms_norm(ExpandContext& e) {
  Norm n(e);
  const ValueId y = n.b.add("Div", {n.x, n.deviation(n.x)});
  return {n.b.add("Mul", {cast(n.b, y, n.b.dtype(e.in(1))), e.in(1)})};
}

constexpr std::pair<std::string_view, ExpandFn> kCompositions[] = {
    {"Gelu", gelu}, {"HardSwish", hard_swish},      {"LayerNormalization", layer_norm},
    {"Mish", mish}, {"RMSNormalization", rms_norm}, {"Swish", swish},
};

}  // namespace

ExpandFn find_composition(const OpDef& op) {
  const auto found = std::ranges::find(kCompositions, op.name, [](const auto& entry) { return entry.first; });
  return op.domain.empty() && found != std::end(kCompositions) ? found->second : nullptr;
}

}  // namespace sparkpilot
