// How products of bf16 are split; what they give is tested with the ops.
#include "ops/cpu/gemm/gemm_dot.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sparkpilot
