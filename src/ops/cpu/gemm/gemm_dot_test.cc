// How products of bf16 are split, and what tiles of every size give; more of it is tested with the ops.
#include "ops/cpu/gemm/gemm_dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/cpu/gemm/amx_tile.h"
#include "ops/cpu/gemm/dot_tile.h"

namespace sparkpilot {
namespace {

TEST(DotCut, PiecesFitTheStackAndCoverTheResult) {
  for (const bool amx : {false, true}) {
    for (const int64_t depth : {1, 8, 100, 300, 600, 700, 1024, 1400, 2100, 9000}) {
      for (const int64_t threads : {1, 2, 3, 16}) {
        for (int64_t panels = 1; panels <= 40; ++panels) {
          for (int64_t rows = 1; rows <= 1100; rows += rows < 300 ? 1 : 7) {
            const DotCut cut(rows, panels, depth, threads, amx);
            ASSERT_GE(cut.row_step, 1);
            ASSERT_GE(cut.panel_step, 1);
            ASSERT_GE(cut.row_step * cut.blocks, rows);
            ASSERT_LT(cut.row_step * (cut.blocks - 1), rows);
            ASSERT_GE(cut.panel_step * cut.groups, panels);
            ASSERT_LT(cut.panel_step * (cut.groups - 1), panels);
            if (amx) {
              ASSERT_EQ(cut.row_step % kAmxRows, 0);
            } else {
              ASSERT_LE(cut.row_step * cut.panel_step * DotMatrix::kPanel, DotCut::kFloats)
                  << rows << " rows, " << panels << " panels, depth " << depth << ", " << threads << " threads";
            }
          }
        }
      }
    }
  }
}

// Small whole numbers, whose sums are exact in f32 whatever the order.
float whole(int64_t i) { return static_cast<float>(i * 7919 % 9 - 4); }

void check_tiles(int64_t rows, int64_t depth, int64_t columns) {
  constexpr int64_t kPanel = DotMatrix::kPanel;
  constexpr float kUntouched = 1e9f;
  Tensor b = Tensor::zeros(DType::bf16, Shape{depth, columns});
  const int64_t lda = depth + 3;
  std::vector<BFloat16> a(static_cast<size_t>(rows * lda), BFloat16(kUntouched));
  for (int64_t i = 0; i < depth * columns; ++i) static_cast<BFloat16*>(b.raw())[i] = BFloat16(whole(5 * i + i / 11));
  for (int64_t i = 0; i < rows * depth; ++i) {
    a[static_cast<size_t>(i / depth * lda + i % depth)] = BFloat16(whole(3 * i + i / 13));
  }
  const DotMatrix packed =
      pack_dots(b.view(), depth, columns, {.column = 1, .inner = depth, .inner_step = columns, .outer_step = 0});
  const int64_t width = packed.panels() * kPanel;
  std::vector<float> bias(static_cast<size_t>(width));
  for (int64_t j = 0; j < columns; ++j) bias[static_cast<size_t>(j)] = whole(j);
  std::vector<float> sums(static_cast<size_t>(rows * columns)), y(static_cast<size_t>(rows * width));
  const int64_t stride = columns + 2;
  std::vector<BFloat16> rounded(static_cast<size_t>(rows * stride));
  for (int64_t i = 0; i < rows * columns; ++i) {
    for (int64_t p = 0; p < depth; ++p) {
      sums[static_cast<size_t>(i)] +=
          static_cast<float>(a[static_cast<size_t>(i / columns * lda + p)]) *
          static_cast<float>(b.data<BFloat16>()[static_cast<size_t>(p * columns + i % columns)]);
    }
  }
  for (const bool biased : {false, true}) {
    for (const bool bounded : {false, true}) {
      DotPiece piece{.a = a.data(), .lda = lda, .rows = rows, .first_panel = 0, .last_panel = packed.panels()};
      if (biased) piece.bias = bias.data();
      if (bounded) piece.low = -9, piece.high = 14;
      piece.y = y.data();
      piece.stride = width;
      multiply_dots(packed, piece);
      piece.y = nullptr;
      piece.rounded = rounded.data();
      piece.stride = stride;
      std::fill(rounded.begin(), rounded.end(), BFloat16(kUntouched));
      multiply_dots(packed, piece);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < stride; ++j) {
          const float got = static_cast<float>(rounded[static_cast<size_t>(i * stride + j)]);
          if (j >= columns) {
            ASSERT_EQ(got, static_cast<float>(BFloat16(kUntouched))) << "written behind row " << i;
            continue;
          }
          float sum = sums[static_cast<size_t>(i * columns + j)] + (biased ? bias[static_cast<size_t>(j)] : 0.0f);
          if (bounded) sum = std::clamp(sum, -9.0f, 14.0f);
          ASSERT_EQ(y[static_cast<size_t>(i * width + j)], sum) << "row " << i << ", column " << j;
          ASSERT_EQ(got, static_cast<float>(BFloat16(sum))) << "row " << i << ", column " << j;
        }
      }
    }
  }
}

// Rows: of every tile and of several; depths: less than a group, whole and other numbers of groups, and of eight
// groups.
TEST(DotTile, EverySizeMultipliesExactly) {
  if (dot_group() == 0) GTEST_SKIP() << "this processor has no dot products of bf16";
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 31}) {
    for (const int64_t depth : {1, 4, 6, 8, 15, 32, 33, 44, 100}) {
      for (const int64_t columns : {7, 8, 29, 45}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(columns));
        ASSERT_NO_FATAL_FAILURE(check_tiles(rows, depth, columns));
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot
