// Kernels of pooling.
#include "ops/cuda/pooling.h"

#include "ops/cuda/pieces.cuh"

namespace {

using sparkpilot::cuda::PoolArguments;

// Loads or stores kEach elements that lie together.
template <typename T, int kEach>
__device__ __forceinline__ void load(const typename T::Bits* from, float (&out)[kEach]) {
  if constexpr (kEach == 1) out[0] = T::value(*from);
  else device::load_piece<T>(from, out);
}
template <typename T, int kEach>
__device__ __forceinline__ void store(typename T::Bits* to, const float (&in)[kEach]) {
  if constexpr (kEach == 1) *to = T::rounded(in[0]);
  else device::store_piece<T>(to, in);
}

__device__ __forceinline__ float start(bool average) { return average ? 0.0f : -INFINITY; }
__device__ __forceinline__ float combined(bool average, float a, float b) {
  return average ? a + b : device::max_nan(a, b);
}

// Taps from `low` on and below `high` lie inside of [-before, size + behind).
__device__ __forceinline__ int taps_inside(int first, int kernel, int dilation, int size, int before, int behind,
                                           int& low) {
  low = first < -before ? (-before - first + dilation - 1) / dilation : 0;
  const int room = size + behind - first,
            high = room <= 0 ? 0 : device::least(kernel, (room + dilation - 1) / dilation);
  return high > low ? high - low : 0;
}

// A thread for each output, or piece of 16 bytes of channels of one.
template <typename T, int kEach>
__device__ __forceinline__ void pool(const PoolArguments& p) {
  using Bits = typename T::Bits;
  const long long at = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x;
  const int columns = p.channels / kEach;
  long long x_at, x_row, x_column, rest = at;
  int out_y, out_x, channel;
  const auto taken = [&](int size) {
    const long long left = rest / size;
    const int taken_now = static_cast<int>(rest - left * size);
    rest = left;
    return taken_now;
  };
  if (p.channels_first) {
    out_x = taken(p.out_width), out_y = taken(p.out_height), channel = taken(columns);
    x_row = p.width, x_column = 1, x_at = (rest * p.channels + channel) * p.height * p.width;
  } else {
    channel = taken(columns), out_x = taken(p.out_width), out_y = taken(p.out_height);
    x_column = p.channels, x_row = x_column * p.width, x_at = rest * p.height * x_row + channel * kEach;
  }
  if (rest >= p.batch) return;
  const int top = out_y * p.stride_height - p.pad_top, left = out_x * p.stride_width - p.pad_left;
  int first_y, first_x, unused;
  const int count_y = taps_inside(top, p.kernel_height, p.dilation_height, p.height, 0, 0, first_y);
  const int count_x = taps_inside(left, p.kernel_width, p.dilation_width, p.width, 0, 0, first_x);
  float result[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) result[e] = start(p.average);
  const Bits* line = static_cast<const Bits*>(p.x) + x_at + (top + first_y * p.dilation_height) * x_row +
                     (left + first_x * p.dilation_width) * x_column;
#pragma unroll 1
  for (int ky = 0; ky < count_y; ++ky) {
#pragma unroll 2
    for (int kx = 0; kx < count_x; ++kx) {
      float x[kEach];
      load<T>(line + kx * p.dilation_width * x_column, x);
#pragma unroll
      for (int e = 0; e < kEach; ++e) result[e] = combined(p.average, result[e], x[e]);
    }
    line += p.dilation_height * x_row;
  }
  if (p.average) {
    int taps = count_y * count_x;
    if (p.count_padding) {
      taps = taps_inside(top, p.kernel_height, p.dilation_height, p.height, p.pad_top, p.pad_bottom, unused) *
             taps_inside(left, p.kernel_width, p.dilation_width, p.width, p.pad_left, p.pad_right, unused);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) result[e] /= static_cast<float>(taps);
  }
  store<T>(static_cast<Bits*>(p.y) + at * kEach, result);
}

// A block for 4 pieces of channels, or 32 channels: its threads have the pixels between them.
template <typename T, int kEach>
__device__ __forceinline__ void global_pool(const PoolArguments& p) {
  using Bits = typename T::Bits;
  constexpr int kColumns = kEach == 1 ? 32 : 4, kGroups = 128 / kColumns;
  STATIC_SHARED(float, shared, 128 * (kEach + 1));
  const int column = static_cast<int>(threadIdx.x) % kColumns, group = static_cast<int>(threadIdx.x) / kColumns;
  const int channel = (static_cast<int>(blockIdx.x) * kColumns + column) * kEach;
  const long long pixels = static_cast<long long>(p.height) * p.width;
  const Bits* const x = static_cast<const Bits*>(p.x) + blockIdx.y * pixels * p.channels + channel;
  float result[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) result[e] = start(p.average);
  if (channel < p.channels) {
#pragma unroll 4
    for (long long pixel = group; pixel < pixels; pixel += kGroups) {
      float now[kEach];
      load<T>(x + pixel * p.channels, now);
#pragma unroll
      for (int e = 0; e < kEach; ++e) result[e] = combined(p.average, result[e], now[e]);
    }
  }
  float* const mine = shared + threadIdx.x * (kEach + 1);
#pragma unroll
  for (int e = 0; e < kEach; ++e) mine[e] = result[e];
#pragma unroll 1
  for (int step = kGroups / 2; step > 0; step /= 2) {
    __syncthreads();
    if (group >= step) continue;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      result[e] = combined(p.average, result[e], mine[step * kColumns * (kEach + 1) + e]);
      mine[e] = result[e];
    }
  }
  if (group > 0 || channel >= p.channels) return;
  if (p.average) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) result[e] /= static_cast<float>(pixels);
  }
  store<T>(static_cast<Bits*>(p.y) + static_cast<long long>(blockIdx.y) * p.channels + channel, result);
}

// A warp for each plane.
template <typename T>
__device__ __forceinline__ void global_pool_planes(const PoolArguments& p) {
  using Bits = typename T::Bits;
  const long long plane = static_cast<long long>(blockIdx.x) * 4 + threadIdx.x / 32;
  if (plane >= static_cast<long long>(p.batch) * p.channels) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long pixels = static_cast<long long>(p.height) * p.width;
  const Bits* const x = static_cast<const Bits*>(p.x) + plane * pixels;
  float result = start(p.average);
#pragma unroll 4
  for (long long i = lane; i < pixels; i += 32) result = combined(p.average, result, T::value(x[i]));
  result = p.average ? device::warp_sum(result) / static_cast<float>(pixels) : device::warp_max(result);
  if (lane == 0) static_cast<Bits*>(p.y)[plane] = T::rounded(result);
}

}  // namespace

#define POOL(name, ...)                                                        \
  extern "C" __global__ void __launch_bounds__(128, 4) name(PoolArguments p) { \
    device::begin_kernel();                                                    \
    device::let_next_begin();                                                  \
    __VA_ARGS__(p);                                                            \
  }
#define KERNELS_OF_TYPE(suffix, type)                                                 \
  POOL(pool_##suffix, pool<device::type, device::kPiece<device::type>>)               \
  POOL(pool_any_##suffix, pool<device::type, 1>)                                      \
  POOL(global_pool_##suffix, global_pool<device::type, device::kPiece<device::type>>) \
  POOL(global_pool_any_##suffix, global_pool<device::type, 1>)                        \
  POOL(global_pool_planes_##suffix, global_pool_planes<device::type>)
KERNELS_OF_TYPE(f32, F32)
KERNELS_OF_TYPE(f16, F16)
KERNELS_OF_TYPE(bf16, BF16)
