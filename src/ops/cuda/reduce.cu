// Reductions.
#include "ops/cuda/reduce.h"

#include "ops/cuda/block.cuh"
#include "ops/cuda/rows.h"
#include "ops/cuda/strided.cuh"
#include "ops/cuda/walk.cuh"

namespace {

using device::Walk;
using sparkpilot::cuda::ReduceArguments;
using sparkpilot::cuda::ReduceKind;

constexpr int kWarps = 4, kThreads = kWarps * 32, kColumnWarps = 8;

__device__ __forceinline__ float neutral(ReduceKind kind) {
  return kind == ReduceKind::max    ? -INFINITY
         : kind == ReduceKind::min  ? INFINITY
         : kind == ReduceKind::prod ? 1.0f
                                    : 0.0f;
}
// One element as it is summed up; `top` is the shift of log_sum_exp.
__device__ __forceinline__ float prepared(ReduceKind kind, float x, float top) {
  switch (kind) {
    case ReduceKind::l1: return fabsf(x);
    case ReduceKind::l2:
    case ReduceKind::sum_square: return x * x;
    case ReduceKind::log_sum_exp: return expf(x - top);
    default: return x;
  }
}
struct Combine {
  ReduceKind kind;
  __device__ __forceinline__ float operator()(float a, float b) const {
    switch (kind) {
      case ReduceKind::max: return device::max_nan(a, b);
      case ReduceKind::min: return device::min_nan(a, b);
      case ReduceKind::prod: return a * b;
      default: return a + b;
    }
  }
};
__device__ __forceinline__ float finished(ReduceKind kind, float value, float top, int size) {
  switch (kind) {
    case ReduceKind::mean: return device::mean_of(value, size);
    case ReduceKind::l2: return sqrtf(value);
    case ReduceKind::log_sum: return logf(value);
    case ReduceKind::log_sum_exp: return top + logf(value);
    default: return value;
  }
}
// The shift of log_sum_exp: the maximum, where that is a number.
__device__ __forceinline__ float shift(float top) { return top - top == 0.0f ? top : 0.0f; }

// The result of a part: y, or the part's place in the partial results.
template <typename T>
__device__ __forceinline__ void put(const ReduceArguments& p, long long output, float value, float top) {
  if (p.parts == 1) {
    static_cast<typename T::Bits*>(p.y)[output] = T::rounded(finished(p.kind, value, top, p.size));
  } else {
    float* const to = p.partials + (output * p.parts + blockIdx.y) * 2;
    to[0] = value, to[1] = top;
  }
}

// Of the part of a row that this warp or block has.
struct RowReduction {
  Walk walk;
  float* partial;
  template <typename Combiner>
  __device__ __forceinline__ float all(float value, Combiner combine) const {
    if (walk.threads == 32) return device::warp_combine(value, combine);
    return device::block_combine<kWarps>(value, partial, combine);
  }
  template <typename T>
  __device__ __forceinline__ float run(const typename T::Bits* x, ReduceKind kind, float top) const {
    const Combine combine{kind};
    float value = neutral(kind);
#pragma unroll 1
    for (int c = 0; c * walk.threads * 8 < walk.size; ++c) {
      float v[8];
      walk.load<T>(x, c, v);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (walk.has(c, i)) value = combine(value, prepared(kind, v[i], top));
      }
    }
    return all(value, combine);
  }
};

template <typename T>
__device__ __forceinline__ void reduce_rows(const ReduceArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  const bool warps = p.parts == 1 && p.size <= sparkpilot::cuda::kWarpRow;
  const int thread = static_cast<int>(threadIdx.x), threads = warps ? 32 : kThreads;
  const long long row = warps ? static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + thread / 32 : blockIdx.x;
  if (row >= p.outer) return;
  const int begin = static_cast<int>(blockIdx.y) * p.part;
  const typename T::Bits* const x = static_cast<const typename T::Bits*>(p.x) + row * p.size + begin;
  const int size = warps ? p.size : device::least(p.size - begin, p.part);
  const bool wide = p.size % 8 == 0 && device::aligned(p.x);
  const RowReduction reduction{{size, thread & (threads - 1), threads, wide, sizeof(typename T::Bits) == 4}, partial};
  float top = 0;
  if (p.kind == ReduceKind::log_sum_exp) top = shift(reduction.run<T>(x, ReduceKind::max, 0));
  const float value = reduction.run<T>(x, p.kind, top);
  if ((thread & (threads - 1)) == 0) put<T>(p, row, value, top);
}

// Of 32 columns: each warp takes every eighth row, and the first adds what they have.
template <typename T>
__device__ __forceinline__ float reduce_column(const ReduceArguments& p, const typename T::Bits* x, int size, bool has,
                                               ReduceKind kind, float top, float* partial) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Combine combine{kind};
  float value = neutral(kind);
  if (has) {
#pragma unroll 4
    for (int i = warp; i < size; i += kColumnWarps) {
      value = combine(value, prepared(kind, T::value(x[static_cast<long long>(i) * p.inner]), top));
    }
  }
  __syncthreads();  // the last result has been read
  partial[warp * 32 + lane] = value;
  __syncthreads();
  value = partial[lane];
#pragma unroll
  for (int i = 1; i < kColumnWarps; ++i) value = combine(value, partial[i * 32 + lane]);
  return value;
}

template <typename T>
__device__ __forceinline__ void reduce_columns(const ReduceArguments& p) {
  STATIC_SHARED(float, partial, kColumnWarps * 32);
  const unsigned groups = static_cast<unsigned>((p.inner + 31) / 32), outer = blockIdx.x / groups;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            column = static_cast<int>(blockIdx.x - outer * groups) * 32 + lane;
  const int begin = static_cast<int>(blockIdx.y) * p.part, size = device::least(p.size - begin, p.part);
  const bool has = column < p.inner;
  const typename T::Bits* const x =
      static_cast<const typename T::Bits*>(p.x) + (static_cast<long long>(outer) * p.size + begin) * p.inner + column;
  float top = 0;
  if (p.kind == ReduceKind::log_sum_exp) {
    top = shift(reduce_column<T>(p, x, size, has, ReduceKind::max, 0, partial));
  }
  const float value = reduce_column<T>(p, x, size, has, p.kind, top, partial);
  if (has && threadIdx.x < 32) put<T>(p, static_cast<long long>(outer) * p.inner + column, value, top);
}

template <typename T>
__device__ __forceinline__ void reduce_parts(const ReduceArguments& p) {
  const long long output = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;
  if (output >= static_cast<long long>(p.outer) * p.inner) return;
  const float* const from = p.partials + output * p.parts * 2;
  const Combine combine{p.kind};
  const bool shifts = p.kind == ReduceKind::log_sum_exp;
  float top = -INFINITY;
#pragma unroll 1
  for (int i = 0; i < p.parts && shifts; ++i) {
    if (from[i * 2] != 0.0f) top = device::max_nan(top, from[i * 2 + 1]);  // 0: a part of -inf
  }
  top = shift(top);
  float value = neutral(p.kind);
#pragma unroll 4
  for (int i = 0; i < p.parts; ++i) {
    float x = from[i * 2];
    if (shifts && x != 0.0f && x - x == 0.0f) x *= expf(from[i * 2 + 1] - top);  // infinity and NaN stay
    value = combine(value, x);
  }
  static_cast<typename T::Bits*>(p.y)[output] = T::rounded(finished(p.kind, value, top, p.size));
}

// Whether x at i replaces `best` at `at`.
__device__ __forceinline__ bool beats(const sparkpilot::cuda::ArgReduceArguments& p, float x, int i, float best,
                                      int at) {
  const bool nan = x != x, best_nan = best != best;
  if (nan != best_nan) return nan;
  if (!nan && x != best) return p.least ? x < best : x > best;
  return p.last ? i > at : i < at;
}
template <typename T>
__device__ __forceinline__ void arg_reduce(const sparkpilot::cuda::ArgReduceArguments& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned output = blockIdx.x * 4 + threadIdx.x / 32;
  unsigned outer = output;
  if (output >= static_cast<unsigned>(p.outer) * static_cast<unsigned>(p.inner)) return;
  const unsigned column = device::divide(outer, p.of_inner);
  const typename T::Bits* const x =
      static_cast<const typename T::Bits*>(p.x) + static_cast<long long>(outer) * p.size * p.inner + column;
  int at = device::least(lane, p.size - 1);  // a lane without elements repeats the last
  float best = T::value(x[static_cast<long long>(at) * p.inner]);
  for (int i = lane + 32; i < p.size; i += 32) {
    const float value = T::value(x[static_cast<long long>(i) * p.inner]);
    if (beats(p, value, i, best, at)) best = value, at = i;
  }
#pragma unroll
  for (int with = 16; with > 0; with /= 2) {
    const float value = __shfl_xor_sync(~0u, best, with);
    const int i = __shfl_xor_sync(~0u, at, with);
    if (beats(p, value, i, best, at)) best = value, at = i;
  }
  if (lane == 0) p.y[output] = at;
}

}  // namespace

#define REDUCE(storage, type)                                                                                      \
  extern "C" __global__ void __launch_bounds__(128) reduce_rows_##storage(ReduceArguments p) {                     \
    device::begin_kernel();                                                                                        \
    device::let_next_begin();                                                                                      \
    reduce_rows<device::type>(p);                                                                                  \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(256) reduce_columns_##storage(ReduceArguments p) {                  \
    device::begin_kernel();                                                                                        \
    device::let_next_begin();                                                                                      \
    reduce_columns<device::type>(p);                                                                               \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(32) reduce_parts_##storage(ReduceArguments p) {                     \
    device::begin_kernel();                                                                                        \
    device::let_next_begin();                                                                                      \
    reduce_parts<device::type>(p);                                                                                 \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(128) arg_reduce_##storage(sparkpilot::cuda::ArgReduceArguments p) { \
    device::begin_kernel();                                                                                        \
    device::let_next_begin();                                                                                      \
    arg_reduce<device::type>(p);                                                                                   \
  }
REDUCE(f32, F32)
REDUCE(f16, F16)
REDUCE(bf16, BF16)
