// What a warp computes together: ldmatrix and mma, with the fragments that the PTX manual lays down ("Matrix fragments
// for mma.m16n8k16", ".m16n8k32", ".m16n8k64").
#pragma once

#include <cstdint>

#include "emulator/thread.h"

namespace sparkpilot::emulator {

// Of lane l: its row of eight 16-bit elements to read (lanes 0 to 7 for the first matrix, 8 to 15 for the second, ...),
// and the `count` words that it gets.
void load_matrices(int count, bool transposed, const void* row, uint32_t* out, Place place);

enum class MmaType { f16, bf16, e4m3, s8 };

// c += a b for tiles_m x tiles_n fragments of 16x8 with a depth of 16 (e4m3, s8: 32): a[tiles_m][4], b[tiles_n][2],
// c[tiles_m][tiles_n][4], f32, or for s8 int32_t, which wraps.
void multiply(MmaType type, int tiles_m, int tiles_n, const uint32_t (*a)[4], const uint32_t (*b)[2], void* c,
              Place place);

// c += a b for one fragment of 16x8 with a depth of 64: e2m1 values in blocks of 16, each with an e4m3 scale without
// sign. Of `scale_a` the lower two lanes of each group of four are taken, rows group and group + 8; of `scale_b` the
// lowest; byte i scales block i ("mxf4nvf4", scale_vec::4X, byte and thread selectors 0).
void multiply_fp4(const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a, uint32_t scale_b, float (&c)[4],
                  Place place);

}  // namespace sparkpilot::emulator
