#include "ops/cpu/gemm/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/cpu/gemm/small_gemm.h"
#include "ops/cpu/move/transpose.h"

namespace sparkpilot {

PackedMatrix::PackedMatrix(const float* weights, int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {
  const int64_t panels = (rows + kPanel - 1) / kPanel;
  data_ = std::make_shared<Buffer>(panels * columns * kPanel * static_cast<int64_t>(sizeof(float)));
  auto* data = reinterpret_cast<float*>(data_->data());
  std::memset(data, 0, static_cast<size_t>(data_->size()));
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t first = panel * kPanel;
    transpose_matrix(weights + first * columns, columns, std::min(kPanel, rows - first), columns,
                     data + panel * columns * kPanel, kPanel);
  }
}

void PackedMatrix::multiply_add(const float* a, int64_t lda, float* c, int64_t ldc, int64_t m) const {
  if (rows_ == 0 || columns_ == 0 || m == 0) return;
  const auto* data = reinterpret_cast<const float*>(data_->data());
  // A thread is worth waking for about 100,000 multiplications.
  const int64_t grain = std::max<int64_t>(1, 100000 / (m * columns_ * kPanel));
  parallel_for((rows_ + kPanel - 1) / kPanel, grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kPanel;
      small_gemm(a, lda, data + panel * columns_ * kPanel, kPanel, c + first, ldc, m, std::min(kPanel, rows_ - first),
                 columns_, 1, true);
    }
  });
}

}  // namespace sparkpilot
