// Matrix products in tiles: see products.h.
#include "ops/cuda/products.h"

#include "ops/cuda/epilogue_four.cuh"
#include "ops/cuda/tile.cuh"

namespace {

using sparkpilot::cuda::GemmArguments;
using sparkpilot::cuda::GemmLayout;

constexpr int kThreads = 128, kStages = 4;

// How a block's four warps share its tile. Large ones: two by two, each a quarter of the sums. Small ones: each warp
// has all sums over a quarter of the depth, which are added at the end, so that operands are read from shared memory
// less often and the ring holds twice the depth.
template <int kM, int kN>
struct Shares {
  static constexpr int kSlices = kM * kN <= 1024 ? 4 : 1, kHalves = kSlices == 1 ? 2 : 1;
  static constexpr int kWarpM = kM / kHalves, kWarpN = kN / kHalves;
  static constexpr int kDepthBytes = kSlices == 1 ? 64 : 128;
  static __device__ __forceinline__ int first_row(int warp) { return kSlices == 1 ? warp / 2 * kWarpM : 0; }
  static __device__ __forceinline__ int first_column(int warp) { return kSlices == 1 ? warp % 2 * kWarpN : 0; }
  static __device__ __forceinline__ int slice(int warp) { return kSlices == 1 ? 0 : warp; }
};

// With f16 or bf16 elements. A warp's sums are those of mma: lane / 4 (and 8 more) is the row, lane % 4 * 2 (and one
// more) the column of each 16 by 8.
template <typename T, bool kBfloat, int kM, int kN, bool kBIsKn>
struct MmaTile {
  using Share = Shares<kM, kN>;
  using Storage = T;
  using Bits = uint16_t;
  static constexpr int kRows = kM, kColumns = kN, kDepth = Share::kDepthBytes / 2, kPieces = kDepth / 8;
  static constexpr int kTilesM = Share::kWarpM / 16, kTilesN = Share::kWarpN / 8;
  static constexpr bool kKn = kBIsKn, kKm = false;
  float sums[kTilesM][kTilesN][4] = {};

  __device__ __forceinline__ void multiply(const Bits* a, const Bits* b, int warp, int lane) {
    const int first_row = Share::first_row(warp), first_column = Share::first_column(warp);
#pragma unroll
    for (int i16 = 0; i16 < kDepth / 16; i16 += Share::kSlices) {
      const int sixteen = i16 + Share::slice(warp);
      uint32_t left[kTilesM][4], right[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        device::load_matrix_x4(left[i],
                               a + device::place<kPieces>(first_row + i * 16 + lane % 16, sixteen * 2 + lane / 16) * 8);
#pragma unroll
      for (int j = 0; j < kTilesN; j += 2) {
        uint32_t four[4];
        if constexpr (kBIsKn) {
          device::load_matrix_x4_transposed(
              four, b + device::place<kN / 8>(sixteen * 16 + lane % 16, first_column / 8 + j + lane / 16) * 8);
        } else {
          device::load_matrix_x4(four, b + device::place<kPieces>(first_column + j * 8 + lane / 16 * 8 + lane % 8,
                                                                  sixteen * 2 + lane / 8 % 2) *
                                               8);
        }
        right[j][0] = four[0], right[j][1] = four[1], right[j + 1][0] = four[2], right[j + 1][1] = four[3];
      }
      if constexpr (kBfloat) device::mma_tile_bf16(sums, left, right);
      else device::mma_tile_f16(sums, left, right);
    }
  }
  // Into rows of kStride floats.
  template <int kStride>
  __device__ __forceinline__ void spread(float* out, int warp, int lane) const {
    const int first_row = Share::first_row(warp) + lane / 4, first_column = Share::first_column(warp) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          device::store_8(out + (first_row + i * 16 + half * 8) * kStride + first_column + j * 8,
                          {__float_as_uint(sums[i][j][half * 2]), __float_as_uint(sums[i][j][half * 2 + 1])});
  }
};

// The same with f32 elements and real fp32 products. A warp's lanes are 4 by 8: every fourth row, of gemm_km
// neighbours instead; every eighth column, of gemm_kn and gemm_km neighbours instead.
template <int kM, int kN, GemmLayout kLayout>
struct FmaTile {
  using Share = Shares<kM, kN>;
  using Storage = device::F32;
  using Bits = float;
  static constexpr int kRows = kM, kColumns = kN, kDepth = Share::kDepthBytes / 4, kPieces = kDepth / 4;
  static constexpr int kEachM = Share::kWarpM / 4, kEachN = Share::kWarpN / 8;
  static constexpr bool kKn = kLayout != GemmLayout::nk, kKm = kLayout == GemmLayout::km;
  static_assert(kEachN == 4 && (!kKm || kEachM % 4 == 0));
  float sums[kEachM][kEachN] = {};

  // The i-th row of a lane's sums.
  static __device__ __forceinline__ int own_row(int warp, int lane, int i) {
    return Share::first_row(warp) + (kKm ? lane / 8 * kEachM + i : lane / 8 + i * 4);
  }
  __device__ __forceinline__ void multiply(const float* a, const float* b, int warp, int lane) {
    const int first_row = own_row(warp, lane, 0), first_column = Share::first_column(warp);
#pragma unroll 1
    for (int piece = Share::slice(warp); piece < kPieces; piece += Share::kSlices) {
      float right[kEachN][4];  // of four in depth
      if constexpr (!kKn) {
#pragma unroll
        for (int j = 0; j < kEachN; ++j)
          device::load_piece<device::F32>(b + device::place<kPieces>(first_column + j * 8 + lane % 8, piece) * 4,
                                          right[j]);
      } else {
        const int column = first_column + lane % 8 * kEachN;
#pragma unroll
        for (int depth = 0; depth < 4; ++depth) {
          const float* const from = b + device::place<kN / 4>(piece * 4 + depth, column / 4) * 4 + column % 4;
          float four[4];
          device::load_piece<device::F32>(from, four);
#pragma unroll
          for (int j = 0; j < 4; ++j) right[j][depth] = four[j];
        }
      }
      if constexpr (kKm) {
#pragma unroll
        for (int depth = 0; depth < 4; ++depth) {
#pragma unroll
          for (int i4 = 0; i4 < kEachM; i4 += 4) {
            float left[4];
            const int row = first_row + i4;
            device::load_piece<device::F32>(a + device::place<kM / 4>(piece * 4 + depth, row / 4) * 4, left);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
              for (int j = 0; j < kEachN; ++j) sums[i4 + i][j] = fmaf(left[i], right[j][depth], sums[i4 + i][j]);
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < kEachM; ++i) {
          float left[4];
          device::load_piece<device::F32>(a + device::place<kPieces>(first_row + i * 4, piece) * 4, left);
#pragma unroll
          for (int depth = 0; depth < 4; ++depth)
#pragma unroll
            for (int j = 0; j < kEachN; ++j) sums[i][j] = fmaf(left[depth], right[j][depth], sums[i][j]);
        }
      }
    }
  }
  template <int kStride>
  __device__ __forceinline__ void spread(float* out, int warp, int lane) const {
    const int first_column = Share::first_column(warp);
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
      float* const row = out + own_row(warp, lane, i) * kStride + first_column;
      if constexpr (!kKn) {
#pragma unroll
        for (int j = 0; j < kEachN; ++j) row[lane % 8 + j * 8] = sums[i][j];
      } else {
        device::store_four<device::F32>(row, lane % 8 * 4, 4, sums[i]);
      }
    }
  }
};

// Bias, epilogue and rounding of four neighbours of a row.
template <typename T>
__device__ __forceinline__ void finish(const GemmArguments& p, const sparkpilot::cuda::Epilogue& epilogue,
                                       float (&sums)[4], int batch, long long y_first, int row, int column) {
  const int count = p.n - column;
  if (p.bias) {
    float bias[4];
    device::load_four<device::F32>(p.bias, column, count, bias);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += bias[i];
  }
  const float4 y = device::apply_epilogue_four(epilogue, {sums[0], sums[1], sums[2], sums[3]},
                                               static_cast<long long>(batch) * p.m + row, column, count);
  device::store_four<T>(p.y, y_first + row * p.y_stride + column, count, {y.x, y.y, y.z, y.w});
}

template <typename Tile>
__device__ __forceinline__ void gemm(const GemmArguments& p) {
  using Bits = typename Tile::Bits;
  constexpr int kPiece = 16 / static_cast<int>(sizeof(Bits));
  [[maybe_unused]] constexpr int kDepthPieces = Tile::kDepth / kPiece;
  constexpr int kA = Tile::kRows * Tile::kDepth, kStage = kA + Tile::kColumns * Tile::kDepth;
  constexpr int kStride = Tile::kColumns + 8;  // of sums in shared memory: four rows of mma lie in other banks
  constexpr int kRing = kStages * kStage * static_cast<int>(sizeof(Bits)), kSums = Tile::kRows * kStride;  // floats
  constexpr int kSumBytes = Tile::Share::kSlices * kSums * 4;
  constexpr int kAfterwards = kSumBytes + device::EpilogueWord::kBytes;
  STATIC_SHARED(unsigned char, memory, kRing > kAfterwards ? kRing : kAfterwards);
  const device::EpilogueWord word(p.epilogue);
  Bits* const ring = reinterpret_cast<Bits*>(memory);
  float* const out = reinterpret_cast<float*>(memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int first_row = static_cast<int>(blockIdx.x) * Tile::kRows;
  const int first_column = static_cast<int>(blockIdx.y) * Tile::kColumns;
  const int batches = p.outer * p.inner, part = static_cast<int>(blockIdx.z) / batches;
  const int batch = static_cast<int>(blockIdx.z) - part * batches, outer = batch / p.inner;
  const int inner = batch - outer * p.inner;
  const Bits* const a =
      static_cast<const Bits*>(p.a) + outer * p.a_outer + inner * p.a_inner + first_row * (Tile::kKm ? 1 : p.a_stride);
  const Bits* const b = static_cast<const Bits*>(p.b) + outer * p.b_outer + inner * p.b_inner +
                        first_column * (Tile::kKn ? 1 : p.b_stride);
  const bool a_aligned = device::is_aligned(a, p.a_stride * static_cast<long long>(sizeof(Bits)));
  const bool b_aligned = device::is_aligned(b, p.b_stride * static_cast<long long>(sizeof(Bits)));
  const int begin = part * p.part_depth, end = device::least(begin + p.part_depth, p.k);
  const int steps = end > begin ? (end - begin + Tile::kDepth - 1) / Tile::kDepth : 0;

  const auto load = [&](int step) {
    if (step < steps) {
      Bits* const stage = ring + step % kStages * kStage;
      const int k0 = begin + step * Tile::kDepth;
      if constexpr (Tile::kKm) {
        device::load_tile<kThreads, Bits, Tile::kDepth, Tile::kRows / kPiece>(stage, a + k0 * p.a_stride, p.a_stride,
                                                                              end - k0, p.m - first_row, a_aligned);
      } else {
        device::load_tile<kThreads, Bits, Tile::kRows, kDepthPieces>(stage, a + k0, p.a_stride, p.m - first_row,
                                                                     end - k0, a_aligned);
      }
      if constexpr (Tile::kKn) {
        device::load_tile<kThreads, Bits, Tile::kDepth, Tile::kColumns / kPiece>(
            stage + kA, b + k0 * p.b_stride, p.b_stride, end - k0, p.n - first_column, b_aligned);
      } else {
        device::load_tile<kThreads, Bits, Tile::kColumns, kDepthPieces>(stage + kA, b + k0, p.b_stride,
                                                                        p.n - first_column, end - k0, b_aligned);
      }
    }
    device::copy_commit();
  };
  Tile tile;
  device::begin_kernel();
#pragma unroll 1
  for (int step = 1 - kStages; step < steps; ++step) {  // the first ones only fill the ring
    device::copy_wait<kStages - 2>();
    __syncthreads();  // step's stage is filled, and all are done with the one that is filled next
    load(step + kStages - 1);
    if (step < 0) continue;
    const Bits* const stage = ring + step % kStages * kStage;
    tile.multiply(stage, stage + kA, warp, lane);
  }
  device::copy_wait<0>();
  __syncthreads();
  device::let_next_begin();
  const sparkpilot::cuda::Epilogue& epilogue = word.put(memory + kSumBytes);
  tile.template spread<kStride>(out + Tile::Share::slice(warp) * kSums, warp, lane);
  __syncthreads();
  constexpr int kFours = Tile::kColumns / 4;
  const long long y_first = outer * p.y_outer + inner * p.y_inner;
#pragma unroll 1
  for (int at = thread; at < Tile::kRows * kFours; at += kThreads) {
    const int row = at / kFours, column = at % kFours * 4;
    if (first_row + row >= p.m || first_column + column >= p.n) continue;
    float sums[4];
    device::load_four<device::F32>(out + row * kStride + column, sums);
#pragma unroll
    for (int slice = 1; slice < Tile::Share::kSlices; ++slice) {
      float add[4];
      device::load_four<device::F32>(out + slice * kSums + row * kStride + column, add);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += add[i];
    }
    if (p.parts > 1) {
      const long long partial_row = static_cast<long long>(part * batches + batch) * p.m + first_row + row;
      device::store_four<device::F32>(p.partial, partial_row * p.n + first_column + column, p.n - first_column - column,
                                      sums);
    } else {
      finish<typename Tile::Storage>(p, epilogue, sums, batch, y_first, first_row + row, first_column + column);
    }
  }
}

// Adds up the parts in order; a thread for four neighbours of a row, blockIdx.y for each batch.
template <typename T>
__device__ __forceinline__ void gemm_sum(const GemmArguments& p) {
  const unsigned fours = static_cast<unsigned>(p.n + 3) / 4, at = blockIdx.x * kThreads + threadIdx.x;
  const int row = static_cast<int>(at / fours), column = static_cast<int>(at % fours) * 4;
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  const int batch = static_cast<int>(blockIdx.y), outer = batch / p.inner, inner = batch - outer * p.inner;
  const long long rows = static_cast<long long>(p.outer) * p.inner * p.m;
  const long long first = (static_cast<long long>(batch) * p.m + row) * p.n + column;
  float sums[4] = {};
#pragma unroll 4
  for (int part = 0; row < p.m && part < p.parts; ++part) {
    float add[4];
    device::load_four<device::F32>(p.partial, first + part * rows * p.n, p.n - column, add);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += add[i];
  }
  __syncthreads();
  if (row < p.m) finish<T>(p, epilogue, sums, batch, outer * p.y_outer + inner * p.y_inner, row, column);
}

}  // namespace

// One block a multiprocessor is asked for, since ptxas else spills to reach a number of blocks that shared memory
// forbids.
#define GEMM(name, ...)                                                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads, 1) gemm_##name(const __grid_constant__ GemmArguments p) { \
    gemm<__VA_ARGS__>(p);                                                                                          \
  }
#define GEMM_MMA(kn, m, n, is_kn)                                   \
  GEMM(kn##f16_##m##x##n, MmaTile<device::F16, false, m, n, is_kn>) \
  GEMM(kn##bf16_##m##x##n, MmaTile<device::BF16, true, m, n, is_kn>)
GEMM_MMA(, 128, 64, false)
GEMM_MMA(, 64, 64, false)
GEMM_MMA(, 32, 32, false)
GEMM_MMA(kn_, 64, 64, true)
GEMM_MMA(kn_, 32, 32, true)
GEMM(f32_64x64, FmaTile<64, 64, GemmLayout::nk>)
GEMM(f32_32x32, FmaTile<32, 32, GemmLayout::nk>)
GEMM(kn_f32_64x64, FmaTile<64, 64, GemmLayout::kn>)
GEMM(kn_f32_32x32, FmaTile<32, 32, GemmLayout::kn>)
GEMM(km_f32_64x64, FmaTile<64, 64, GemmLayout::km>)
GEMM(km_f32_32x32, FmaTile<32, 32, GemmLayout::km>)

#define GEMM_SUM(name, type)                                                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads) gemm_sum_##name(const __grid_constant__ GemmArguments p) { \
    device::begin_kernel();                                                                                         \
    device::let_next_begin();                                                                                       \
    gemm_sum<device::type>(p);                                                                                      \
  }
GEMM_SUM(f32, F32)
GEMM_SUM(f16, F16)
GEMM_SUM(bf16, BF16)
