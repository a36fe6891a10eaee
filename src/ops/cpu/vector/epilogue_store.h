// The last step of the plain references of ops with an epilogue: converts whole results from fp32 to the output's
// dtype.
#pragma once

#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot {

// Where such an op computes its results: in the output itself if it is f32, else in `workspace`.
int64_t epilogue_store_bytes(DType dtype, int64_t elements);
float* epilogue_values(const Call& call, std::byte* workspace);

// Stores values[i] as elements i of an f16 or bf16 output, for `count` elements from `first` on.
void store_floats(const View& out, const float* values, int64_t first, int64_t count);

// Applies the epilogue to `values` and writes them to output 0. Rows: [rows, channels]; planes: [batch, channels,
// size].
void store_rows(const Call& call, const Epilogue& epilogue, float* values, int64_t rows, int64_t channels);
void store_planes(const Call& call, const Epilogue& epilogue, float* values, int64_t batch, int64_t channels,
                  int64_t size);

}  // namespace sparkpilot
