// sparkpilot::ConvChain: two or three consecutive convolutions whose intermediate images are never whole in memory.
//
// Inputs: X [N, H, W, C], then weights and bias (or absent) of each stage, then the operands of epilogues. Attributes,
// concatenated over the stages: `groups`, `strides` (two per stage), `pads` (four: top, left, bottom, right);
// `epilogue_<stage>` as in sparkpilot::Conv; `x_channels_first`: X is [N, C, H, W]. The last stage is 1x1, the one
// before it depthwise (one filter per channel), and the first of three is a dense convolution of any size. So it covers
// an inverted bottleneck, the stem of a network, or depthwise with pointwise.
#pragma once

#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {

struct ConvChain {
  static constexpr size_t kMax = 3;
  size_t stages = 0;
  std::array<ConvShape, kMax> shape;

  // Fails (user) if the parts do not fit together. `weights` has one shape per stage.
  static ConvChain of(const Attributes& attrs, const Shape& x, std::span<const Shape> weights);
  static ConvChain of(const Problem& problem);

  bool has_first() const { return stages == kMax; }
  const ConvShape& first() const { return shape[0]; }
  const ConvShape& depthwise() const { return shape[stages - 2]; }
  const ConvShape& last() const { return shape[stages - 1]; }
  double flops() const;
  double needed() const;  // Cost::needed

  static size_t weights_input(size_t stage) { return 1 + 2 * stage; }
  static size_t bias_input(size_t stage) { return 2 + 2 * stage; }
};

// The attributes of one stage as sparkpilot::Conv has them, without the epilogue.
Attributes stage_attributes(const Attributes& chain, size_t stage);
std::string stage_epilogue(size_t stage);

Acceptance conv_chain_simd_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_chain_simd_prepare(const Problem& p);
void conv_chain_simd_run(const Call& call);

}  // namespace sparkpilot
