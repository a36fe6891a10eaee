#include "ops/cuda/conv_chain.h"

#include <algorithm>

namespace sparkpilot::cuda {
namespace {

// Where a thread's sums of the depthwise convolution lie while its epilogue is applied: 8 of each of its rows.
size_t scratch_bytes(const ConvTile& tile) { return static_cast<size_t>(tile.pixels * tile.pieces * 8 * 4); }

}  // namespace

std::string ConvChainPlan::kernel(Storage storage) const {
  return "conv_chain_" + std::to_string(tile.pixels) + "x" + std::to_string(tile.channels) +
         (storage == Storage::f16 ? "_f16" : "_bf16");
}

KernelLaunch ConvChainPlan::launch(const ConvSizes& last) const {
  KernelLaunch out = ConvPlan{tile, splits, true}.launch(last);
  out.shared_bytes += scratch_bytes(tile);
  return out;
}

bool conv_chain_accepts(const ConvSizes& depthwise, const ConvSizes& last, Storage storage) {
  return storage != Storage::f32 && depthwise_accepts(depthwise, storage) && conv_pieces_accepts(last, storage) &&
         last.kernel_height == 1 && last.kernel_width == 1 && last.stride_height == 1 && last.stride_width == 1 &&
         last.pad_top == 0 && last.pad_left == 0 && last.out_height == last.height && last.out_width == last.width &&
         last.batch == depthwise.batch && last.height == depthwise.out_height && last.width == depthwise.out_width &&
         last.channels == depthwise.out_channels;
}

std::vector<ConvChainPlan> conv_chain_plans(const ConvSizes& last, int multiprocessors) {
  ConvChainPlan plan;
  if (last.out_channels > plan.tile.channels) plan.tile = kConvChainTiles[1];
  const int steps = (last.channels + 63) / 64;
  // Splitting repeats nothing of the depthwise convolution, so it is done until every multiprocessor has a block.
  while (plan.splits < std::min(steps, 8)) {
    const KernelLaunch launch = plan.launch(last);
    if (launch.grid_x * launch.grid_y * launch.grid_z >= static_cast<unsigned>(multiprocessors)) break;
    ++plan.splits;
  }
  const auto without_empty_parts = [&](int splits) {
    const int each = (steps + splits - 1) / splits;
    return std::max(1, (steps + each - 1) / each);
  };
  plan.splits = without_empty_parts(plan.splits);
  std::vector<ConvChainPlan> out{plan};
  for (const ConvTile& tile : kConvChainTiles) {
    for (const int splits : {1, plan.splits / 2, plan.splits, std::min(2 * plan.splits, steps)}) {
      const ConvChainPlan other{tile, without_empty_parts(std::max(1, splits))};
      const bool known = std::ranges::any_of(out, [&](const auto& one) { return one.variant() == other.variant(); });
      if (!known) out.push_back(other);
    }
  }
  return out;
}

}  // namespace sparkpilot::cuda
