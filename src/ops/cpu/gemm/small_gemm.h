// Products of small row-major f32 matrices, for ops that compute many of them (attention, recurrent nets). Serial;
// every element is summed over k in order, so the result does not depend on how the work is split.
#pragma once

#include <cstdint>

namespace sparkpilot {

// C[i * ldc + j] = alpha * sum over p of A[i * lda + p] * B[p * ldb + j], plus the previous value of C if `add`.
// Reads up to 60 bytes past the end of a row of B; writes nothing past `n`.
void small_gemm(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m, int64_t n,
                int64_t k, float alpha, bool add);

}  // namespace sparkpilot
