#include "ops/cuda/copy.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace sparkpilot::cuda {
namespace {

constexpr unsigned kThreads = 256, kUnitsOfAThread = 4;

// The widest unit in which a merged copy may be made, its innermost dimension lying together in both.
int64_t widest_unit(const void* from, const void* to, int64_t bytes, const StridedLoops& loops) {
  int64_t unit = 16;
  const auto allow = [&](int64_t multiple) {
    while (unit > bytes && multiple % unit != 0) unit /= 2;
  };
  allow(static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) % 16));
  allow(static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % 16));
  allow(loops.sizes.back() * bytes);
  for (const std::vector<int64_t>& strides : loops.strides) {
    for (size_t i = 0; i + 1 < strides.size(); ++i) allow(std::abs(strides[i]) * bytes);
  }
  return unit;
}

unsigned blocks_of(const CopyPiece& piece) {
  return (piece.units + kThreads * kUnitsOfAThread - 1) / (kThreads * kUnitsOfAThread);
}

}  // namespace

std::optional<CopyPiece> make_copy(const void* from, void* to, int bytes, const std::vector<int64_t>& sizes,
                                   const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides) {
  StridedLoops loops{.sizes = sizes, .strides = {from_strides, to_strides}};
  if (loops.elements() == 0) return std::nullopt;
  loops = loops.merged();
  int64_t unit = bytes;
  if (loops.strides[0].back() == 1 && loops.strides[1].back() == 1) {
    unit = widest_unit(from, to, bytes, loops);
    const int64_t wider = unit / bytes;
    loops.sizes.back() /= wider;
    for (std::vector<int64_t>& strides : loops.strides) {
      for (size_t i = 0; i + 1 < strides.size(); ++i) strides[i] /= wider;
    }
    loops = loops.merged();  // a run of one unit is gone
  }
  CopyPiece out{};
  out.from = from, out.to = to;
  out.dimensions = make_dimensions(loops);
  set_strides(out.from_strides, loops.strides[0]);
  set_strides(out.to_strides, loops.strides[1]);
  out.units = static_cast<unsigned>(loops.elements());
  out.unit = static_cast<int>(unit);
  return out;
}

CopyArguments make_copies(const std::vector<CopyPiece>& pieces) {
  if (pieces.empty() || pieces.size() > CopyArguments::kMostPieces) fail_internal("{} pieces to copy", pieces.size());
  CopyArguments out{};
  out.count = static_cast<int>(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    out.pieces[i] = pieces[i];
    out.pieces[i].first_block = out.blocks;
    out.blocks += blocks_of(pieces[i]);
  }
  return out;
}

KernelLaunch copy_strided_launch(const CopyArguments& arguments) {
  return {.grid_x = arguments.blocks, .threads = kThreads};
}

std::optional<TransposeArguments> make_transpose(const void* from, void* to, int bytes,
                                                 const std::vector<int64_t>& sizes,
                                                 const std::vector<int>& permutation) {
  // The strides of `from` in the order of `to`, merged: [batch,] columns, rows.
  const std::vector<int64_t> strides = contiguous_strides(sizes);
  StridedLoops loops;
  loops.strides.resize(2);
  for (const int axis : permutation) {
    loops.sizes.push_back(sizes[static_cast<size_t>(axis)]);
    loops.strides[0].push_back(strides[static_cast<size_t>(axis)]);
  }
  loops.strides[1] = contiguous_strides(loops.sizes);
  loops = loops.merged();
  const size_t rank = loops.sizes.size();
  if (rank < 2 || rank > 3) return std::nullopt;
  const int64_t columns = loops.sizes[rank - 2], rows = loops.sizes[rank - 1], batch = rank == 3 ? loops.sizes[0] : 1;
  const std::vector<int64_t>& steps = loops.strides[0];
  if (steps[rank - 2] != 1 || steps[rank - 1] != columns || (rank == 3 && steps[0] != rows * columns)) return {};
  if (std::max(rows, columns) < kTransposeTile || batch > 65535 || rows > (1 << 20) || columns > (1 << 30))
    return std::nullopt;
  TransposeArguments out = matrix_transpose(batch, rows, columns, bytes);
  out.from = from;
  out.to = to;
  return out;
}

TransposeArguments matrix_transpose(int64_t batch, int64_t rows, int64_t columns, int bytes) {
  return {.from = nullptr,
          .to = nullptr,
          .batch = static_cast<int>(batch),
          .rows = static_cast<int>(rows),
          .columns = static_cast<int>(columns),
          .bytes = bytes,
          .of_rows = make_divisor(rows),
          .of_columns = make_divisor(columns)};
}

KernelLaunch copy_tiles_launch(const TransposeArguments& arguments) {
  const auto tiles = [](int size) { return static_cast<unsigned>((size + kTransposeTile - 1) / kTransposeTile); };
  return {.grid_x = tiles(arguments.columns),
          .grid_y = tiles(arguments.rows),
          .grid_z = static_cast<unsigned>(arguments.batch),
          .threads = kThreads};
}

PadArguments make_pad(const void* x, void* y, int bytes, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& before, const std::vector<int64_t>& after, PadMode mode,
                      unsigned long long value) {
  // Runs of dimensions from the first padded one inwards are one dimension, as far as no other is padded.
  StridedLoops y_loops;
  std::vector<int64_t> x_sizes, x_before;
  bool plain = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool padded = before[i] != 0 || after[i] != 0;
    if (!padded && plain) {
      x_sizes.back() *= sizes[i];
      y_loops.sizes.back() *= sizes[i];
    } else {
      x_sizes.push_back(sizes[i]);
      x_before.push_back(before[i]);
      y_loops.sizes.push_back(sizes[i] + before[i] + after[i]);
    }
    plain = !padded;
  }
  if (x_sizes.empty()) x_sizes = {1}, x_before = {0}, y_loops.sizes = {1};
  PadArguments out{};
  out.x = x, out.y = y, out.bytes = bytes, out.mode = mode, out.value = value;
  out.dimensions = make_dimensions(y_loops);
  out.elements = static_cast<unsigned>(y_loops.elements());
  set_strides(out.strides, contiguous_strides(x_sizes));
  set_strides(out.sizes, x_sizes);
  set_strides(out.before, x_before);
  return out;
}

KernelLaunch pad_launch(const PadArguments& arguments) {
  return {.grid_x = (arguments.elements + kThreads - 1) / kThreads, .threads = kThreads};
}

}  // namespace sparkpilot::cuda
