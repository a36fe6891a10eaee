// The geometry of matrix products: the strides of their operands and how they broadcast.
#pragma once

#include <array>

#include "tensor/shape.h"

namespace sparkpilot {

// Y[batch, m, n] = A[batch, m, k] x B[batch, k, n], all strides in elements; a batch stride of 0 broadcasts.
struct MatMulShape {
  int64_t batch = 1, m = 1, k = 1, n = 1;
  int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0;
  int batch_rank = 0;
  std::array<int64_t, Shape::kMaxRank> batch_dims{}, a_batch{}, b_batch{};
  Shape out;  // shape of Y as the op returns it, with 1-D promotion undone

  bool empty() const { return batch * m * n == 0 || k == 0; }
  double flops() const;  // a multiply-add counts as two
  // Offsets of the matrices A and B of one batch entry.
  struct Offsets {
    int64_t a, b;
  };
  Offsets offsets(int64_t entry) const;
};

// NumPy's matmul: 1-D operands are promoted, leading dimensions broadcast. If B is a single matrix, A's leading
// dimensions are folded into m. Fails (user) if the shapes do not fit.
MatMulShape matmul_shape(const Shape& a, const Shape& b);

// A[..., m, k] x B[k, n], each transposed first if requested (A only if it has two axes). Fails (user) otherwise.
MatMulShape gemm_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

}  // namespace sparkpilot
