// Products whose operands come straight into registers: see direct_gemm.h.
#include "ops/cuda/direct_gemm.h"

#include <type_traits>

#include "ops/cuda/tile_epilogue.cuh"

namespace {

using sparkpilot::cuda::DirectGemmArguments;
using sparkpilot::cuda::kDirectSlice;

// A warp's share of the depth: every kWarpsK-th slice of 32. A lane loads 16 bytes of a slice of two rows and of two
// columns, eight elements that lie together, and takes them as elements 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 (q: lane % 4)
// of two mma: a and b in the same order, so the sum is the same. Rows and columns beyond the last are the last ones
// again.
template <typename T, int kWarpsK>
class Operands {
 public:
  __device__ __forceinline__ Operands(const DirectGemmArguments& p, int row, int column, int first_slice)
      : b_step_(p.b_slice * 2 * kWarpsK) {
    const int quad = static_cast<int>(threadIdx.x) % 4, slices = (p.depth + kDirectSlice - 1) / kDirectSlice;
    steps_ = (slices - first_slice + kWarpsK - 1) / kWarpsK;
    // A last slice that is not whole lacks the pieces of some lanes.
    const bool lacks = (slices - 1 - first_slice) % kWarpsK == 0 && (slices - 1) * kDirectSlice + quad * 8 >= p.depth;
    loads_ = lacks ? steps_ - 1 : steps_;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long r = device::least(row + i * 8, p.rows - 1), c = device::least(column + i * 8, p.columns - 1);
      a_[i] = static_cast<const unsigned char*>(p.a) + r * p.a_stride * 2 + first_slice * kSliceBytes + quad * 16;
      b_[i] = static_cast<const unsigned char*>(p.b) + c * p.b_column * 2 + first_slice * p.b_slice * 2 + quad * 16;
    }
  }
  // The first kAhead steps.
  __device__ __forceinline__ void load_b() {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load_b(i, i);
  }
  __device__ __forceinline__ void load_a() {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load_a(i, i);
  }
  // All steps, of which the first kAhead are on their way.
  __device__ __forceinline__ void multiply(float (&sums)[1][2][4]) {
#pragma unroll 1
    for (; steps_ > 0; steps_ -= kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (i >= steps_) break;
        const uint4(&a)[2] = a_bits_[i], (&b)[2] = b_bits_[i];
        add(sums, {a[0].x, a[1].x, a[0].y, a[1].y}, {b[0].x, b[0].y, b[1].x, b[1].y});
        add(sums, {a[0].z, a[1].z, a[0].w, a[1].w}, {b[0].z, b[0].w, b[1].z, b[1].w});
        load_b(i, i + kAhead);
        load_a(i, i + kAhead);
      }
      loads_ -= kAhead;
#pragma unroll
      for (int i = 0; i < 2; ++i) a_[i] += kAhead * kStepBytes, b_[i] += kAhead * b_step_;
    }
  }

 private:
  static constexpr int kAhead = 4, kSliceBytes = kDirectSlice * 2, kStepBytes = kWarpsK * kSliceBytes;

  // Into place i, what comes `step` steps after the one that is next.
  __device__ __forceinline__ void load_a(int i, int step) {
#pragma unroll
    for (int r = 0; r < 2; ++r) a_bits_[i][r] = step < loads_ ? device::load_16(a_[r] + step * kStepBytes) : uint4{};
  }
  __device__ __forceinline__ void load_b(int i, int step) {
#pragma unroll
    for (int c = 0; c < 2; ++c) b_bits_[i][c] = step < loads_ ? device::load_16_ahead(b_[c] + step * b_step_) : uint4{};
  }
  static __device__ __forceinline__ void add(float (&sums)[1][2][4], uint4 a, uint4 b) {
    const uint32_t left[1][4] = {{a.x, a.y, a.z, a.w}}, right[2][2] = {{b.x, b.y}, {b.z, b.w}};
    if constexpr (std::is_same_v<T, device::F16>) device::mma_tile_f16(sums, left, right);
    else device::mma_tile_bf16(sums, left, right);
  }

  const unsigned char *a_[2], *b_[2];
  long long b_step_;
  int steps_, loads_;  // that are left, and that this lane has pieces of
  uint4 a_bits_[kAhead][2], b_bits_[kAhead][2];
};

template <typename T, int kWarpsM, int kWarpsN, int kWarpsK>
__device__ __forceinline__ void direct_gemm(const DirectGemmArguments& p) {
  constexpr int kRows = kWarpsM * 16, kColumns = kWarpsN * 16, kPitch = device::tile_pitch(kColumns),
                kSums = kRows * kPitch;
  constexpr int kThreads = kWarpsM * kWarpsN * kWarpsK * 32;
  STATIC_SHARED(float, tile, kWarpsK* kSums);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int part = warp % kWarpsK, place = warp / kWarpsK;
  const int warp_row = place / kWarpsN * 16, warp_column = place % kWarpsN * 16;
  const int first_row = static_cast<int>(blockIdx.x) * kRows, first_column = static_cast<int>(blockIdx.y) * kColumns;

  Operands<T, kWarpsK> operands(p, first_row + warp_row + lane / 4, first_column + warp_column + lane / 4, part);
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  operands.load_b();
  device::begin_kernel();
  operands.load_a();
  float sums[1][2][4];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = first_column + warp_column + j * 8 + lane % 4 * 2 + e;
      sums[0][j][e] = sums[0][j][e + 2] = p.bias && part == 0 && column < p.columns ? p.bias[column] : 0.0f;
    }
  }
  operands.multiply(sums);
  device::let_next_begin();
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      device::store_8(
          tile + part * kSums + (warp_row + lane / 4 + half * 8) * kPitch + warp_column + j * 8 + lane % 4 * 2,
          {__float_as_uint(sums[0][j][half * 2]), __float_as_uint(sums[0][j][half * 2 + 1])});
    }
  }
  __syncthreads();
  if (device::beyond_quads<kRows, kColumns, kThreads>()) return;
  const auto quads = device::quads_of<kRows, kColumns, kThreads>(tile, first_row, first_column, p.rows, p.columns);
  if constexpr (kWarpsK > 1) device::add_slices<kWarpsK>(quads, kSums);
  device::apply_to_quads(epilogue, quads);
  device::store_quads<T>(p.y, quads);
}

}  // namespace

#define DIRECT_GEMM(name, type, m, n, k)                                             \
  extern "C" __global__ void __launch_bounds__(m* n* k * 32, 512 / (m * n * k * 32)) \
      direct_gemm_##name(const __grid_constant__ DirectGemmArguments p) {            \
    direct_gemm<device::type, m, n, k>(p);                                           \
  }
DIRECT_GEMM(32x32_f16, F16, 2, 2, 1)
DIRECT_GEMM(32x32_bf16, BF16, 2, 2, 1)
DIRECT_GEMM(16x16_f16, F16, 1, 1, 4)
DIRECT_GEMM(16x16_bf16, BF16, 1, 1, 4)
DIRECT_GEMM(16x16_deep_f16, F16, 1, 1, 8)
DIRECT_GEMM(16x16_deep_bf16, BF16, 1, 1, 8)
