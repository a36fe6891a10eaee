#include "ops/cuda/byte_gemm.h"

#include "ops/cuda/byte_conv.h"

namespace sparkpilot::cuda {

KernelLaunch byte_gemm_launch(int m, int n) {
  const int rows = byte_gemm_rows(m);
  return {.grid_x = static_cast<unsigned>((n + 15) / 16),
          .grid_y = static_cast<unsigned>((m + rows - 1) / rows),
          .threads = 256};
}

KernelLaunch byte_conv_launch(int m, int n, int k) {
  const int pixels = byte_conv_pixels(k);
  return {.grid_x = static_cast<unsigned>((n + 15) / 16),
          .grid_y = static_cast<unsigned>((m + pixels - 1) / pixels),
          .threads = 256};
}

}  // namespace sparkpilot::cuda
