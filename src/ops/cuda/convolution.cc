#include "ops/cuda/convolution.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cuda/plans.h"

namespace sparkpilot::cuda {
namespace {

constexpr long long kMost = std::numeric_limits<int>::max();
constexpr int kSliceBytes = 64;

long long pixels(const ConvSizes& s) { return 1LL * s.batch * s.out_height * s.out_width; }
long long divided(long long a, long long b) { return (a + b - 1) / b; }
int element_bytes(Storage storage) { return storage == Storage::f32 ? 4 : 2; }
long long depth(const ConvSizes& s) { return 1LL * s.kernel_height * s.kernel_width * s.channels; }
long long slices(const ConvSizes& s, Storage storage) {
  return divided(depth(s) * element_bytes(storage), kSliceBytes);
}
std::string suffix(Storage storage) {
  return storage == Storage::f32 ? "f32" : storage == Storage::f16 ? "f16" : "bf16";
}

// Estimated clocks of a plan. The figures are guesses from published rates of consumer GPUs, not measurements: 256 f16
// or 128 f32 multiply-adds a clock and multiprocessor, 250 clocks a step that other blocks hide, as many as share the
// 100 KiB of shared memory of a multiprocessor, 4,000 for the launch of a second kernel.
double clocks(const ConvPlan& plan, const ConvSizes& size, Storage storage, int multiprocessors) {
  const KernelLaunch launch = plan.launch(size);
  const double blocks = 1.0 * launch.grid_x * launch.grid_y * launch.grid_z;
  const double together = std::floor(100.0 * 1024 / static_cast<double>(launch.shared_bytes + 1024));
  const double rounds = std::ceil(blocks / multiprocessors), waits = std::ceil(blocks / (together * multiprocessors));
  const long long all = divided(slices(size, storage), plan.tile.pieces / 4);
  const auto steps = static_cast<double>(divided(all, plan.splits));
  const double area = 1.0 * plan.tile.pixels * plan.tile.channels;
  const double macs = area * plan.tile.pieces * 16 / element_bytes(storage);
  double out = steps * (rounds * macs / (storage == Storage::f32 ? 128 : 256) + waits * 250) + rounds * area / 4;
  if (plan.splits > 1) out += 4000 + static_cast<double>(plan.partial_bytes(size)) / 500;
  return out;
}

}  // namespace

ConvDivisors conv_divisors(const ConvSizes& size) {
  return {make_divisor(size.channels), make_divisor(size.kernel_width), make_divisor(size.out_width),
          make_divisor(size.out_height), make_divisor((size.out_channels + 3) / 4)};
}

size_t conv_weight_bytes(const ConvSizes& size, Storage storage) {
  return static_cast<size_t>(slices(size, storage) * size.out_channels * kSliceBytes);
}

void pack_conv_weights(const ConvSizes& size, Storage storage, const void* weights, void* packed) {
  const int bytes = element_bytes(storage), in_slice = kSliceBytes / bytes;
  const long long taps = 1LL * size.kernel_height * size.kernel_width;
  std::memset(packed, 0, conv_weight_bytes(size, storage));
  for (long long o = 0; o < size.out_channels; ++o) {
    for (long long c = 0; c < size.channels; ++c) {
      for (long long tap = 0; tap < taps; ++tap) {
        const long long k = tap * size.channels + c;
        const long long to = (k / in_slice * size.out_channels + o) * in_slice + k % in_slice;
        std::memcpy(static_cast<char*>(packed) + to * bytes,
                    static_cast<const char*>(weights) + ((o * size.channels + c) * taps + tap) * bytes,
                    static_cast<size_t>(bytes));
      }
    }
  }
}

std::string ConvPlan::kernel(Storage storage) const {
  if (direct) return direct->kernel(storage);
  const std::string shape = std::to_string(tile.pixels) + "x" + std::to_string(tile.channels) + "_" + suffix(storage);
  return (pieces ? "conv_" : "conv_any_") + shape;
}

std::string ConvPlan::variant() const {
  return direct ? direct->variant() : tile_variant(tile.pixels, tile.channels, splits);
}

size_t ConvPlan::partial_bytes(const ConvSizes& size) const {
  return splits > 1 ? static_cast<size_t>(4LL * splits * pixels(size) * size.out_channels) : 0;
}

KernelLaunch ConvPlan::launch(const ConvSizes& size) const {
  if (direct) return direct->launch(pixels(size), size.out_channels);
  return {.grid_x = static_cast<unsigned>(divided(pixels(size), tile.pixels)),
          .grid_y = static_cast<unsigned>(divided(size.out_channels, tile.channels)),
          .grid_z = static_cast<unsigned>(splits),
          .threads = 128,
          .shared_bytes = tile.shared_bytes()};
}

bool conv_accepts(const ConvSizes& size) {
  const long long reach_y =
      1LL * size.out_height * size.stride_height + 1LL * size.kernel_height * size.dilation_height;
  const long long reach_x = 1LL * size.out_width * size.stride_width + 1LL * size.kernel_width * size.dilation_width;
  // A tap may lie a kernel beyond the image, before it is found not to.
  return size.groups == 1 && pixels(size) <= kMost && depth(size) * 4 <= kMost && size.out_channels <= 65535 * 32 &&
         (reach_y + size.pad_top + size.height) * (reach_x + size.pad_left + size.width) * size.channels <= kMost;
}

bool conv_pieces_accepts(const ConvSizes& size, Storage storage) {
  return conv_accepts(size) && size.channels % (16 / element_bytes(storage)) == 0;
}

bool conv_is_product(const ConvSizes& s) {
  if (s.groups != 1 || s.channels % 8 != 0 || s.pad_top != 0 || s.pad_left != 0) return false;
  if (s.kernel_height == 1 && s.kernel_width == 1)
    return s.stride_height == 1 && s.stride_width == 1 && s.out_height == s.height && s.out_width == s.width;
  return s.out_height == 1 && s.out_width == 1 && s.kernel_height == s.height && s.kernel_width == s.width &&
         s.dilation_height == 1 && s.dilation_width == 1;
}

DirectGemmArguments direct_gemm_of(const ConvArguments& p) {
  return {.a = p.x,
          .b = p.weights,
          .bias = p.bias,
          .y = p.y,
          .rows = static_cast<int>(pixels(p.size)),
          .columns = p.size.out_channels,
          .depth = static_cast<int>(depth(p.size)),
          .b_column = kDirectSlice,
          .a_stride = depth(p.size),
          .b_slice = 1LL * p.size.out_channels * kDirectSlice,
          .epilogue = p.epilogue};
}

// Clocks, and bytes of weights, with which it does not matter how many multiprocessors work.
constexpr double kShort = 10000;
constexpr size_t kFewBytes = 1 << 20;

std::vector<ConvPlan> conv_plans(const ConvSizes& size, Storage storage, int multiprocessors, bool pieces,
                                 bool constant) {
  std::vector<ModelledPlan<ConvPlan>> all;
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  bool best_fills = false;
  const bool few_bytes = conv_weight_bytes(size, storage) < kFewBytes;
  const auto add = [&](const ConvPlan& plan, double now) {
    const KernelLaunch launch = plan.launch(size);
    const bool fills =
        (now < kShort && few_bytes) || 2.0 * launch.grid_x * launch.grid_y * launch.grid_z >= multiprocessors;
    all.push_back({plan, now});
    if (fills == best_fills ? now >= least : best_fills) return;
    best = all.size() - 1, least = now, best_fills = fills;
  };
  const auto consider = [&](const ConvTile& tile) {
    const long long steps = divided(slices(size, storage), tile.pieces / 4);
    for (const int splits : {1, 2, 3, 4, 6, 8, 12, 16}) {
      // No part is empty.
      if (splits > 1 && (steps < splits || divided(steps, divided(steps, splits)) != splits)) continue;
      const ConvPlan plan{.tile = tile, .splits = splits, .pieces = pieces};
      add(plan, clocks(plan, size, storage, multiprocessors));
    }
  };
  if (!pieces) consider(kConvElementTile);
  const KernelLaunch of_32 = ConvPlan{.tile = {32, 32}, .pieces = pieces}.launch(size);
  for (const ConvTile& tile : kConvTiles) {
    const bool square = tile.pixels == tile.channels;
    if (!pieces || (storage == Storage::f32 && !square)) continue;
    // Smaller tiles read everything more often.
    if (tile.by_depth() && of_32.grid_x * of_32.grid_y >= static_cast<unsigned>(multiprocessors)) continue;
    consider(tile);
  }
  if (pieces && constant && conv_is_product(size)) {
    for (const DirectGemmPlan& plan : direct_gemm_plans(storage, pixels(size), size.out_channels, depth(size))) {
      add({.tile = {plan.rows, plan.columns}, .direct = plan},
          plan.cycles(pixels(size), size.out_channels, depth(size), multiprocessors));
    }
  }
  return worth_timing(std::move(all), best);
}

KernelLaunch conv_sum_launch(const ConvSizes& size) {
  const long long quads = pixels(size) * divided(size.out_channels, 4);
  return {.grid_x = static_cast<unsigned>(divided(quads, 128)), .threads = 128};
}

}  // namespace sparkpilot::cuda
