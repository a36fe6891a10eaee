// A constant f32 matrix packed for products with a few rows at a time: recurrent nets multiply by the same weights in
// every step.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/tensor.h"

namespace sparkpilot {

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs the transpose of weights [rows, columns] (row-major, as recurrent ops have them).
  PackedMatrix(const float* weights, int64_t rows, int64_t columns);
  int64_t rows() const { return rows_; }

  // c[i, j] += sum over p of a[i, p] * weights[j, p], i < m, j < rows(). Runs in parallel over j if that pays.
  void multiply_add(const float* a, int64_t lda, float* c, int64_t ldc, int64_t m) const;

 private:
  static constexpr int64_t kPanel = 64;  // rows of the weights per panel: four vectors of AVX-512
  int64_t rows_ = 0, columns_ = 0;
  std::shared_ptr<Buffer> data_;  // panels of [columns][kPanel]
};

}  // namespace sparkpilot
