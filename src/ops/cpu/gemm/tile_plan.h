// Splits a tile_gemm product into pieces for threads and caches, and applies its epilogue to each piece.
#pragma once

#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/gemm/tile_gemm.h"
#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot {

// An epilogue whose first step, if it only clamps, is applied to the registers before they are stored.
struct SplitEpilogue {
  Epilogue rest;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  SplitEpilogue() = default;
  explicit SplitEpilogue(const Epilogue& epilogue);
  TileOutput output(const float* bias, float* y, int64_t stride) const { return {bias, y, stride, low, high}; }
  TileOutput output(const Tensor& bias, float* y, int64_t stride) const {
    return output(bias.present() ? bias.data<float>().data() : nullptr, y, stride);
  }
};

struct TilePlan {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t row_stride = 0;  // of Y
  int64_t channel = 0;     // the channel of column 0 for the epilogue (groups)

  // Calls work(range) for pieces that cover all rows and panels, in parallel, and then applies the epilogue to what the
  // piece wrote to `y` (row 0, column 0). The pieces may depend on the number of threads; the results must not.
  template <typename Work>
  void run(float* y, const SplitEpilogue& epilogue, const Epilogue::Operands& operands, const Work& work) const;

  // The parts of run(): rows of a block, and the epilogue of a piece that was written.
  int64_t block_rows() const;
  void finish(float* y, const SplitEpilogue& epilogue, const Epilogue::Operands& operands, const RowRange& range) const;
};

inline constexpr int64_t kTileMultiple = 30;  // of 3 and 10, the heights of tiles as wide as a panel

// Rows per block, so that A and Y stay in the first-level cache for the epilogue.
inline int64_t TilePlan::block_rows() const {
  constexpr int64_t kFloats = 8192;
  return std::clamp<int64_t>(kFloats / (depth + columns) / kTileMultiple, 1, 8) * kTileMultiple;
}

inline void TilePlan::finish(float* y, const SplitEpilogue& epilogue, const Epilogue::Operands& operands,
                             const RowRange& range) const {
  if (epilogue.rest.empty()) return;
  const int64_t first = range.first_panel * PanelMatrix::kPanel;
  const int64_t last = std::min(columns, range.last_panel * PanelMatrix::kPanel);
  const int64_t offset = range.first_row * row_stride + first;
  epilogue.rest.apply_rows(operands, {.data = y + offset,
                                      .lines = range.last_row - range.first_row,
                                      .length = last - first,
                                      .stride = row_stride,
                                      .channel = channel + first,
                                      .offset = channel + offset,
                                      .output_stride = row_stride});
}

template <typename Work>
void TilePlan::run(float* y, const SplitEpilogue& epilogue, const Epilogue::Operands& operands,
                   const Work& work) const {
  constexpr double kWorth = 16384;  // multiply-adds that justify a thread
  const int64_t panels = (columns + PanelMatrix::kPanel - 1) / PanelMatrix::kPanel;
  const double total = static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  const auto piece = [&](const RowRange& range) {
    work(range);
    finish(y, epilogue, operands, range);
  };
  const int64_t block = block_rows(), blocks = (rows + block - 1) / block;
  // Few rows: split by columns, so that each thread reads only its part of the weights.
  const int64_t threads = thread_count();
  if (panels > 1 && (rows < 2 * block || (blocks < 8 * threads && panels >= 4 * threads))) {
    const auto grain = static_cast<int64_t>(kWorth / (total / static_cast<double>(panels) + 1)) + 1;
    // Each block of rows reads all weights, so the last one takes what is left besides.
    const int64_t cuts = std::max<int64_t>(1, rows / block);
    const int64_t step = cuts == 1 ? rows : rows / cuts / kTileMultiple * kTileMultiple;
    parallel_for(panels, grain, [&](int64_t first, int64_t last) {
      for (int64_t row = 0; row < rows;) {
        const int64_t end = rows - row < step + kTileMultiple ? rows : row + step;
        piece({row, end, first, last});
        row = end;
      }
    });
    return;
  }
  const auto grain = static_cast<int64_t>(kWorth / (total / static_cast<double>(blocks) + 1)) + 1;
  parallel_for(blocks, grain, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) piece({b * block, std::min(rows, (b + 1) * block), 0, panels});
  });
}

}  // namespace sparkpilot
