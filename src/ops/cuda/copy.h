// Kernels that move elements as they are: Transpose, Slice, Split, Concat, Expand, Tile, Pad, Gather.
#pragma once

#include <optional>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// --- copy_strided: strided pieces, all in one launch
struct CopyPiece {
  const void* from;
  void* to;
  Dimensions dimensions;                                           // in units
  int from_strides[kMostDimensions], to_strides[kMostDimensions];  // in units, from the innermost dimension outwards
  unsigned units, first_block;
  int unit;  // bytes of a unit: 1, 2, 4, 8 or 16
};
struct CopyArguments {
  static constexpr int kMostPieces = 24;
  int count;
  unsigned blocks;
  CopyPiece pieces[kMostPieces];
};
// A copy of elements of `bytes` (1, 2, 4 or 8): sizes and strides (in elements, also negative or 0) from the outermost
// dimension inwards, as ONNX writes them. A slice is an address and strides; a piece of a Concat is a copy to an
// address with the whole's strides. Dimensions are merged and runs that lie together in both are copied in the widest
// units that addresses and strides allow. None if there is nothing to copy.
std::optional<CopyPiece> make_copy(const void* from, void* to, int bytes, const std::vector<int64_t>& sizes,
                                   const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides);
// At most kMostPieces, which do not overlap where they are written.
CopyArguments make_copies(const std::vector<CopyPiece>& pieces);
KernelLaunch copy_strided_launch(const CopyArguments& arguments);

// --- copy_tiles: matrices [rows, columns] that become [columns, rows], through shared memory. Both sides of a tile of
// 32 x 32 are read and written in runs of 32 elements, or, where there are fewer rows or columns than 32 (the channels
// of an image), in one run.
struct TransposeArguments {
  const void* from;  // [batch, rows, columns], elements of `bytes`: 1, 2, 4 or 8
  void* to;          // [batch, columns, rows]
  int batch, rows, columns, bytes;
  Divisor of_rows, of_columns;
};
constexpr int kTransposeTile = 32;
// The arguments, if a transposition of `sizes` by `permutation` (ONNX's perm) is one of matrices, of at least 32 rows
// or columns; small ones are better copied.
std::optional<TransposeArguments> make_transpose(const void* from, void* to, int bytes,
                                                 const std::vector<int64_t>& sizes,
                                                 const std::vector<int>& permutation);
// The same of matrices of any size below 2^31 elements; at most 65535 of them, of at most 2^20 rows.
TransposeArguments matrix_transpose(int64_t batch, int64_t rows, int64_t columns, int bytes);
KernelLaunch copy_tiles_launch(const TransposeArguments& arguments);

// --- pad: y[i] = x[i - before], where that is outside as ONNX's modes say
enum class PadMode : uint8_t { constant, edge, reflect, wrap };
struct PadArguments {
  const void* x;
  void* y;                                              // lies together, as x does
  Dimensions dimensions;                                // of y
  int sizes[kMostDimensions], before[kMostDimensions];  // of x; before may be negative
  int strides[kMostDimensions];                         // of x
  unsigned elements;
  int bytes;  // of an element: 1, 2, 4 or 8
  PadMode mode;
  unsigned long long value;  // the constant's bits
};
// `before` and `after` by dimension from the outermost inwards; dimensions that are not padded are merged.
PadArguments make_pad(const void* x, void* y, int bytes, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& before, const std::vector<int64_t>& after, PadMode mode,
                      unsigned long long value);
KernelLaunch pad_launch(const PadArguments& arguments);

}  // namespace sparkpilot::cuda
