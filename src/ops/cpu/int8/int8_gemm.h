// The project's product of bytes: rows of u8 times a packed matrix of i8, summed in 32 bits.
//
// Four products and their sum take one instruction if the processor has it (VNNI of AVX-512 or of AVX, usdot and sdot
// of Arm), else two. Sums are exact, so the result does not depend on any of this.
#pragma once

#include "ops/cpu/int8/int8_matrix.h"
#include "ops/cpu/int8/int8_output.h"

namespace sparkpilot {

struct Int8Range {
  int64_t first_row, last_row, first_block, last_block;
};

// Row i, column j: sum over p of row i of A times b[p, j], finished as `out` says. Run r of row i is at runs[r] + i *
// lda, and must be readable in whole groups of 4 bytes. `fast` false disables the dot product instructions (for tests).
// Serial.
void multiply_int8(const uint8_t* const* runs, int64_t lda, const Int8Matrix& b, const Int8Output& out,
                   const Int8Range& range, bool fast = true);

// The same for rows that are contiguous (one run).
inline void multiply_int8(const uint8_t* a, int64_t lda, const Int8Matrix& b, const Int8Output& out,
                          const Int8Range& range, bool fast = true) {
  multiply_int8(&a, lda, b, out, range, fast);
}

}  // namespace sparkpilot
