// The plain matrix product. Floats accumulate in double, integers modulo 2^64, truncated to the result's type.
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "ops/cpu/gemm/matmul_shape.h"

namespace sparkpilot {

template <typename T>
using MatMulSum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

// Calls store(batch entry, row, column, sum) for every element of Y; load_a(offset) and load_b(offset) return operands
// as Sum.
template <typename Sum, typename LoadA, typename LoadB, typename Store>
void multiply_matrices(const MatMulShape& s, const LoadA& load_a, const LoadB& load_b, const Store& store) {
  constexpr int64_t kColumns = 64;  // sums in flight, so that B is read along its rows
  const double work = static_cast<double>(s.n) * static_cast<double>(s.k);
  parallel_for(s.batch * s.m, 1 + static_cast<int64_t>(65536 / (1 + work)), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t entry = row / s.m, i = row % s.m;
      const MatMulShape::Offsets at = s.offsets(entry);
      for (int64_t j0 = 0; j0 < s.n; j0 += kColumns) {
        const int64_t columns = std::min(kColumns, s.n - j0);
        Sum sums[kColumns] = {};
        for (int64_t k = 0; k < s.k; ++k) {
          const Sum a = load_a(at.a + i * s.a_row + k * s.a_col);
          const int64_t b = at.b + k * s.b_row + j0 * s.b_col;
          for (int64_t j = 0; j < columns; ++j) sums[j] += a * load_b(b + j * s.b_col);
        }
        for (int64_t j = 0; j < columns; ++j) store(entry, i, j0 + j, sums[j]);
      }
    }
  });
}

}  // namespace sparkpilot
