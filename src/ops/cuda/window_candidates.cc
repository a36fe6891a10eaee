#include "ops/cuda/window_candidates.h"

#include "base/error.h"

namespace sparkpilot::cuda {

Acceptance takes_window(const KernelWindow& window) {
  constexpr int64_t kMost = 1 << 20;
  if (window.dims > 2) return "windows of three dimensions";
  for (const KernelWindow::Dims* sizes : {&window.in, &window.out, &window.kernel, &window.stride, &window.dilation,
                                          &window.pad_begin, &window.pad_end}) {
    for (const int64_t size : *sizes) {
      if (size > kMost) return "an image, a window, a step or pads of more than 2^20";
    }
  }
  return true;
}

}  // namespace sparkpilot::cuda
