// The shape of a pooling op, as every pooling op needs it before it runs, and the loops of the plain references.
#pragma once

#include "base/parallel.h"
#include "ir/op.h"
#include "ops/cpu/conv/window.h"

namespace sparkpilot {

struct PoolShape {
  KernelWindow window;
  int64_t batch = 0, channels = 0;
  bool channels_last = false;
  ImageStrides x, y;

  bool empty() const { return batch * channels == 0 || window.in_size() == 0 || window.out_size() == 0; }
  Shape output() const;
  double flops() const;  // one per tap
};

// Reads `kernel_shape`, `ceil_mode`, `channels_last` and the attributes of sliding_window(). Fails (user) if they do
// not fit.
PoolShape pool_shape(const Attributes& attrs, const Shape& x);

// The state of the references: the shape, read once.
struct PoolState : KernelState {
  PoolShape shape;
};
std::unique_ptr<KernelState> prepare_pool(const Problem& p);

// The shape of a pool whose window is the whole image. Fails (user) unless there are batch, channels and 1 to 3 spatial
// dimensions.
PoolShape global_pool_shape(const Shape& x);

// The number of elements of the window at `start` that are inside the padded image.
int64_t padded_taps(const KernelWindow& w, const KernelWindow::Dims& start);

// Calls body(n, c, start, offset in y) for each output element, in parallel over its rows; `start` is where the window
// begins, which may be in the padding.
template <typename Body>
void for_each_window(const PoolShape& s, const Body& body) {
  const KernelWindow& w = s.window;
  const double work = static_cast<double>(w.out[2]) * static_cast<double>(w.kernel_size());
  const auto grain = 1 + static_cast<int64_t>(32768 / (1 + work));
  parallel_for(s.batch * s.channels * w.out[0] * w.out[1], grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t h = row % w.out[1], d = row / w.out[1] % w.out[0];
      const int64_t c = row / w.out[1] / w.out[0] % s.channels, n = row / w.out[1] / w.out[0] / s.channels;
      const int64_t y = n * s.y.n + c * s.y.c + d * s.y.d + h * s.y.h;
      KernelWindow::Dims start{d * w.stride[0] - w.pad_begin[0], h * w.stride[1] - w.pad_begin[1], -w.pad_begin[2]};
      for (int64_t i = 0; i < w.out[2]; ++i, start[2] += w.stride[2]) body(n, c, start, y + i * s.y.w);
    }
  });
}

// Calls body(d, h, w) for each position of the window that lies inside the image, in row-major order.
template <typename Body>
void for_each_tap(const KernelWindow& w, const KernelWindow::Dims& start, const Body& body) {
  const KernelRange kd = inside(start[0], w.kernel[0], w.dilation[0], w.in[0]);
  const KernelRange kh = inside(start[1], w.kernel[1], w.dilation[1], w.in[1]);
  const KernelRange kw = inside(start[2], w.kernel[2], w.dilation[2], w.in[2]);
  for (int64_t d = kd.begin; d < kd.end; ++d) {
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      for (int64_t k = kw.begin; k < kw.end; ++k) {
        body(start[0] + d * w.dilation[0], start[1] + h * w.dilation[1], start[2] + k * w.dilation[2]);
      }
    }
  }
}

// With channels last: calls body(n, start, first channel, count, offset in y) for each output position and each `block`
// of channels, in parallel.
template <typename Body>
void for_each_block(const PoolShape& s, int64_t block, const Body& body) {
  const KernelWindow& w = s.window;
  const int64_t blocks = (s.channels + block - 1) / block;
  parallel_for(s.batch * w.out_size() * blocks, 1 + 2048 / (1 + w.kernel_size()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * block, position = i / blocks, at = position % w.out_size();
      const KernelWindow::Dims out{at / (w.out[1] * w.out[2]), at / w.out[2] % w.out[1], at % w.out[2]};
      KernelWindow::Dims start;
      for (size_t k = 0; k < KernelWindow::kMaxDims; ++k) start[k] = out[k] * w.stride[k] - w.pad_begin[k];
      body(position / w.out_size(), start, first, s.channels - first < block ? s.channels - first : block,
           position * s.channels + first);
    }
  });
}

}  // namespace sparkpilot
