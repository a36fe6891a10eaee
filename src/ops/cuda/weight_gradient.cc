#include "ops/cuda/weight_gradient.h"

#include <algorithm>

namespace sparkpilot::cuda {
namespace {

constexpr int kChannels = 32, kThreads = 256;  // of a block

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Whether a block has all elements of a filter's row.
bool whole_rows(const ConvSizes& s) { return s.kernel_width == 3 || s.kernel_width == 5 || s.kernel_width == 7; }

int taps(const ConvSizes& s) { return s.kernel_height * s.kernel_width; }

}  // namespace

void set_gradient_parts(DepthwiseGradientArguments& p, int multiprocessors) {
  const ConvSizes& s = p.size;
  constexpr int kMost = 64, kLeast = 256;  // pixels of a part: less is not worth its sums
  const int lines = s.batch * s.out_height;
  const int blocks = ceil_div(s.out_channels, kChannels) * (whole_rows(s) ? s.kernel_height : taps(s));
  const int worth = std::max(1, static_cast<int>(std::min(1LL * kMost, 1LL * lines * s.out_width / kLeast)));
  const int parts = std::clamp(ceil_div(2 * multiprocessors, blocks), 1, std::min(worth, lines));
  p.lines_of_part = ceil_div(lines, parts);
  p.parts = ceil_div(lines, p.lines_of_part);
  p.of_out_height = make_divisor(s.out_height);
}

size_t gradient_partial_bytes(const DepthwiseGradientArguments& p) {
  if (p.parts == 1) return 0;
  return sizeof(float) * static_cast<size_t>(p.parts) * static_cast<size_t>(taps(p.size)) *
         static_cast<size_t>(p.size.out_channels);
}

std::string gradient_kernel(const ConvSizes& s) {
  return "depthwise_gradient_" + std::to_string(whole_rows(s) ? s.kernel_width : 1) + "_f32";
}

KernelLaunch gradient_launch(const DepthwiseGradientArguments& p) {
  return {.grid_x = static_cast<unsigned>(ceil_div(p.size.out_channels, kChannels)),
          .grid_y = static_cast<unsigned>(whole_rows(p.size) ? p.size.kernel_height : taps(p.size)),
          .grid_z = static_cast<unsigned>(p.parts),
          .threads = kThreads};
}

KernelLaunch gradient_sum_launch(const DepthwiseGradientArguments& p) {
  return {.grid_x = static_cast<unsigned>(ceil_div(taps(p.size) * p.size.out_channels, kThreads)), .threads = kThreads};
}

}  // namespace sparkpilot::cuda
