#include "ops/cuda/product_weights.h"

#include "base/parallel.h"
#include "ops/cuda/byte_gemm.h"

namespace sparkpilot::cuda {

PackedWeights pack_weights(GpuDevice& gpu, const Tensor& weights, const GemmArgs& args, DType dtype) {
  using Types = TypeList<float, Half, BFloat16>;
  const MatMulShape& s = args.shape;
  const int64_t unit = 16 / storage_bytes(dtype, 1), stride = (s.k + unit - 1) / unit * unit;
  Tensor packed = Tensor::zeros(dtype, Shape{s.n, stride});
  dispatch(Types{}, weights.dtype(), [&]<typename From>() {
    dispatch(Types{}, dtype, [&]<typename To>() {
      const From* const from = weights.data<From>().data();
      To* const to = packed.data<To>().data();
      parallel_for(s.n, std::max<int64_t>(1, (1 << 16) / s.k), [&](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) {
          for (int64_t i = 0; i < s.k; ++i) {
            const auto value = static_cast<float>(from[i * s.b_row + j * s.b_col]);
            to[j * stride + i] = To(args.alpha == 1 ? value : args.alpha * value);
          }
        }
      });
    });
  });
  return {gpu.upload(packed.raw(), packed.bytes()), stride};
}

std::shared_ptr<Buffer> upload_byte_rows(GpuDevice& gpu, const uint8_t* weights, const MatMulShape& s) {
  const int64_t depth = byte_gemm_depth(s.k);
  std::vector<uint8_t> rows(static_cast<size_t>(s.n * depth));
  parallel_for(s.n, std::max<int64_t>(1, (1 << 16) / s.k), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      for (int64_t l = 0; l < s.k; ++l) rows[static_cast<size_t>(j * depth + l)] = weights[l * s.b_row + j * s.b_col];
    }
  });
  return gpu.upload(rows.data(), static_cast<int64_t>(rows.size()));
}

std::shared_ptr<Buffer> upload_scales(GpuDevice& gpu, std::span<const float> scale, int64_t n, float factor) {
  std::vector<float> all(static_cast<size_t>(n));
  for (size_t i = 0; i < all.size(); ++i) all[i] = scale[scale.size() > 1 ? i : 0] * factor;
  return gpu.upload(all.data(), n * 4);
}

}  // namespace sparkpilot::cuda
