// Gradients of the weights of convolutions whose filters have one channel each: see weight_gradient.h.
#include "ops/cuda/weight_gradient.h"

#include "ops/cuda/strided.cuh"

namespace {

using sparkpilot::cuda::ConvSizes;
using sparkpilot::cuda::DepthwiseGradientArguments;

constexpr int kWarps = 8;

__device__ __forceinline__ bool inside(int at, int size) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

// A lane has an output channel, a warp every eighth pixel of a line, a block kWidth elements of a row of the filter and
// a part of the lines.
template <int kWidth>
__device__ __forceinline__ void depthwise_gradient(const DepthwiseGradientArguments& p) {
  const ConvSizes& s = p.size;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int out = static_cast<int>(blockIdx.x) * 32 + lane, part = static_cast<int>(blockIdx.z);
  const int ky = static_cast<int>(blockIdx.y) / (kWidth == 1 ? s.kernel_width : 1);
  const int first_kx = kWidth == 1 ? static_cast<int>(blockIdx.y) - ky * s.kernel_width : 0;
  const int channel = out / (s.out_channels / s.channels), lines = s.batch * s.out_height;
  const int last = device::least(lines, (part + 1) * p.lines_of_part);
  float sums[kWidth] = {};
#pragma unroll 1
  for (int line = out < s.out_channels ? part * p.lines_of_part : last; line < last; ++line) {
    unsigned image = static_cast<unsigned>(line);
    const int out_y = static_cast<int>(device::divide(image, p.of_out_height));
    const int y = out_y * s.stride_height - s.pad_top + ky * s.dilation_height;
    if (!inside(y, s.height)) continue;
    const float* const x = p.x + (static_cast<long long>(image) * s.height + y) * s.width * s.channels + channel;
    const float* const dy = p.dy + static_cast<long long>(line) * s.out_width * s.out_channels + out;
#pragma unroll 2
    for (int out_x = warp; out_x < s.out_width; out_x += kWarps) {
      const float g = dy[static_cast<long long>(out_x) * s.out_channels];
      const int left = out_x * s.stride_width - s.pad_left + first_kx * s.dilation_width;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const int column = left + i * s.dilation_width;
        if (inside(column, s.width)) sums[i] = fmaf(g, x[static_cast<long long>(column) * s.channels], sums[i]);
      }
    }
  }
  STATIC_SHARED(float, shared, kWidth* kWarps * 32);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) shared[(i * kWarps + warp) * 32 + lane] = sums[i];
  __syncthreads();
  if (warp >= kWidth || out >= s.out_channels) return;
  float sum = 0;
#pragma unroll
  for (int of = 0; of < kWarps; ++of) sum += shared[(warp * kWarps + of) * 32 + lane];
  const int taps = s.kernel_height * s.kernel_width, tap = ky * s.kernel_width + first_kx + warp;
  if (p.parts == 1) p.dw[static_cast<long long>(out) * taps + tap] = sum;
  else p.partial[(static_cast<long long>(part) * taps + tap) * s.out_channels + out] = sum;
}

}  // namespace

#define DEPTHWISE_GRADIENT(width)                                                              \
  extern "C" __global__ void __launch_bounds__(kWarps * 32)                                    \
      depthwise_gradient_##width##_f32(const __grid_constant__ DepthwiseGradientArguments p) { \
    device::begin_kernel();                                                                    \
    depthwise_gradient<width>(p);                                                              \
  }
DEPTHWISE_GRADIENT(1)
DEPTHWISE_GRADIENT(3)
DEPTHWISE_GRADIENT(5)
DEPTHWISE_GRADIENT(7)

// The parts in order; a thread for each weight.
extern "C" __global__ void __launch_bounds__(256)
    depthwise_gradient_sum_f32(const __grid_constant__ DepthwiseGradientArguments p) {
  device::begin_kernel();
  const int taps = p.size.kernel_height * p.size.kernel_width, all = taps * p.size.out_channels;
  const int at = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (at >= all) return;
  const int tap = at / p.size.out_channels, out = at - tap * p.size.out_channels;
  float sum = 0;
#pragma unroll 4
  for (int part = 0; part < p.parts; ++part) sum += p.partial[static_cast<long long>(part) * all + at];
  p.dw[static_cast<long long>(out) * taps + tap] = sum;
}
