// Transposes matrices of f32 in vectors of whole blocks.
#pragma once

#include <cstdint>

namespace sparkpilot {

// to[j * to_step + i] = from[i * step + j] for i < rows, j < columns. Serial. Writes nothing else.
void transpose_matrix(const float* from, int64_t step, int64_t rows, int64_t columns, float* to, int64_t to_step);

}  // namespace sparkpilot
