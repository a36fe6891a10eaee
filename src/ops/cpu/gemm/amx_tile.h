// The matrix kernel for bf16 by AMX: tiles of 16 rows and 16 columns, summed in f32.
//
// A row of the right operand's tile holds two depths of 16 columns, which is how pack_dots() stores them. An element is
// summed over the depth in steps of 32, within a step the even and the odd depths apart: results do not depend on how
// the work is split, but differ in their last bits from those of multiply_dots().
#pragma once

#include "ops/cpu/gemm/dot_tile.h"

namespace sparkpilot {

// Depths of a step, to whose multiples the weights are padded, and rows of a block, which is a panel wide.
constexpr int64_t kAmxDepth = 32, kAmxRows = 32;

// Whether the processor has tiles of bf16 and the system lets this process use them, which the first call asks for.
bool has_amx();

// Rows of a, times panels [first_panel, last_panel) of a matrix that is packed with its depth padded to kAmxDepth.
struct AmxPiece {
  const BFloat16* a = nullptr;
  int64_t lda = 0, rows = 0;
  int64_t first_panel = 0, last_panel = 0;
  const float* bias = nullptr;  // padded to whole panels (pack_bias), from column 0 of b on; null: zero
};
// The sums of some rows and a panel, with kPanel between the rows, until the call that is given them returns.
struct AmxBlock {
  int64_t row, rows, panel;
  float* sums;
};

// Calls finish(block) for every block. Serial. Requires has_amx().
void multiply_amx(const DotMatrix& b, const AmxPiece& piece, void (*finish)(void*, const AmxBlock&), void* context);
template <typename Finish>
void multiply_amx(const DotMatrix& b, const AmxPiece& piece, Finish&& finish) {
  const auto call = [](void* context, const AmxBlock& block) {
    (*static_cast<std::remove_reference_t<Finish>*>(context))(block);
  };
  multiply_amx(b, piece, call, &finish);
}

}  // namespace sparkpilot
