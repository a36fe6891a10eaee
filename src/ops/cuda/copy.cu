// Kernels that move elements as they are.
#include "ops/cuda/copy.h"

#include "ops/cuda/strided.cuh"

namespace {

using sparkpilot::cuda::CopyPiece;
using sparkpilot::cuda::PadMode;
using sparkpilot::cuda::TransposeArguments;

constexpr int kThreads = 256, kUnitsOfAThread = 4, kTile = sparkpilot::cuda::kTransposeTile;

// The offsets of a unit in both.
struct Offsets {
  long long from, to;
};
__device__ __forceinline__ Offsets offsets(const CopyPiece& piece, unsigned unit) {
  const device::Coordinates c = device::coordinates<0>(piece.dimensions, unit);
  return {device::offset<0>(c, piece.from_strides), device::offset<0>(c, piece.to_strides)};
}

// All loads come before all stores: four of a thread are under way at once.
template <typename Unit>
__device__ __forceinline__ void copy_units(const CopyPiece& piece, unsigned first) {
  Unit values[kUnitsOfAThread];
  long long to[kUnitsOfAThread];
#pragma unroll
  for (int i = 0; i < kUnitsOfAThread; ++i) {
    const unsigned unit = first + static_cast<unsigned>(i * kThreads);
    to[i] = -1;
    if (unit < piece.units) {
      const Offsets at = offsets(piece, unit);
      to[i] = at.to;
      if constexpr (sizeof(Unit) == 16) values[i] = device::load_16(static_cast<const Unit*>(piece.from) + at.from);
      else if constexpr (sizeof(Unit) == 8) values[i] = device::load_8(static_cast<const Unit*>(piece.from) + at.from);
      else values[i] = static_cast<const Unit*>(piece.from)[at.from];
    }
  }
#pragma unroll
  for (int i = 0; i < kUnitsOfAThread; ++i) {
    const unsigned unit = first + static_cast<unsigned>(i * kThreads);
    if (unit >= piece.units) continue;
    if constexpr (sizeof(Unit) == 16) device::store_16(static_cast<Unit*>(piece.to) + to[i], values[i]);
    else if constexpr (sizeof(Unit) == 8) device::store_8(static_cast<Unit*>(piece.to) + to[i], values[i]);
    else static_cast<Unit*>(piece.to)[to[i]] = values[i];
  }
}

// A tile of 32 x 32 through shared memory whose rows are kPitch elements: an odd number of words (of eight bytes: of
// pairs of words), so that a column's 32 elements lie in 32 banks.
template <typename Unit, int kPitch>
__device__ __forceinline__ void transpose_tile(const TransposeArguments& p, Unit* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const long long matrix = static_cast<long long>(blockIdx.z) * p.rows * p.columns;
  const int row = static_cast<int>(blockIdx.y) * kTile, column = static_cast<int>(blockIdx.x) * kTile;
  const Unit* const from = static_cast<const Unit*>(p.from) + matrix;
  Unit* const to = static_cast<Unit*>(p.to) + matrix;
  if (p.columns < kTile) {  // the tile is one run
    const Unit* const run = from + static_cast<long long>(row) * p.columns;
    const int count = device::least(p.rows - row, kTile) * p.columns;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      unsigned at_row = static_cast<unsigned>(i);
      const unsigned at_column = device::divide(at_row, p.of_columns);
      tile[at_row * kPitch + at_column] = run[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / 32) {
      if (row + i + warp < p.rows && column + lane < p.columns) {
        tile[(i + warp) * kPitch + lane] = from[static_cast<long long>(row + i + warp) * p.columns + column + lane];
      }
    }
  }
  __syncthreads();
  if (p.rows < kTile) {
    Unit* const run = to + static_cast<long long>(column) * p.rows;
    const int count = device::least(p.columns - column, kTile) * p.rows;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      unsigned at_column = static_cast<unsigned>(i);
      const unsigned at_row = device::divide(at_column, p.of_rows);
      run[i] = tile[at_row * kPitch + at_column];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / 32) {
      if (column + i + warp < p.columns && row + lane < p.rows) {
        to[static_cast<long long>(column + i + warp) * p.rows + row + lane] = tile[lane * kPitch + i + warp];
      }
    }
  }
}

// Where index i of a dimension of `size` elements is read, or -1: the constant.
__device__ __forceinline__ int padded(int i, int size, PadMode mode) {
  if (i >= 0 && i < size) return i;
  if (mode == PadMode::constant) return -1;
  if (mode == PadMode::edge) return i < 0 ? 0 : size - 1;
  if (mode == PadMode::wrap) {
    while (i < 0) i += size;
    while (i >= size) i -= size;
    return i;
  }
  while (i < 0 || i >= size) {
    if (size == 1) return 0;
    i = i < 0 ? -i : 2 * (size - 1) - i;
  }
  return i;
}

template <typename Unit>
__device__ __forceinline__ void pad_element(const sparkpilot::cuda::PadArguments& p, unsigned at, long long from) {
  Unit value = static_cast<Unit>(p.value);
  if (from >= 0) value = static_cast<const Unit*>(p.x)[from];
  static_cast<Unit*>(p.y)[at] = value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) copy_strided(sparkpilot::cuda::CopyArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  int at = 0;
  while (at + 1 < p.count && blockIdx.x >= p.pieces[at + 1].first_block) ++at;
  const CopyPiece& piece = p.pieces[at];
  const unsigned first = (blockIdx.x - piece.first_block) * (kThreads * kUnitsOfAThread) + threadIdx.x;
  switch (piece.unit) {
    case 1: copy_units<uint8_t>(piece, first); return;
    case 2: copy_units<uint16_t>(piece, first); return;
    case 4: copy_units<uint32_t>(piece, first); return;
    case 8: copy_units<uint2>(piece, first); return;
    default: copy_units<uint4>(piece, first); return;
  }
}

extern "C" __global__ void __launch_bounds__(256) copy_tiles(TransposeArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  STATIC_SHARED(unsigned long long, tile, kTile*(kTile + 1));
  switch (p.bytes) {
    case 1: transpose_tile<uint8_t, kTile + 4>(p, reinterpret_cast<uint8_t*>(tile)); return;
    case 2: transpose_tile<uint16_t, kTile + 2>(p, reinterpret_cast<uint16_t*>(tile)); return;
    case 4: transpose_tile<uint32_t, kTile + 1>(p, reinterpret_cast<uint32_t*>(tile)); return;
    default: transpose_tile<unsigned long long, kTile + 1>(p, tile); return;
  }
}

extern "C" __global__ void __launch_bounds__(256) pad(sparkpilot::cuda::PadArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  const unsigned at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= p.elements) return;
  const device::Coordinates c = device::coordinates<0>(p.dimensions, at);
  long long from = 0;
#pragma unroll
  for (int i = 0; i < sparkpilot::cuda::kMostDimensions; ++i) {
    if (i >= p.dimensions.rank) continue;
    const int coordinate = padded(static_cast<int>(c.at[i]) - p.before[i], p.sizes[i], p.mode);
    from = coordinate < 0 || from < 0 ? -1 : from + static_cast<long long>(coordinate) * p.strides[i];
  }
  switch (p.bytes) {
    case 1: pad_element<uint8_t>(p, at, from); return;
    case 2: pad_element<uint16_t>(p, at, from); return;
    case 4: pad_element<uint32_t>(p, at, from); return;
    default: pad_element<unsigned long long>(p, at, from); return;
  }
}
