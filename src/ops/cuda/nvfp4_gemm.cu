// Products of activations and weights in NVFP4: see nvfp4_gemm.h.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/nvfp4_gemm.h"

#include "ops/cuda/elements.cuh"
#include "ops/cuda/scaled_rows.cuh"

namespace {

using sparkpilot::cuda::ElementType;
using sparkpilot::cuda::kScaledDepth;
using sparkpilot::cuda::Nvfp4GemmArguments;

// A block of 16: its codes in the order of packed_codes(), and its scale, which is NaN if a number is.
struct Block {
  uint32_t words[2];
  uint32_t scale;

  __device__ __forceinline__ void round(const float (&x)[16], float scale_of_all, float six_scales) {
    uint32_t largest = 0;  // as bits: NaN is larger than all numbers
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const uint32_t magnitude = __float_as_uint(x[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    scale = device::to_e4m3(__fdiv_rn(__uint_as_float(largest), six_scales));
    const float step = __fmul_rn(device::e4m3_value(static_cast<uint8_t>(scale)), scale_of_all);
    words[0] = words[1] = 0;
    if (step == 0) return;
#pragma unroll
    for (int i = 0; i < 16; ++i) {  // even and odd numbers apart, two codes at a time
      if (i % 4 < 2)
        words[i / 8] |= device::pack_e2m1x2(__fdiv_rn(x[i], step), __fdiv_rn(x[i + 2], step))
                        << (i % 8 / 4 + i % 2 * 2) * 8;
    }
  }
};

// Two lanes each have a block, 0 and 1 or 2 and 3 of four. mma takes half of a block from each lane of two, so they
// exchange halves: then a lane has a half of the first block and a half of the second. The order of the numbers of a
// block is free, as long as both operands have the same. mma calls those blocks 0 and 2, or 1 and 3.
__device__ __forceinline__ void exchange_halves(const uint32_t (&words)[2], int lane, uint32_t& first,
                                                uint32_t& second) {
  const bool odd = lane % 2 != 0;
  const uint32_t got = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);
  first = odd ? got : words[0];
  second = odd ? words[1] : got;
}
// The scales of four blocks as mma calls them.
__device__ __forceinline__ uint32_t as_mma_calls_them(uint32_t scales) {
  return (scales & 0xff0000ffu) | (scales & 0xff00u) << 8 | (scales >> 8 & 0xff00u);
}

template <ElementType kType>
__device__ __forceinline__ void load_block(const Nvfp4GemmArguments& p, long long row, int k, bool wide,
                                           float (&x)[16]) {
  const long long first = row * p.a_stride + k;
  if (wide && k + 16 <= p.k) {
#pragma unroll
    for (int half = 0; half < 16; half += 8) {
      float eight[8];
      device::load_values(kType, p.a, first + half, eight);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[half + i] = eight[i];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = k + i < p.k ? device::load_value(kType, p.a, first + i) : 0.0f;
}

// 16 rows of weights, mma's left operand, by kTiles times 8 of activations. A lane loads a block of rows lane / 4 and
// lane / 4 + 8 of the weights, and of row lane / 4 of each tile.
template <ElementType kType, int kTiles>
__device__ __forceinline__ void nvfp4_gemm(const Nvfp4GemmArguments& p) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * device::kScaledColumns;
  const int first_row = static_cast<int>(blockIdx.y) * 8 * kTiles;
  const int upper = device::least(first + lane / 4, p.n - 1), lower = device::least(first + lane / 4 + 8, p.n - 1);
  const bool wide = device::is_aligned(p.a, p.a_stride * (kType == ElementType::f32 ? 4 : 2));
  float sums[kTiles][4] = {};
#pragma unroll 1
  for (int k0 = warp * kScaledDepth; k0 < p.k; k0 += device::kScaledWarps * kScaledDepth) {
    const int k = k0 + lane % 4 * 16;
    const uint2 high = device::load_8_once(p.codes + upper * p.code_stride + k / 8);
    const uint2 low = device::load_8_once(p.codes + lower * p.code_stride + k / 8);
    const uint32_t scales =
        *reinterpret_cast<const uint32_t*>(p.block_scales + (lane % 2 ? lower : upper) * p.block_stride + k0 / 16);
    uint32_t rows[4];
    exchange_halves({high.x, high.y}, lane, rows[0], rows[2]);
    exchange_halves({low.x, low.y}, lane, rows[1], rows[3]);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float x[16];
      load_block<kType>(p, device::least(first_row + tile * 8 + lane / 4, p.m - 1), k, wide, x);
      Block block;
      block.round(x, p.input_scale, p.six_scales);
      uint32_t columns[2];
      exchange_halves(block.words, lane, columns[0], columns[1]);
      uint32_t all = block.scale << lane % 4 * 8;
      all |= __shfl_xor_sync(~0u, all, 1);
      all |= __shfl_xor_sync(~0u, all, 2);
      device::mma_e2m1(sums[tile], rows, columns, as_mma_calls_them(scales), as_mma_calls_them(all));
    }
  }
  device::finish_scaled_rows<kTiles>(
      p, sums, [&](float y, int row, int column) { device::store_value(kType, p.y, row * p.y_stride + column, y); });
}

}  // namespace

#define NVFP4_GEMM(type, rows)                                                   \
  extern "C" __global__ void __launch_bounds__(256)                              \
      nvfp4_gemm_##type##_##rows(const __grid_constant__ Nvfp4GemmArguments p) { \
    device::begin_kernel();                                                      \
    nvfp4_gemm<ElementType::type, rows / 8>(p);                                  \
  }
NVFP4_GEMM(f32, 8)
NVFP4_GEMM(f32, 32)
NVFP4_GEMM(f16, 8)
NVFP4_GEMM(f16, 32)
NVFP4_GEMM(bf16, 8)
NVFP4_GEMM(bf16, 32)
