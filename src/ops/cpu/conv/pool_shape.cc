#include "ops/cpu/conv/pool_shape.h"

namespace sparkpilot {

Shape PoolShape::output() const { return make_image_shape(batch, channels, window.spatial(window.out), channels_last); }

double PoolShape::flops() const {
  return static_cast<double>(batch) * static_cast<double>(channels) * static_cast<double>(window.out_size()) *
         static_cast<double>(window.kernel_size());
}

PoolShape pool_shape(const Attributes& attrs, const Shape& x) {
  PoolShape s;
  s.channels_last = attrs.integer("channels_last", 0) != 0;
  const ImageShape image = image_shape(x, s.channels_last);
  const auto dims = image.spatial.size();
  const auto kernel = kernel_shape(attrs, static_cast<int>(dims));
  s.batch = image.batch;
  s.channels = image.channels;
  s.window = sliding_window(attrs, image.spatial, std::span<const int64_t>(kernel).first(dims),
                            attrs.integer("ceil_mode", 0) != 0);
  s.x = image.strides;
  s.y = image_shape(s.output(), s.channels_last).strides;
  return s;
}

std::unique_ptr<KernelState> prepare_pool(const Problem& p) {
  auto state = std::make_unique<PoolState>();
  state->shape = pool_shape(p.attrs(), p.inputs[0].shape);
  return state;
}

PoolShape global_pool_shape(const Shape& x) {
  PoolShape s;
  const ImageShape image = image_shape(x, false);
  s.batch = image.batch;
  s.channels = image.channels;
  s.window.dims = static_cast<int>(image.spatial.size());
  for (size_t i = 0, skip = KernelWindow::kMaxDims - image.spatial.size(); i < image.spatial.size(); ++i) {
    s.window.in[skip + i] = s.window.kernel[skip + i] = image.spatial[i];
  }
  s.x = image.strides;
  s.y = image_shape(s.output(), false).strides;
  return s;
}

int64_t padded_taps(const KernelWindow& w, const KernelWindow::Dims& start) {
  int64_t count = 1;
  for (size_t i = 0; i < KernelWindow::kMaxDims; ++i) {
    const KernelRange range =
        inside(start[i] + w.pad_begin[i], w.kernel[i], w.dilation[i], w.in[i] + w.pad_begin[i] + w.pad_end[i]);
    count *= range.end - range.begin;
  }
  return count;
}

}  // namespace sparkpilot
