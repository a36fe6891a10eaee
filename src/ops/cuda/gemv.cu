// Products of few rows by constant weights: see gemv.h.
#include "ops/cuda/gemv.h"

#include "ops/cuda/epilogue.cuh"
#include "ops/cuda/tile.cuh"

namespace {

using sparkpilot::cuda::GemvArguments;
using sparkpilot::cuda::GemvGroupArguments;
using sparkpilot::cuda::kGemvRows;

constexpr int kWarps = 4;

// As many activations as 16 bytes of weights have.
template <typename A, int kCount>
__device__ __forceinline__ void load_activations(const typename A::Bits* from, float (&out)[kCount]) {
  if constexpr (kCount == 4) device::load_piece<A>(from, out);
  else device::load_eight<A>(from, out);
}

// Adds a[m][...] times one row of weights to sums[m], over the pieces and the elements that fall to `part` of `parts`
// lanes. Returns the bias, which is under way meanwhile; null: 0.
template <typename A, typename W, int kRows>
__device__ __forceinline__ float add_products(const typename A::Bits* a, long long a_stride, int m,
                                              const typename W::Bits* weights, const float* bias, int k, bool aligned,
                                              int part, int parts, float (&sums)[kRows]) {
  constexpr int kPiece = 16 / static_cast<int>(sizeof(typename W::Bits));
  constexpr int kAhead = kRows > 1 ? 2 : 4;  // loads of weights on their way
  const int pieces = aligned ? k / kPiece : 0;
  uint4 bits[kAhead];
  const auto load = [&](int piece) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      bits[i] = piece + i * parts < pieces ? device::load_16_once(weights + (piece + i * parts) * kPiece) : uint4{};
  };
  load(part);    // weights are constant: the launch before this one does not write them
  __syncwarp();  // else ptxas puts the wait first
  device::begin_kernel();
  device::let_next_begin();
  const float bias_value = bias ? *bias : 0;
#pragma unroll 1
  for (int piece = part; piece < pieces; load(piece += kAhead * parts)) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (piece + i * parts >= pieces) break;
      float w[kPiece];
      device::unpack<W>(bits[i], w);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (kRows > 1 && row >= m) break;
        float x[kPiece];
        load_activations<A>(a + row * a_stride + (piece + i * parts) * kPiece, x);
        float even = 0, odd = 0;
#pragma unroll
        for (int j = 0; j < kPiece; j += 2) {
          even = fmaf(w[j], x[j], even);
          odd = fmaf(w[j + 1], x[j + 1], odd);
        }
        sums[row] += even + odd;
      }
    }
  }
#pragma unroll 1
  for (int i = pieces * kPiece + part; i < k; i += parts) {
    const float w = W::value(weights[i]);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (kRows > 1 && row >= m) break;
      sums[row] = fmaf(w, A::value(a[row * a_stride + i]), sums[row]);
    }
  }
  return bias_value;
}

// One row of weights by kRows of activations: each warp of the block calls it, and there is a barrier in it; sums[] of
// lane 0 of its first warp are whole. Returns the row's bias.
template <typename A, typename W, int kRows>
__device__ __forceinline__ float row_products(const typename A::Bits* a, long long a_stride, int m, const void* weights,
                                              long long weight_stride, const float* bias, int row, int n, int k,
                                              int warps_per_row, float* partial, float (&sums)[kRows]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int part = warp & (warps_per_row - 1);
  const bool aligned =
      device::is_aligned(weights, weight_stride * static_cast<long long>(sizeof(typename W::Bits))) &&
      device::is_aligned(a, kRows > 1 ? a_stride * static_cast<long long>(sizeof(typename A::Bits)) : 0);
  float bias_value = 0;
  if (row < n) {
    bias_value =
        add_products<A, W>(a, a_stride, m, static_cast<const typename W::Bits*>(weights) + row * weight_stride,
                           bias ? bias + row : nullptr, k, aligned, part * 32 + lane, warps_per_row * 32, sums);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = device::warp_sum(sums[i]);
  if (warps_per_row > 1 && lane == 0) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) partial[warp * kRows + i] = sums[i];
  }
  __syncthreads();
#pragma unroll 1
  for (int other = 1; other < (part == 0 ? warps_per_row : 1); ++other) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) sums[i] += partial[(warp + other) * kRows + i];
  }
  return bias_value;
}

template <typename A, typename W, int kRows>
__device__ __forceinline__ void gemv(const GemvArguments& p) {
  STATIC_SHARED(float, partial, kWarps* kRows);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = (static_cast<int>(blockIdx.x) * kWarps + warp) / p.warps_per_row;
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  float sums[kRows] = {};
  const float bias = row_products<A, W>(static_cast<const typename A::Bits*>(p.a), p.a_stride, p.m, p.weights,
                                        p.weight_stride, p.bias, row, p.n, p.k, p.warps_per_row, partial, sums);
  if (row >= p.n || (warp & (p.warps_per_row - 1)) != 0 || lane >= (kRows > 1 ? p.m : 1)) return;
  float sum = sums[0];
#pragma unroll
  for (int i = 1; i < kRows; ++i) sum = lane == i ? sums[i] : sum;
  if (p.bias) sum += bias;
  static_cast<typename A::Bits*>(p.y)[lane * p.y_stride + row] =
      A::rounded(device::apply_epilogue(epilogue, sum, lane, row));
}

template <typename A, typename W>
__device__ __forceinline__ void gemv_group(const GemvGroupArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  static_assert(sparkpilot::kMostGroupedProducts <= 32);
  const int block = static_cast<int>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int begun = lane < p.count && p.products[lane].first_block <= block ? 1 : 0;
  const GemvGroupArguments::Product& product = p.products[__popc(__ballot_sync(~0u, begun)) - 1];
  const auto& epilogue = device::shared_epilogue(product.epilogue);
  const int row = ((block - product.first_block) * kWarps + warp) / product.warps_per_row;
  float sums[1] = {};
  const float bias =
      row_products<A, W>(static_cast<const typename A::Bits*>(product.a), 0, 1, product.weights, product.weight_stride,
                         product.bias, row, product.n, product.k, product.warps_per_row, partial, sums);
  if (row >= product.n || (warp & (product.warps_per_row - 1)) != 0 || lane != 0) return;
  const float sum = product.bias ? sums[0] + bias : sums[0];
  static_cast<typename A::Bits*>(product.y)[row] = A::rounded(device::apply_epilogue(epilogue, sum, 0, row));
}

constexpr int kMmaWarps = 8, kMmaRows = 16, kSumStride = 20;  // so that four lanes write to four banks

// 16 rows of weights by up to 8 of activations: weights are mma's left operand and come straight from global memory. A
// lane loads eight neighbours in depth of rows lane / 4 and lane / 4 + 8, which it passes as if they were the places
// that mma means: sums do not depend on the order in depth as long as activations take the same.
template <typename T, bool kBfloat>
__device__ __forceinline__ void gemv_rows(const GemvArguments& p) {
  STATIC_SHARED(float, partial, kMmaWarps* kGemvRows* kSumStride);
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int first = static_cast<int>(blockIdx.x) * kMmaRows;
  const uint16_t* const a =
      static_cast<const uint16_t*>(p.a) + static_cast<long long>(device::least(lane / 4, p.m - 1)) * p.a_stride;
  const uint16_t* const weights = static_cast<const uint16_t*>(p.weights);
  const uint16_t* const upper = weights + device::least(first + lane / 4, p.n - 1) * p.weight_stride;
  const uint16_t* const lower = weights + device::least(first + lane / 4 + 8, p.n - 1) * p.weight_stride;
  const bool aligned = device::is_aligned(p.weights, p.weight_stride * 2) && device::is_aligned(p.a, p.a_stride * 2);
  constexpr int kStep = 32, kSteps = 2;  // of a warp
  float sums[1][1][4] = {};
#pragma unroll 1
  for (int k0 = warp * kStep; k0 < p.k; k0 += kMmaWarps * kStep * kSteps) {
    uint4 left[kSteps][2], right[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int k = k0 + i * kMmaWarps * kStep + lane % 4 * 8;
      left[i][0] = device::load_eight_of_16_bits<true>(upper + k, p.k - k, aligned);
      left[i][1] = device::load_eight_of_16_bits<true>(lower + k, p.k - k, aligned);
      right[i] = device::load_eight_of_16_bits<false>(a + k, p.k - k, aligned);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t rows[2][1][4] = {{{left[i][0].x, left[i][1].x, left[i][0].y, left[i][1].y}},
                                      {{left[i][0].z, left[i][1].z, left[i][0].w, left[i][1].w}}};
      const uint32_t columns[2][1][2] = {{{right[i].x, right[i].y}}, {{right[i].z, right[i].w}}};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (kBfloat) device::mma_tile_bf16(sums, rows[half], columns[half]);
        else device::mma_tile_f16(sums, rows[half], columns[half]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    partial[(warp * kGemvRows + lane % 4 * 2 + i % 2) * kSumStride + lane / 4 + i / 2 * 8] = sums[0][0][i];
  __syncthreads();
  const int row = thread / kMmaRows, column = first + thread % kMmaRows;
  if (row >= p.m || column >= p.n) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMmaWarps; ++i) sum += partial[(i * kGemvRows + row) * kSumStride + thread % kMmaRows];
  if (p.bias) sum += p.bias[column];
  static_cast<uint16_t*>(p.y)[row * p.y_stride + column] =
      T::rounded(device::apply_epilogue(epilogue, sum, row, column));
}

}  // namespace

#define GEMV(name, A, W)                                                                                              \
  extern "C" __global__ void __launch_bounds__(128) gemv_##name(const __grid_constant__ GemvArguments p) {            \
    gemv<device::A, device::W, 1>(p);                                                                                 \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(128) gemv_group_##name(const __grid_constant__ GemvGroupArguments p) { \
    gemv_group<device::A, device::W>(p);                                                                              \
  }
GEMV(f32, F32, F32)
GEMV(f16, F16, F16)
GEMV(bf16, BF16, BF16)
GEMV(f32_weights_f16, F32, F16)
GEMV(f32_weights_bf16, F32, BF16)

extern "C" __global__ void __launch_bounds__(128) gemv_rows_f32(const __grid_constant__ GemvArguments p) {
  gemv<device::F32, device::F32, kGemvRows>(p);
}
extern "C" __global__ void __launch_bounds__(256) gemv_rows_f16(const __grid_constant__ GemvArguments p) {
  device::begin_kernel();
  gemv_rows<device::F16, false>(p);
}
extern "C" __global__ void __launch_bounds__(256) gemv_rows_bf16(const __grid_constant__ GemvArguments p) {
  device::begin_kernel();
  gemv_rows<device::BF16, true>(p);
}
