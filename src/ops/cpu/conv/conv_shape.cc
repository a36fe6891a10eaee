#include "ops/cpu/conv/conv_shape.h"

#include "base/error.h"

namespace sparkpilot {
namespace {

int64_t read_groups(const Attributes& attrs, int64_t channels) {
  const int64_t groups = attrs.integer("group", 1);
  if (groups < 1) fail("group is {}, expected 1 or more", groups);
  if (channels % groups != 0) fail("{} channels do not divide into {} groups", channels, groups);
  return groups;
}

// The spatial sizes of the weights; fails (user) if their rank or the attribute `kernel_shape` disagrees.
std::span<const int64_t> kernel_of(const Attributes& attrs, const Shape& x, const Shape& weights) {
  if (weights.rank() != x.rank()) fail("weight has rank {}, input has rank {}", weights.rank(), x.rank());
  const auto spatial = weights.dims().subspan(2);
  kernel_shape(attrs, static_cast<int>(spatial.size()), spatial);
  return spatial;
}

}  // namespace

bool ConvShape::is_pointwise() const {
  const KernelWindow::Dims ones{1, 1, 1}, zeros{0, 0, 0};
  return groups == 1 && window.kernel == ones && window.stride == ones && window.pad_begin == zeros &&
         window.out == window.in;
}

Shape ConvShape::output() const {
  return make_image_shape(batch, out_channels, window.spatial(window.out), channels_last);
}

double ConvShape::flops() const {
  const auto positions = static_cast<double>(window.out_size());
  return 2.0 * static_cast<double>(batch) * positions * static_cast<double>(weights());
}

ConvShape conv_shape(const Attributes& attrs, const Shape& x, const Shape& weights, bool channels_last) {
  const ImageShape image = image_shape(x, channels_last && attrs.integer("x_channels_first", 0) == 0);
  const auto kernel = kernel_of(attrs, x, weights);
  ConvShape s;
  s.batch = image.batch;
  s.in_channels = image.channels;
  s.out_channels = weights[0];
  s.groups = read_groups(attrs, image.channels);
  s.channels_last = channels_last;
  if (s.in_channels != weights[1] * s.groups) {
    if (s.groups == 1) fail("input has {} channels, weight expects {}", s.in_channels, weights[1]);
    fail("input has {} channels, weight expects {} in each of {} groups", s.in_channels, weights[1], s.groups);
  }
  if (s.out_channels % s.groups != 0) {
    fail("weight has {} outputs, which do not divide into {} groups", s.out_channels, s.groups);
  }
  s.window = sliding_window(attrs, image.spatial, kernel);
  s.x = image.strides;
  s.y = image_shape(s.output(), channels_last).strides;
  return s;
}

ConvShape conv_transpose_shape(const Attributes& attrs, const Shape& x, const Shape& weights) {
  const bool channels_last = attrs.integer("channels_last", 0) != 0;
  const ImageShape image = image_shape(x, channels_last);
  const auto kernel = kernel_of(attrs, x, weights);
  ConvShape s;
  s.batch = image.batch;
  s.in_channels = image.channels;
  s.groups = read_groups(attrs, image.channels);
  s.channels_last = channels_last;
  if (s.in_channels != weights[0]) fail("input has {} channels, weight expects {}", s.in_channels, weights[0]);
  if (__builtin_mul_overflow(weights[1], s.groups, &s.out_channels)) {
    fail("{} outputs in each of {} groups are too many", weights[1], s.groups);
  }
  s.window = transposed_window(attrs, image.spatial, kernel);
  s.x = image.strides;
  s.y = image_shape(s.output(), channels_last).strides;
  return s;
}

ConvShape conv_weight_gradient_shape(const Attributes& attrs, const Shape& x, const Shape& dy) {
  const bool channels_last = attrs.integer("channels_last", 0) != 0;
  const int64_t in = image_shape(x, channels_last).channels, out = image_shape(dy, channels_last).channels;
  std::vector<int64_t> weights{out, in / read_groups(attrs, in)};
  for (const int64_t size : attrs.integers("kernel_shape")) weights.push_back(size);
  const ConvShape s = conv_shape(attrs, x, Shape(weights), channels_last);
  if (!(s.output() == dy)) fail("the gradient is {}, the convolution gives {}", dy.str(), s.output().str());
  return s;
}

void check_conv_operands(const InferContext& c, int64_t out_channels) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  for (int i = 1; i < c.input_count(); ++i) {
    if (c.has(i) && c.dtype(i) != c.dtype(0)) {
      fail("input {} is {}, expected {} as input 0", i, name(c.dtype(i)), name(c.dtype(0)));
    }
  }
  if (c.has(2) && !(c.shape(2) == Shape{out_channels})) {
    fail("bias has shape {}, expected [{}]", c.shape(2).str(), out_channels);
  }
}

}  // namespace sparkpilot
