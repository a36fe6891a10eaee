// Finishes sums that lie in shared memory as fp32, in groups of four channels: epilogue, rounding, store. Each step is
// applied to all groups of a thread before the next one, so that its operands are under way together. Sums stay in
// shared memory meanwhile, because only there can one instance of a function go through them.
#pragma once

#include "ops/cuda/epilogue_four.cuh"

namespace device {

// A thread's share of the sums: groups of four channels, group i of `count` at row `row` + i * `rows_between`.
struct Quads {
  float* sums;  // of group 0, at a multiple of 16 bytes; no other thread's
  int sums_between, count, rows_between;
  int column;      // of the first of the four channels, a multiple of 4, the same for all groups
  long long row;   // of group 0
  long long rows;  // groups in later rows are left out, and all if `column` is not below `channels`
  int channels;

  __device__ __forceinline__ bool there(int i) const {
    return i < count && column < channels && row + i * rows_between < rows;
  }
};

// Floats from row to row of a tile of sums: 8 more than there must be, so that four rows begin in four different banks.
__device__ constexpr int tile_pitch(int columns) { return columns + 8; }

// Whether a thread has none of the groups of four of a tile, which has fewer than there are threads.
template <int kRows, int kColumns, int kThreads>
__device__ __forceinline__ bool beyond_quads() {
  return static_cast<int>(threadIdx.x) >= kRows * (kColumns / 4);
}
// The share of the others in a tile of sums, whose first is that of first_row and first_column of a result of rows by
// columns.
template <int kRows, int kColumns, int kThreads>
__device__ __forceinline__ Quads quads_of(float* tile, long long first_row, int first_column, long long rows,
                                          int columns) {
  constexpr int kInRow = kColumns / 4, kMost = kThreads / kInRow, kRowsAtOnce = kRows < kMost ? kRows : kMost;
  const int row = static_cast<int>(threadIdx.x) / kInRow, column = static_cast<int>(threadIdx.x) % kInRow * 4;
  return {tile + row * tile_pitch(kColumns) + column,
          kRowsAtOnce * tile_pitch(kColumns),
          kRows / kRowsAtOnce,
          kRowsAtOnce,
          first_column + column,
          first_row + row,
          rows,
          columns};
}

__device__ __forceinline__ void combine(sparkpilot::cuda::EpilogueStep::Kind kind, float* sums,
                                        const float (&with)[4]) {
  const uint4 bits = load_16(sums);
  float x[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
#pragma unroll
  for (int e = 0; e < 4; ++e) x[e] = kind == sparkpilot::cuda::EpilogueStep::add ? x[e] + with[e] : x[e] * with[e];
  store_16(sums, {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])});
}

// Adds the sums of kSlices warps in their order, each `between` floats after the one before it, into the first's.
template <int kSlices>
__device__ __forceinline__ void add_slices(const Quads& quads, int between) {
#pragma unroll 1
  for (int i = 0; quads.there(i); ++i) {
    float* const sums = quads.sums + i * quads.sums_between;
    float x[kSlices][4];
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) load_four<F32>(sums + slice * between, x[slice]);
#pragma unroll
    for (int slice = 1; slice < kSlices; ++slice) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[0][e] += x[slice][e];
    }
    store_16(sums,
             {__float_as_uint(x[0][0]), __float_as_uint(x[0][1]), __float_as_uint(x[0][2]), __float_as_uint(x[0][3])});
  }
}

// An operand whose four channels lie together.
__device__ __forceinline__ void combine_wide(const sparkpilot::cuda::EpilogueStep& step, const Quads& quads) {
  using sparkpilot::cuda::Storage;
  constexpr int kTogether = 4;
  const long long stride = step.row_stride * quads.rows_between;
  const long long at = quads.row * step.row_stride + quads.column;
#pragma unroll 1
  for (int first = 0; quads.there(first); first += kTogether) {
    uint4 bits[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      bits[i] = {};
      if (!quads.there(first + i)) continue;
      if (step.storage == Storage::f32) {
        bits[i] = load_16(static_cast<const float*>(step.operand) + at + (first + i) * stride);
      } else {
        const uint2 pairs = load_8(static_cast<const uint16_t*>(step.operand) + at + (first + i) * stride);
        bits[i].x = pairs.x, bits[i].y = pairs.y;
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (!quads.there(first + i)) continue;
      float* const sums = quads.sums + (first + i) * quads.sums_between;
      if (step.storage == Storage::f32) {
        combine(step.kind, sums,
                {__uint_as_float(bits[i].x), __uint_as_float(bits[i].y), __uint_as_float(bits[i].z),
                 __uint_as_float(bits[i].w)});
      } else {
        const bool half = step.storage == Storage::f16;
        const float2 low = half ? half2_values(bits[i].x) : bfloat162_values(bits[i].x);
        const float2 high = half ? half2_values(bits[i].y) : bfloat162_values(bits[i].y);
        combine(step.kind, sums, {low.x, low.y, high.x, high.y});
      }
    }
  }
}

// Not inlined: it is most of a kernel's code, and a kernel has no more than sums in registers when it comes here. The
// epilogue is one of a kernel's arguments, which must be __grid_constant__ so that it has an address.
static __device__ __attribute__((noinline)) void apply_to_quads(const sparkpilot::cuda::Epilogue& epilogue,
                                                                const Quads quads) {
  using sparkpilot::cuda::EpilogueStep;
  if (!quads.there(0)) return;
#pragma unroll 1
  for (int s = 0; s < epilogue.count; ++s) {
    const EpilogueStep& step = epilogue.steps[s];
    const bool wide = quads.channels % 4 == 0 && step.column_stride == 1 && step.row_stride % 4 == 0 &&
                      reinterpret_cast<uintptr_t>(step.operand) % 16 == 0;
    if (step.kind != EpilogueStep::activation && wide) {
      combine_wide(step, quads);
      continue;
    }
#pragma unroll 1
    for (int i = 0; quads.there(i); ++i) {
      float* const sums = quads.sums + i * quads.sums_between;
      if (step.kind == EpilogueStep::activation) {
        float x[4];
        load_four<F32>(sums, x);
        activate_four(step.function, x, step.alpha, step.beta);
        store_16(sums, {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])});
      } else {
        float with[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const long long column = least(quads.column + e, quads.channels - 1);
          const long long row = quads.row + i * quads.rows_between;
          with[e] = operand_value(step.storage, step.operand, row * step.row_stride + column * step.column_stride);
        }
        combine(step.kind, sums, with);
      }
    }
  }
}

// Sets a thread's sums to the bias (may be null) and the sums of `parts` arrays [rows, channels], added in their order.
__device__ __forceinline__ void add_parts(const float* partial, int parts, const float* bias, const Quads& quads) {
  const int count = least(4, quads.channels - quads.column);
  const long long between = quads.rows * quads.channels;
#pragma unroll 1
  for (int i = 0; quads.there(i); ++i) {
    const float* from = partial + (quads.row + i * quads.rows_between) * quads.channels + quads.column;
    float x[4] = {};
    if (quads.channels % 4 == 0) {
      if (bias) {
        const uint4 bits = load_16(bias + quads.column);
        x[0] = __uint_as_float(bits.x), x[1] = __uint_as_float(bits.y);
        x[2] = __uint_as_float(bits.z), x[3] = __uint_as_float(bits.w);
      }
#pragma unroll 4
      for (int part = 0; part < parts; ++part) {
        const uint4 bits = load_16(from + part * between);
        x[0] += __uint_as_float(bits.x), x[1] += __uint_as_float(bits.y);
        x[2] += __uint_as_float(bits.z), x[3] += __uint_as_float(bits.w);
      }
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = bias && e < count ? bias[quads.column + e] : 0.0f;
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] += e < count ? from[part * between + e] : 0.0f;
      }
    }
    store_16(quads.sums + i * quads.sums_between,
             {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])});
  }
}

// To y[row * channels + column]; y lies at a multiple of 16 bytes.
template <typename T>
__device__ __forceinline__ void store_quads(void* y, const Quads& quads) {
  using Bits = typename T::Bits;
  const int channels = quads.channels;
  Bits* to = static_cast<Bits*>(y) + quads.row * channels + quads.column;
#pragma unroll 1
  for (int i = 0; quads.there(i); ++i) {
    const float* const sums = quads.sums + i * quads.sums_between;
    if (channels % 4 == 0) {
      const uint4 bits = load_16(sums);
      if constexpr (sizeof(Bits) == 4) {
        store_16(to, bits);
      } else {
        store_8(to, {T::pair(__uint_as_float(bits.x), __uint_as_float(bits.y)),
                     T::pair(__uint_as_float(bits.z), __uint_as_float(bits.w))});
      }
    } else {
      const uint4 bits = load_16(sums);  // at once: single ones are four in a bank
      const uint32_t each[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (e < channels - quads.column) to[e] = T::rounded(__uint_as_float(each[e]));
      }
    }
    to += static_cast<long long>(quads.rows_between) * channels;
  }
}

}  // namespace device
