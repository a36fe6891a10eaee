// Kernels of a depthwise convolution with the 1x1 convolution behind it (the last two stages of sparkpilot::ConvChain):
// what lies between them never leaves a block. <type> is f16 or bf16.
//   conv_chain_<M>x<N>_<type>    tiles of M pixels and N output channels
// Each tile computes the depthwise convolution of its pixels anew, so this pays where few tiles of channels need them.
#pragma once

#include "ops/cuda/depthwise.h"

namespace sparkpilot::cuda {

struct ConvChainArguments {
  // y and partial are not used. The epilogue's operands have one element, or one a channel. What comes out is rounded
  // to the storage type.
  ConvArguments depthwise;
  // x is not used; size.batch, height, width and channels are those of the depthwise convolution's output.
  ConvArguments last;
};

inline constexpr ConvTile kConvChainTiles[] = {{32, 64, 8, 3}, {32, 128, 8, 2}, {16, 64, 16, 2}};

struct ConvChainPlan {
  ConvTile tile = kConvChainTiles[0];
  int splits = 1;  // of the last convolution's depth

  std::string kernel(Storage storage) const;
  std::string variant() const { return ConvPlan{tile, splits, true}.variant(); }
  KernelLaunch launch(const ConvSizes& last) const;
  size_t partial_bytes(const ConvSizes& last) const { return ConvPlan{tile, splits, true}.partial_bytes(last); }
};
// Depthwise in whole pieces of 16 bytes of channels, then 1x1 without pads at stride 1; f16 or bf16.
bool conv_chain_accepts(const ConvSizes& depthwise, const ConvSizes& last, Storage storage);
// Plans that are worth timing on a GPU with this many multiprocessors, the one that is expected to be the fastest
// first: with it at least half of them have a block, if it is not short anyway.
std::vector<ConvChainPlan> conv_chain_plans(const ConvSizes& depthwise, const ConvSizes& last, int multiprocessors);
inline ConvChainPlan plan_conv_chain(const ConvSizes& depthwise, const ConvSizes& last, int multiprocessors) {
  return conv_chain_plans(depthwise, last, multiprocessors).front();
}

}  // namespace sparkpilot::cuda
