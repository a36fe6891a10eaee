#include "ops/cuda/conv_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/cuda/plans.h"

namespace sparkpilot::cuda {
namespace {

// Where a thread's sums of the depthwise convolution lie while its epilogue is applied: 8 of each of its rows.
size_t scratch_bytes(const ConvTile& tile) { return static_cast<size_t>(tile.pixels * tile.pieces * 8 * 4); }

// Estimated clocks, from the same guesses as those of plan_conv. A step's depthwise convolution takes about three
// instructions of 128 lanes for a multiply-add, and waits for three taps of a row at once, or for one that is left.
double clocks(const ConvChainPlan& plan, int steps, const ConvSizes& depthwise, const ConvSizes& last,
              int multiprocessors) {
  const KernelLaunch launch = plan.launch(last);
  const double blocks = 1.0 * launch.grid_x * launch.grid_y * launch.grid_z;
  const double together = std::floor(100.0 * 1024 / static_cast<double>(launch.shared_bytes + 1024));
  const double rounds = std::ceil(blocks / multiprocessors), waits = std::ceil(blocks / (together * multiprocessors));
  const double image = 1.0 * plan.tile.pixels * plan.tile.pieces * 8;
  const double work =
      image * depthwise.kernel_height * depthwise.kernel_width * 3 / 128 + image * plan.tile.channels / 256;
  const int loads = depthwise.kernel_height * (depthwise.kernel_width / 3 + depthwise.kernel_width % 3);
  double out = steps * (rounds * work + waits * (250 + 200 * loads));
  if (plan.splits > 1) out += 4000 + static_cast<double>(plan.partial_bytes(last)) / 500;
  return out;
}

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

// Clocks in which it does not matter how many multiprocessors work.
constexpr double kShort = 10000;

std::vector<ConvChainPlan> conv_chain_plans(const ConvSizes& depthwise, const ConvSizes& last, int multiprocessors) {
  std::vector<ModelledPlan<ConvChainPlan>> all;
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  bool best_fills = false;
  for (const ConvTile& tile : kConvChainTiles) {
    const int steps = (last.channels + tile.pieces * 8 - 1) / (tile.pieces * 8);
    for (int splits = 1; splits <= 8; ++splits) {
      const int each = (steps + splits - 1) / splits;
      if (splits > steps || (steps + each - 1) / each != splits) continue;  // one would be empty
      const ConvChainPlan plan{tile, splits};
      const double now = clocks(plan, each, depthwise, last, multiprocessors);
      const KernelLaunch launch = plan.launch(last);
      const bool fills =
          now < kShort || 2 * launch.grid_x * launch.grid_y * launch.grid_z >= static_cast<unsigned>(multiprocessors);
      all.push_back({plan, now});
      if (fills == best_fills ? now >= least : best_fills) continue;
      best = all.size() - 1, least = now, best_fills = fills;
    }
  }
  return worth_timing(std::move(all), best);
}

}  // namespace sparkpilot::cuda
