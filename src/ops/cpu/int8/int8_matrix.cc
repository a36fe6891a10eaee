#include "ops/cpu/int8/int8_matrix.h"

namespace sparkpilot {

Int8Matrix pack_int8(const Int8Source& source, int64_t depth, int64_t columns, int64_t run) {
  constexpr int64_t kBlock = Int8Matrix::kBlock, kGroup = Int8Matrix::kGroup;
  Int8Matrix out{depth, columns, run ? run : depth, {}, {}};
  out.data = Tensor::zeros(DType::i8, Shape{out.blocks(), out.groups(), kBlock, kGroup});
  out.sums = Tensor::zeros(DType::i32, Shape{out.blocks() * kBlock});
  auto* data = static_cast<int8_t*>(out.data.raw());
  auto* sums = static_cast<int32_t*>(out.sums.raw());
  for (int64_t j = 0; j < columns; ++j) {
    int8_t* block = data + j / kBlock * out.groups() * kBlock * kGroup + j % kBlock * kGroup;
    for (int64_t p = 0; p < depth; ++p) {
      const int8_t v =
          source.data[j * source.column + p / source.inner * source.outer_step + p % source.inner * source.inner_step];
      const int64_t group = p / out.run * out.run_groups() + p % out.run / kGroup;
      block[group * kBlock * kGroup + p % out.run % kGroup] = v;
      sums[j] += v;
    }
  }
  return out;
}

}  // namespace sparkpilot
