// Vector kernels that resample f32 rows: one combines whole rows, the other gathers within a row.
#pragma once

#include <cstdint>

namespace sparkpilot {

// out[i] = sum over t of weight[t] * rows[t][i]
void blend_rows(const float* const* rows, const float* weight, int64_t taps, float* out, int64_t n);

// out[x] = sum over t of weight[t * n + x] * row[index[t * n + x]]; weight null: all 1.
void gather_row(const float* row, const int32_t* index, const float* weight, int64_t taps, float* out, int64_t n);

}  // namespace sparkpilot
