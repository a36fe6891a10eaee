// Kernels that read by indices and tables.
#include "ops/cuda/gather.h"

#include "ops/cuda/storage.cuh"
#include "ops/cuda/strided.cuh"

namespace {

using sparkpilot::cuda::GatherArguments;
using sparkpilot::cuda::GatherElementsArguments;
using sparkpilot::cuda::ResizeArguments;
using sparkpilot::cuda::ResizeTable;

// In range, or -1.
__device__ __forceinline__ int read_index(const void* indices, bool wide, unsigned at, int size) {
  const long long index = wide ? static_cast<const long long*>(indices)[at] : static_cast<const int*>(indices)[at];
  const long long from = index < 0 ? index + size : index;
  return from >= 0 && from < size ? static_cast<int>(from) : -1;
}

template <typename Unit>
__device__ __forceinline__ void gather_unit(const GatherArguments& p, unsigned at, long long from) {
  Unit value{};
  if constexpr (sizeof(Unit) == 16) {
    if (from >= 0) value = device::load_16(static_cast<const Unit*>(p.x) + from);
    device::store_16(static_cast<Unit*>(p.y) + at, value);
  } else if constexpr (sizeof(Unit) == 8) {
    if (from >= 0) value = device::load_8(static_cast<const Unit*>(p.x) + from);
    device::store_8(static_cast<Unit*>(p.y) + at, value);
  } else {
    if (from >= 0) value = static_cast<const Unit*>(p.x)[from];
    static_cast<Unit*>(p.y)[at] = value;
  }
}

template <typename Unit>
__device__ __forceinline__ void gather_element(const GatherElementsArguments& p, unsigned at, long long from) {
  static_cast<Unit*>(p.y)[at] = from >= 0 ? static_cast<const Unit*>(p.x)[from] : Unit{};
}

__device__ __forceinline__ float weight_of(const ResizeTable& table, int at) {
  return table.weight != nullptr ? table.weight[at] : 1.0f;
}

template <typename T>
__device__ __forceinline__ void resize(const ResizeArguments& p) {
  unsigned outer = blockIdx.x * 128 + threadIdx.x;
  const long long to = outer;
  if (outer >= p.threads) return;
  const long long vector = device::divide(outer, p.vectors);
  const int column = static_cast<int>(device::divide(outer, p.y_columns));
  const int row = static_cast<int>(device::divide(outer, p.y_rows));
  const int width = p.wide ? 8 : 1;
  const typename T::Bits* const x = static_cast<const typename T::Bits*>(p.x) + vector * width;
  float sum[8] = {};
#pragma unroll 1
  for (int s = 0; s < p.rows.taps; ++s) {
    const int from_row = p.rows.index[s * static_cast<int>(p.y_rows.size) + row];
    const float row_weight = weight_of(p.rows, s * static_cast<int>(p.y_rows.size) + row);
    if (row_weight == 0.0f) continue;  // 0 times infinity is no number
#pragma unroll 1
    for (int t = 0; t < p.columns.taps; ++t) {
      const int tap = t * static_cast<int>(p.y_columns.size) + column;
      const float weight = row_weight * weight_of(p.columns, tap);
      if (weight == 0.0f) continue;
      const long long from =
          ((static_cast<long long>(outer) * p.x_rows + from_row) * p.x_columns + p.columns.index[tap]) * p.inner;
      if (p.wide) {
        float v[8];
        device::load_eight<T>(x + from, v);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += weight * v[i];
      } else {
        sum[0] += weight * T::value(x[from]);
      }
    }
  }
  typename T::Bits* const y = static_cast<typename T::Bits*>(p.y) + to * width;
  if (p.wide) device::store_eight<T>(y, sum);
  else *y = T::rounded(sum[0]);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) gather(GatherArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  const unsigned at = blockIdx.x * 128 + threadIdx.x;
  unsigned outer = at;
  if (at >= p.units) return;
  const unsigned inner = device::divide(outer, p.inner), k = device::divide(outer, p.count);
  const int index = read_index(p.indices, p.wide_indices, k, p.size);
  const long long from =
      index < 0 ? -1 : (static_cast<long long>(outer) * p.size + index) * static_cast<int>(p.inner.size) + inner;
  switch (p.unit) {
    case 1: gather_unit<uint8_t>(p, at, from); return;
    case 2: gather_unit<uint16_t>(p, at, from); return;
    case 4: gather_unit<uint32_t>(p, at, from); return;
    case 8: gather_unit<uint2>(p, at, from); return;
    default: gather_unit<uint4>(p, at, from); return;
  }
}

extern "C" __global__ void __launch_bounds__(128) gather_elements(GatherElementsArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  const unsigned at = blockIdx.x * 128 + threadIdx.x;
  if (at >= p.elements) return;
  const int index = read_index(p.indices, p.wide_indices, at, p.size);
  const device::Coordinates c = device::coordinates<0>(p.dimensions, at);
  const long long from = index < 0 ? -1 : device::offset<0>(c, p.strides) + static_cast<long long>(index) * p.stride;
  switch (p.bytes) {
    case 1: gather_element<uint8_t>(p, at, from); return;
    case 2: gather_element<uint16_t>(p, at, from); return;
    case 4: gather_element<uint32_t>(p, at, from); return;
    default: gather_element<unsigned long long>(p, at, from); return;
  }
}

#define RESIZE(name, type)                                                    \
  extern "C" __global__ void __launch_bounds__(128) name(ResizeArguments p) { \
    device::begin_kernel();                                                   \
    device::let_next_begin();                                                 \
    resize<device::type>(p);                                                  \
  }
RESIZE(resize_f32, F32)
RESIZE(resize_f16, F16)
RESIZE(resize_bf16, BF16)
