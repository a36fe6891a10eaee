// Products by weights of 8 and 4 bits: see scaled_gemm.h.
#include "ops/cuda/scaled_gemm.h"

#include "ops/cuda/scaled_rows.cuh"

namespace {

using sparkpilot::cuda::kScaledDepth;
using sparkpilot::cuda::ScaledGemmArguments;

// Codes as f16 or bf16, two neighbours in depth at a time: moving sign, exponent and mantissa to their places leaves
// the difference of the exponents' biases out, a power of two. Subnormal codes become subnormal numbers, which is
// right.
struct E4m3 {
  static constexpr int kCodes = 4;  // of a word
  static constexpr bool kBlocks = false;
  static __device__ __forceinline__ uint32_t half2(uint32_t word, int i) {  // times 2^-8
    const uint32_t codes = word >> 8 * i & 0x00ff00ffu;
    return (codes << 8 & 0x80008000u) | (codes << 7 & 0x3f803f80u);
  }
  static __device__ __forceinline__ uint32_t bfloat162(uint32_t word, int i) {  // times 2^-120
    const uint32_t codes = word >> 8 * i & 0x00ff00ffu;
    return (codes << 8 & 0x80008000u) | (codes << 4 & 0x07f007f0u);
  }
};
struct Nvfp4 {
  static constexpr int kCodes = 8;
  static constexpr bool kBlocks = true;
  static __device__ __forceinline__ uint32_t half2(uint32_t word, int i) {  // times 2^-14
    const uint32_t codes = word >> 4 * i & 0x000f000fu;
    return (codes << 12 & 0x80008000u) | (codes << 9 & 0x0e000e00u);
  }
  static __device__ __forceinline__ uint32_t bfloat162(uint32_t word, int i) {  // times 2^-126
    const uint32_t codes = word >> 4 * i & 0x000f000fu;
    return (codes << 12 & 0x80008000u) | (codes << 6 & 0x01c001c0u);
  }
};

__device__ __forceinline__ float block_scale(uint8_t code) {
  return device::half_value(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7)) * 256.0f;
}

constexpr int kWarps = 4;  // of scaled_gemv

// A word of codes by as many activations, of which `count` are there.
template <typename Codes>
__device__ __forceinline__ float word_products(uint32_t word, const float* a, int count) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Codes::kCodes / 2; ++i) {
    const float2 pair = device::half2_values(Codes::half2(word, i));
    if (2 * i < count) sum = fmaf(pair.x, a[2 * i], sum);
    if (2 * i + 1 < count) sum = fmaf(pair.y, a[2 * i + 1], sum);
  }
  return sum;
}

// A row of weights, whose words fall to `part` of `parts` lanes, by one row of activations.
template <typename Codes>
__device__ __forceinline__ float lane_products(const ScaledGemmArguments& p, int row, int part, int parts) {
  constexpr int kCodes = Codes::kCodes, kAhead = 4;  // loads of weights on their way
  const float* const a = static_cast<const float*>(p.a);
  const uint32_t* const codes = p.codes + row * p.code_stride;
  const uint8_t* const blocks = Codes::kBlocks ? p.block_scales + row * p.block_stride : nullptr;
  const int words = (p.k + kCodes - 1) / kCodes, whole = device::is_aligned(a, 0) ? p.k / kCodes : 0;
  const auto scaled = [&](float sum, float products, int word) {
    if constexpr (Codes::kBlocks) return fmaf(products, block_scale(blocks[word / 2]), sum);
    else return sum + products;
  };
  float sum = 0;
#pragma unroll 1
  for (int first = part; first < whole; first += kAhead * parts) {
    uint32_t word[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      word[i] = first + i * parts < whole ? device::load_4_once(codes + first + i * parts) : 0u;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = first + i * parts;
      if (at >= whole) break;
      float x[kCodes];
#pragma unroll
      for (int j = 0; j < kCodes; j += 4) {
        const uint4 four = device::load_16(a + at * kCodes + j);
        x[j] = __uint_as_float(four.x), x[j + 1] = __uint_as_float(four.y);
        x[j + 2] = __uint_as_float(four.z), x[j + 3] = __uint_as_float(four.w);
      }
      sum = scaled(sum, word_products<Codes>(word[i], x, kCodes), at);
    }
  }
#pragma unroll 1
  for (int at = whole + part; at < words; at += parts) {
    sum = scaled(sum, word_products<Codes>(codes[at], a + at * kCodes, p.k - at * kCodes), at);
  }
  return sum;
}

template <typename Codes>
__device__ __forceinline__ void scaled_gemv(const ScaledGemmArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = (static_cast<int>(blockIdx.x) * kWarps + warp) / p.warps_per_row;
  const int part = warp & (p.warps_per_row - 1);
  float sum = row < p.n ? lane_products<Codes>(p, row, part * 32 + lane, p.warps_per_row * 32) : 0;
  sum = device::warp_sum(sum);
  if (p.warps_per_row > 1) {
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
  }
  if (row >= p.n || part != 0 || lane != 0) return;
#pragma unroll 1
  for (int other = 1; other < p.warps_per_row; ++other) sum += partial[warp + other];
  sum *= p.scales[row];
  if (p.bias) sum += p.bias[row];
  static_cast<float*>(p.y)[row] = device::apply_epilogue(p.epilogue, sum, 0, row);
}

// 16 codes of a row of weights, neighbours in depth.
template <typename Codes>
struct Sixteen {
  static constexpr int kWords = 16 / Codes::kCodes;
  uint32_t words[kWords];
  uint32_t scale;  // of a block, twice, in f16 or bf16

  template <bool kBfloat>
  __device__ __forceinline__ void load(const ScaledGemmArguments& p, int row, int k) {
    const uint32_t* const from = p.codes + row * p.code_stride + k / Codes::kCodes;
    if constexpr (kWords == 4) {
      const uint4 four = device::load_16_once(from);
      words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    } else {
      const uint2 two = device::load_8_once(from);
      words[0] = two.x, words[1] = two.y;
    }
    if constexpr (Codes::kBlocks) {
      const float block = block_scale(p.block_scales[row * p.block_stride + k / 16]);
      scale = kBfloat ? device::pack_bfloat162(block * 0x1p118f, block * 0x1p118f)
                      : device::pack_half2(block * 128.0f, block * 128.0f);
    }
  }
  // Pair i of eight.
  template <bool kBfloat>
  __device__ __forceinline__ uint32_t pair(int i) const {
    constexpr int kPairs = Codes::kCodes / 2;
    if constexpr (kBfloat) {
      const uint32_t codes = Codes::bfloat162(words[i / kPairs], i % kPairs);
      return device::multiply_bfloat162(codes, Codes::kBlocks ? scale : 0x7b807b80u);  // 2^120
    } else {
      const uint32_t codes = Codes::half2(words[i / kPairs], i % kPairs);
      return Codes::kBlocks ? device::multiply_half2(codes, scale) : codes;
    }
  }
};

// 16 rows of weights, mma's left operand, by kTiles times 8 of activations. A lane loads 16 neighbours in depth of rows
// lane / 4 and lane / 4 + 8, which it passes as if they were the places that mma means: sums do not depend on the order
// in depth as long as activations take the same.
template <typename Codes, bool kBfloat, int kTiles>
__device__ __forceinline__ void scaled_gemm(const ScaledGemmArguments& p) {
  constexpr int kRows = 8 * kTiles;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * device::kScaledColumns,
            first_row = static_cast<int>(blockIdx.y) * kRows;
  const int upper = device::least(first + lane / 4, p.n - 1), lower = device::least(first + lane / 4 + 8, p.n - 1);
  const uint16_t* a[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    a[tile] = static_cast<const uint16_t*>(p.a) +
              static_cast<long long>(device::least(first_row + tile * 8 + lane / 4, p.m - 1)) * p.a_stride;
  }
  const bool aligned = device::is_aligned(p.a, p.a_stride * 2);
  float sums[1][kTiles][4] = {};
#pragma unroll(kTiles == 1 ? 2 : 1)
  for (int k0 = warp * kScaledDepth; k0 < p.k; k0 += device::kScaledWarps * kScaledDepth) {
    const int k = k0 + lane % 4 * 16;
    Sixteen<Codes> high, low;
    high.template load<kBfloat>(p, upper, k);
    low.template load<kBfloat>(p, lower, k);
    uint4 right[kTiles][2];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        right[tile][i] = device::load_eight_of_16_bits<false>(a[tile] + k + i * 8, p.k - k - i * 8, aligned);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint32_t rows[1][4] = {{high.template pair<kBfloat>(step * 2), low.template pair<kBfloat>(step * 2),
                                    high.template pair<kBfloat>(step * 2 + 1),
                                    low.template pair<kBfloat>(step * 2 + 1)}};
      uint32_t columns[kTiles][2];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 eight = right[tile][step / 2];
        columns[tile][0] = step % 2 ? eight.z : eight.x, columns[tile][1] = step % 2 ? eight.w : eight.y;
      }
      if constexpr (kBfloat) device::mma_tile_bf16(sums, rows, columns);
      else device::mma_tile_f16(sums, rows, columns);
    }
  }
  device::finish_scaled_rows<kTiles>(p, sums[0], [&](float y, int row, int column) {
    static_cast<uint16_t*>(p.y)[row * p.y_stride + column] = kBfloat ? device::to_bfloat16(y) : device::to_half(y);
  });
}

}  // namespace

#define SCALED_GEMM(name, Codes, kBfloat, rows)                                    \
  extern "C" __global__ void __launch_bounds__(256)                                \
      scaled_gemm_##name##_##rows(const __grid_constant__ ScaledGemmArguments p) { \
    device::begin_kernel();                                                        \
    scaled_gemm<Codes, kBfloat, rows / 8>(p);                                      \
  }
#define SCALED(name, Codes)                                               \
  extern "C" __global__ void __launch_bounds__(128)                       \
      scaled_gemv_##name(const __grid_constant__ ScaledGemmArguments p) { \
    device::begin_kernel();                                               \
    scaled_gemv<Codes>(p);                                                \
  }                                                                       \
  SCALED_GEMM(name##_f16, Codes, false, 8)                                \
  SCALED_GEMM(name##_f16, Codes, false, 32)                               \
  SCALED_GEMM(name##_bf16, Codes, true, 8)                                \
  SCALED_GEMM(name##_bf16, Codes, true, 32)
SCALED(e4m3, E4m3)
SCALED(nvfp4, Nvfp4)
