// The plain convolution: computes every product and accumulates in double. Integer convolutions use it too: their
// products and sums stay far below 2^53, so they are exact.
#pragma once

#include "base/parallel.h"
#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {

// Output rows per task, so that a task is worth a thread.
inline int64_t row_grain(const ConvShape& s) {
  const double work = static_cast<double>(s.window.out[2]) * static_cast<double>(s.in_per_group()) *
                      static_cast<double>(s.window.kernel_size());
  return 1 + static_cast<int64_t>(65536 / (1 + work));
}

// For every output element calls store(offset in y, output channel, sum). `load(offset in x)` gives an input as double;
// `weights` are [O, I/groups, kernel] as doubles.
template <typename Load, typename Store>
void convolve(const ConvShape& s, const double* weights, const Load& load, const Store& store) {
  const KernelWindow& w = s.window;
  const int64_t rows = s.batch * s.out_channels * w.out[0] * w.out[1];
  const int64_t in_group = s.in_per_group(), out_group = s.out_per_group(), taps = w.kernel_size();
  parallel_for(rows, row_grain(s), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t oh = row % w.out[1], od = row / w.out[1] % w.out[0];
      const int64_t oc = row / w.out[1] / w.out[0] % s.out_channels, n = row / w.out[1] / w.out[0] / s.out_channels;
      const int64_t d0 = od * w.stride[0] - w.pad_begin[0], h0 = oh * w.stride[1] - w.pad_begin[1];
      const KernelRange kd = inside(d0, w.kernel[0], w.dilation[0], w.in[0]);
      const KernelRange kh = inside(h0, w.kernel[1], w.dilation[1], w.in[1]);
      const int64_t x_base = n * s.x.n + oc / out_group * in_group * s.x.c;
      const int64_t y_base = n * s.y.n + oc * s.y.c + od * s.y.d + oh * s.y.h;
      const double* filter = weights + oc * in_group * taps;
      for (int64_t ow = 0; ow < w.out[2]; ++ow) {
        const int64_t w0 = ow * w.stride[2] - w.pad_begin[2];
        const KernelRange kw = inside(w0, w.kernel[2], w.dilation[2], w.in[2]);
        double sum = 0;
        for (int64_t ic = 0; ic < in_group; ++ic) {
          for (int64_t d = kd.begin; d < kd.end; ++d) {
            for (int64_t h = kh.begin; h < kh.end; ++h) {
              const int64_t x_row = x_base + ic * s.x.c + (d0 + d * w.dilation[0]) * s.x.d +
                                    (h0 + h * w.dilation[1]) * s.x.h + w0 * s.x.w;
              const double* tap = filter + ic * taps + (d * w.kernel[1] + h) * w.kernel[2];
              for (int64_t k = kw.begin; k < kw.end; ++k) sum += load(x_row + k * w.dilation[2] * s.x.w) * tap[k];
            }
          }
        }
        store(y_base + ow * s.y.w, oc, sum);
      }
    }
  });
}

}  // namespace sparkpilot
