// Kernels that compute rows.
#include "ops/cuda/rows.h"

#include "ops/cuda/block.cuh"
#include "ops/cuda/storage.cuh"
#include "ops/cuda/strided.cuh"
#include "ops/cuda/walk.cuh"

namespace {

using device::aligned;
using device::mean_of;
using device::Walk;
using sparkpilot::cuda::NormArguments;
using sparkpilot::cuda::NormKind;
using sparkpilot::cuda::SoftmaxArguments;

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kChunks = sparkpilot::cuda::kWarpRow / 256;

// A row as its threads see it. Of a short row that is read wide each chunk is kept in registers; others are read again
// in each pass.
template <typename T>
struct KeptRow {
  static constexpr bool kKept = true;
  using Bits = typename T::Bits;
  Walk walk;
  const Bits* x;
  float kept[kChunks][8];

  __device__ __forceinline__ void read() {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * 256 < walk.size) walk.load<T>(x, c, kept[c]);
    }
  }
  template <typename Fn>  // fn(chunk, its eight elements)
  __device__ __forceinline__ void each(Fn fn) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * 256 < walk.size) fn(c, kept[c]);
    }
  }
  template <typename Combine>
  __device__ __forceinline__ float all(float value, Combine combine) {
    return device::warp_combine(value, combine);
  }
};
template <typename T>
struct LongRow {
  static constexpr bool kKept = false;
  using Bits = typename T::Bits;
  Walk walk;
  const Bits* x;
  float* partial;

  __device__ __forceinline__ void read() {}
  template <typename Fn>
  __device__ __forceinline__ void each(Fn fn) {
#pragma unroll 1
    for (int c = 0; c * walk.threads * 8 < walk.size; ++c) {
      float v[8];
      walk.load<T>(x, c, v);
      fn(c, v);
    }
  }
  template <typename Combine>
  __device__ __forceinline__ float all(float value, Combine combine) {
    if (walk.threads == kThreads) return device::block_combine<kWarps>(value, partial, combine);
    return device::warp_combine(value, combine);
  }
};

template <typename T, typename Row>
__device__ __forceinline__ void softmax_row(Row& row, typename T::Bits* y, bool log) {
  const Walk walk = row.walk;
  row.read();
  float top = -INFINITY;
  row.each([&](int c, const float(&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) top = walk.has(c, i) ? device::max_nan(top, v[i]) : top;
  });
  top = row.all(top, device::Max());
  float sum = 0;
  row.each([&](int c, float(&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float e = expf(v[i] - top);
      sum += walk.has(c, i) ? e : 0.0f;
      if (Row::kKept && !log) v[i] = e;  // kept
    }
  });
  sum = row.all(sum, device::Sum());
  const float scale = __fdividef(1.0f, sum), shift = top + (log ? logf(sum) : 0.0f);
  row.each([&](int c, const float(&v)[8]) {
    float out[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      out[i] = log ? v[i] - shift : (Row::kKept ? v[i] : expf(v[i] - top)) * scale;
    }
    walk.store<T>(y, c, out);
  });
}

// What a row is multiplied by, from the sum of its squares.
__device__ __forceinline__ float norm_scale(const NormArguments& p, float squares) {
  if (p.kind != NormKind::l2) return rsqrtf(__fdividef(squares, static_cast<float>(p.size)) + p.epsilon);
  squares = device::max_nan(squares, p.epsilon * p.epsilon);
  return squares == 0.0f ? 0.0f : rsqrtf(squares);
}

template <typename T, typename Row>
__device__ __forceinline__ void norm_row(Row& row, const NormArguments& p, typename T::Bits* y) {
  const Walk walk = row.walk;
  row.read();
  float mean = 0;
  if (p.kind == NormKind::layer) {
    row.each([&](int, const float(&v)[8]) {
#pragma unroll
      for (int i = 0; i < 8; ++i) mean += v[i];  // 0 beyond the row
    });
    mean = mean_of(row.all(mean, device::Sum()), walk.size);
  }
  float squares = 0;
  row.each([&](int c, const float(&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float distance = walk.has(c, i) ? v[i] - mean : 0.0f;
      squares += distance * distance;
    }
  });
  squares = row.all(squares, device::Sum());
  const float scale = norm_scale(p, squares);
  row.each([&](int c, const float(&v)[8]) {
    float out[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = (v[i] - mean) * scale;
    float operand[8] = {};
    if (p.gain != nullptr) {
      walk.load<device::F32>(p.gain, c, operand);
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] *= operand[i];
    }
    if (p.bias != nullptr) {
      walk.load<device::F32>(p.bias, c, operand);
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] += operand[i];
    }
    walk.store<T>(y, c, out);
  });
}

// Calls fn(row, y) for the row of this warp or block.
template <typename T, typename Fn>
__device__ __forceinline__ void with_row(const void* x_data, void* y_data, long long rows, int size, bool wide,
                                         float* partial, Fn fn) {
  const int thread = static_cast<int>(threadIdx.x);
  wide &= size % 8 == 0 && aligned(x_data) && aligned(y_data);
  using Bits = typename T::Bits;
  const bool warps = size <= sparkpilot::cuda::kWarpRow;
  constexpr bool kQuads = sizeof(Bits) == 4;
  const long long index = warps ? static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + thread / 32 : blockIdx.x;
  if (index >= rows) return;
  const Bits* const x = static_cast<const Bits*>(x_data) + index * size;
  Bits* const y = static_cast<Bits*>(y_data) + index * size;
  if (warps && wide) {
    KeptRow<T> row{{size, thread % 32, 32, true, kQuads}, x, {}};
    fn(row, y);
  } else {
    LongRow<T> row{{size, warps ? thread % 32 : thread, warps ? 32 : kThreads, wide, kQuads}, x, partial};
    fn(row, y);
  }
}

template <typename T>
__device__ __forceinline__ void softmax(const SoftmaxArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  with_row<T>(p.x, p.y, p.rows, p.size, true, partial,
              [&](auto& row, typename T::Bits* y) { softmax_row<T>(row, y, p.log); });
}

template <typename T>
__device__ __forceinline__ void norm(const NormArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  with_row<T>(p.x, p.y, p.rows, p.size, aligned(p.gain) && aligned(p.bias), partial,
              [&](auto& row, typename T::Bits* y) { norm_row<T>(row, p, y); });
}

// A thread for each row of [outer, size, inner]; false beyond the last.
struct Column {
  long long at;  // of the first element
  __device__ __forceinline__ bool find(long long rows, int size, int inner, const sparkpilot::cuda::Divisor& of_inner) {
    unsigned outer = blockIdx.x * blockDim.x + threadIdx.x;
    if (outer >= rows) return false;
    const unsigned i = device::divide(outer, of_inner);
    at = static_cast<long long>(outer) * size * inner + i;
    return true;
  }
};

// fn(element, index) for each of a row whose elements are `step` apart.
template <typename T, typename Fn>
__device__ __forceinline__ void each_strided(const typename T::Bits* x, int size, int step, Fn fn) {
#pragma unroll 4
  for (int i = 0; i < size; ++i, x += step) fn(T::value(*x), i);
}

template <typename T>
__device__ __forceinline__ void softmax_strided(const sparkpilot::cuda::SoftmaxStridedArguments& p) {
  Column column;
  if (!column.find(p.outer * p.inner, p.size, p.inner, p.of_inner)) return;
  const typename T::Bits* const x = static_cast<const typename T::Bits*>(p.x) + column.at;
  typename T::Bits* y = static_cast<typename T::Bits*>(p.y) + column.at;
  float top = -INFINITY, sum = 0;
  each_strided<T>(x, p.size, p.inner, [&](float v, int) { top = device::max_nan(top, v); });
  each_strided<T>(x, p.size, p.inner, [&](float v, int) { sum += expf(v - top); });
  const float scale = __fdividef(1.0f, sum), shift = top + (p.log ? logf(sum) : 0.0f);
  each_strided<T>(x, p.size, p.inner, [&](float v, int) {
    *y = T::rounded(p.log ? v - shift : expf(v - top) * scale);
    y += p.inner;
  });
}

template <typename T>
__device__ __forceinline__ void norm_strided(const sparkpilot::cuda::NormStridedArguments& p) {
  Column column;
  const NormArguments& n = p.norm;
  if (!column.find(n.rows, n.size, p.inner, p.of_inner)) return;
  const typename T::Bits* const x = static_cast<const typename T::Bits*>(n.x) + column.at;
  typename T::Bits* y = static_cast<typename T::Bits*>(n.y) + column.at;
  float mean = 0, squares = 0;
  if (n.kind == NormKind::layer) {
    each_strided<T>(x, n.size, p.inner, [&](float v, int) { mean += v; });
    mean = mean_of(mean, n.size);
  }
  each_strided<T>(x, n.size, p.inner, [&](float v, int) { squares += (v - mean) * (v - mean); });
  const float scale = norm_scale(n, squares);
  each_strided<T>(x, n.size, p.inner, [&](float v, int i) {
    float out = (v - mean) * scale;
    if (n.gain != nullptr) out *= n.gain[i];
    if (n.bias != nullptr) out += n.bias[i];
    *y = T::rounded(out);
    y += p.inner;
  });
}

}  // namespace

#define ROWS(storage, type)                                                                                            \
  extern "C" __global__ void __launch_bounds__(128) softmax_##storage(SoftmaxArguments p) {                            \
    device::begin_kernel();                                                                                            \
    device::let_next_begin();                                                                                          \
    softmax<device::type>(p);                                                                                          \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(128) norm_##storage(NormArguments p) {                                  \
    device::begin_kernel();                                                                                            \
    device::let_next_begin();                                                                                          \
    norm<device::type>(p);                                                                                             \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(128)                                                                    \
      softmax_strided_##storage(sparkpilot::cuda::SoftmaxStridedArguments p) {                                         \
    device::begin_kernel();                                                                                            \
    device::let_next_begin();                                                                                          \
    softmax_strided<device::type>(p);                                                                                  \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(128) norm_strided_##storage(sparkpilot::cuda::NormStridedArguments p) { \
    device::begin_kernel();                                                                                            \
    device::let_next_begin();                                                                                          \
    norm_strided<device::type>(p);                                                                                     \
  }
ROWS(f32, F32)
ROWS(f16, F16)
ROWS(bf16, BF16)
