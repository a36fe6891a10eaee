// Policy: one transformer block over ten tokens picked from the feature history, then two deep heads.
#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr int64_t kHeadCount = 8;  // attention heads

// A sequence of Gemm and Relu.
ValueId mlp(Layers& l, std::string_view name, ValueId x, std::initializer_list<int64_t> widths) {
  const Layers::Scope scope(l, name);
  int index = 0;
  for (const int64_t width : widths) x = l.relu(l.linear(fmt::format("{}", 2 * index++), x, width, kReluGain));
  return x;
}

ValueId residual_blocks(Layers& l, ValueId x, int count, int64_t hidden) {
  for (int block = 0; block < count; ++block) x = l.residual_block(fmt::format("resblocks.{}", block), x, hidden);
  return x;
}

// The desire history and the plain vectors as one token [1, 1, C].
ValueId context_token(Layers& l, ValueId desire, std::vector<ValueId> context, const PolicySize& size) {
  const Layers::Scope scope(l, "context");
  context.insert(context.begin(), l.reshape(desire, {1, l.shape(desire).elements()}));
  ValueId x = mlp(l, "in", l.concat(context, 1), {size.context, size.context});
  x = l.residual_block("resblock", x, size.context);
  return l.node("Unsqueeze", {l.linear("out", x, 512), l.ints({1})});
}

ValueId transformer(Layers& l, ValueId tokens, const PolicySize& size) {
  const Layers::Scope scope(l, "temporal");
  // Features are vectors of length one, so their elements are small: the gain of 16 makes them larger.
  const ValueId embedded = l.relu(l.linear_tokens("in", tokens, size.width, 16));
  ValueId x = l.layer_norm("ln_1", embedded);
  x = l.add(x, l.attention("attn", x, kHeadCount));
  ValueId inner = l.linear_tokens("mlp.c_fc", l.layer_norm("ln_2", x), size.mlp);
  inner = l.node("Elu", {inner}, {{"alpha", 1.0f}});
  x = l.add(x, l.linear_tokens("mlp.c_proj", inner, size.width));
  const ValueId sum = l.node("ReduceSum", {x, l.ints({1})}, {{"keepdims", int64_t{0}}});
  return l.mul(sum, l.scalar(0.25));  // the sum is over ten tokens
}

// The curvature that the driver would choose, from the trunk, the speed, the delay and the last curvature.
ValueId curvature_head(Layers& l, ValueId x, ValueId steering, int64_t width) {
  const Layers::Scope head(l, "desired_curvature");
  const ValueId y = mlp(l, "in", l.concat({x, steering}, 1), {width});
  return l.linear("out", residual_blocks(l, y, 2, width), 2);
}

}  // namespace

ValueId zoo_input(Layers& l, const std::string& name, const Shape& shape, DType dtype) {
  const ValueId input = l.graph().add_input(name, dtype, shape);
  return dtype == DType::f16 ? input : l.cast(input, DType::f16);
}

ZooHead zoo_padding(Layers& l, const std::string& name, int64_t width) {
  return {"pad", l.graph().add_constant(Tensor::zeros(DType::f16, Shape{1, width}), name)};
}

ZooHeads policy_heads(Layers& l, PolicyInputs inputs, const PolicySize& size, int64_t plan) {
  const Layers::Scope scope(l, "policy");
  const Attributes time{{"axis", int64_t{1}}};
  const int64_t rows = l.shape(inputs.features)[1], step = rows / 25 * 3;
  const ValueId now = l.node("Gather", {inputs.features, l.ints({rows - 1})}, time);
  const ValueId times = l.ints({0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step});
  std::vector<ValueId> tokens{now};
  if (rows > 1) tokens.push_back(l.node("Gather", {inputs.features, times}, time));
  tokens.push_back(context_token(l, inputs.desire, std::move(inputs.context), size));
  ValueId x = transformer(l, l.concat(tokens, 1), size);
  x = residual_blocks(l, mlp(l, "summary", x, {size.width}), 2, size.trunk);

  ZooHeads heads;
  {
    const Layers::Scope head(l, "plan");
    ValueId y = mlp(l, "in", x, {size.plan, size.plan, size.plan});
    y = mlp(l, "last", residual_blocks(l, y, size.plan_blocks, size.plan), {size.plan});
    heads.push_back({"plan", l.linear("out", y, plan)});
  }
  {
    const Layers::Scope head(l, "desire_state");
    ValueId y = mlp(l, "in", x, {size.desire, size.desire});
    y = mlp(l, "last", residual_blocks(l, y, size.desire_blocks, size.desire), {size.desire});
    heads.push_back({"desire_state", l.linear("out", y, 8)});
  }
  if (inputs.steering) heads.push_back({"desired_curvature", curvature_head(l, x, *inputs.steering, size.curvature)});
  return heads;
}

}  // namespace sparkpilot
