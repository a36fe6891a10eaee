#include "ops/cpu/conv/conv_chain.h"

#include "base/error.h"

namespace sparkpilot {

std::string stage_epilogue(size_t stage) { return fmt::format("epilogue_{}", stage); }

Attributes stage_attributes(const Attributes& chain, size_t stage) {
  Attributes out{{"channels_last", int64_t{1}}, {"group", chain.integers("groups").at(stage)}};
  const auto part = [&](const char* name, size_t count) {
    const std::vector<int64_t> all = chain.integers(name);
    const auto from = all.begin() + static_cast<ptrdiff_t>(stage * count);
    out.set(name, std::vector<int64_t>(from, from + static_cast<ptrdiff_t>(count)));
  };
  if (stage == 0 && chain.has("x_channels_first")) out.set("x_channels_first", chain.integer("x_channels_first"));
  part("strides", 2);
  part("pads", 4);
  return out;
}

ConvChain ConvChain::of(const Attributes& attrs, const Shape& x, std::span<const Shape> weights) {
  ConvChain out;
  out.stages = weights.size();
  if (out.stages < 2 || out.stages > kMax) fail("{} stages, expected 2 or 3", out.stages);
  if (attrs.integers("strides").size() != 2 * out.stages || attrs.integers("pads").size() != 4 * out.stages) {
    fail("strides or pads do not have 2 or 4 numbers for each of {} stages", out.stages);
  }
  if (x.rank() != 4) fail("input has rank {}, expected 4", x.rank());
  Shape image = x;
  for (size_t i = 0; i < out.stages; ++i) {
    out.shape[i] = conv_shape(stage_attributes(attrs, i), image, weights[i], true);
    image = out.shape[i].output();
  }
  if (!out.last().is_pointwise()) fail("the last stage is no 1x1 convolution at stride 1");
  if (!out.depthwise().is_depthwise()) fail("the stage before the last is not depthwise");
  if (out.has_first() && out.first().groups != 1) fail("the first stage has {} groups", out.first().groups);
  return out;
}

ConvChain ConvChain::of(const Problem& p) {
  std::vector<Shape> weights;
  for (size_t i = 0; i < p.attrs().integers("groups").size(); ++i) weights.push_back(p.inputs[weights_input(i)].shape);
  return of(p.attrs(), p.inputs[0].shape, weights);
}

double ConvChain::needed() const {
  double sum = 0;
  for (size_t i = 0; i < stages; ++i) sum += shape[i].flops() * shape[i].needed();
  return sum > 0 ? sum / flops() : 1;
}

double ConvChain::flops() const {
  double sum = 0;
  for (size_t i = 0; i < stages; ++i) sum += shape[i].flops();
  return sum;
}

}  // namespace sparkpilot
