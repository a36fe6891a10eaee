// CausalConvWithState: a depthwise convolution over time that reads only the past, with the last inputs as its state.
//
// Expanded to a Concat of state and input, a depthwise Conv, an optional SiLU, and the end of the Concat as the new
// state.
#include "ops/epilogue_nodes.h"
#include "ops/registry.h"

namespace sparkpilot::causal_conv_ops {
namespace {

struct Sizes {
  int64_t batch, channels, length, kernel;
};

Sizes sizes(const Shape& x, const Shape& weight) {
  if (x.rank() != 3) fail("input has shape {}, expected [batch,channels,length]", x.str());
  if (weight.rank() != 3 || weight[0] != x[1] || weight[1] != 1 || weight[2] < 1) {
    fail("weight has shape {}, expected [{},1,kernel]", weight.str(), x[1]);
  }
  return {x[0], x[1], x[2], weight[2]};
}

bool with_silu(const Attributes& attrs) {
  const std::string text = attrs.text("activation", "none");
  if (text != "none" && text != "silu" && text != "swish") {
    fail("activation is \"{}\", expected none, silu or swish", text);
  }
  return text != "none";
}

void infer(InferContext& c) {
  const Sizes s = sizes(c.shape(0), c.shape(1));
  with_silu(c.attrs);
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  const auto expect = [&](int i, const Shape& wanted) {
    if (c.dtype(i) != c.dtype(0)) fail("input {} is {}, expected {}", i, name(c.dtype(i)), name(c.dtype(0)));
    if (!(c.shape(i) == wanted)) fail("input {} has shape {}, expected {}", i, c.shape(i).str(), wanted.str());
  };
  const Shape state{s.batch, s.channels, s.kernel - 1};
  expect(1, c.shape(1));
  if (c.has(2)) expect(2, Shape{s.channels});
  if (c.has(3)) expect(3, state);
  c.output(0, c.dtype(0), c.shape(0));
  c.output(1, c.dtype(0), state);
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const Sizes s = sizes(b.shape(e.in(0)), b.shape(e.in(1)));
  const DType dtype = b.dtype(e.in(0));
  const ValueId past = e.has(3) ? e.in(3) : b.constant(Tensor::zeros(dtype, Shape{s.batch, s.channels, s.kernel - 1}));
  const ValueId joined = b.add("Concat", {past, e.in(0)}, {{"axis", int64_t{2}}});
  ValueId y = b.add("Conv", {joined, e.in(1), e.in(2)}, {{"group", s.channels}});
  if (with_silu(e.node.attrs)) {
    const ValueId wide = cast_to(b, y, DType::f32);
    y = cast_to(b, b.add("Mul", {wide, b.add("Sigmoid", {wide})}), dtype);
  }
  const int64_t end = s.length + s.kernel - 1;
  const ValueId state = b.add("Slice", {joined, b.ints({s.length}), b.ints({end}), b.ints({2})});
  return {y, state};
}

constexpr AttrSpec kAttrs[] = {{"activation", AttrType::text}};

const OpDef kOps[] = {{.name = "CausalConvWithState",
                       .doc = "Causal depthwise convolution with carried state.",
                       .since = 27,
                       .inputs = {2, 4},
                       .outputs = {1, 2},
                       .attributes = kAttrs,
                       .infer = infer,
                       .expand = expand}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::causal_conv_ops
