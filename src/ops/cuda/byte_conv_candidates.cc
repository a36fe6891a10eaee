#include "ops/cuda/byte_conv_candidates.h"

namespace sparkpilot::cuda {

std::vector<uint8_t> byte_conv_rows(const ConvShape& s, const uint8_t* weights, int64_t row_bytes) {
  const int64_t taps = s.window.kernel_size(), in = s.in_per_group();
  std::vector<uint8_t> rows(static_cast<size_t>(s.out_channels * row_bytes));
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        rows[static_cast<size_t>(o * row_bytes + tap * in + i)] = weights[(o * in + i) * taps + tap];
      }
    }
  }
  return rows;
}

}  // namespace sparkpilot::cuda
