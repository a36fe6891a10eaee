// The gradient of a convolution's weights, of f32 images:
//   dw[o, i, k] = sum over n, p of x[n, i, p * stride - pad + k * dilation] * dy[n, o, p].
//
// Sums of some hundred products in f32 lanes are added up in a fixed order, so results do not depend on the number of
// threads. Serial.
#pragma once

#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {

struct WeightGradient {
  const ConvShape& shape;
  const float *x, *dy;
  float* dw;
};

// --- channels first
// Images of up to two dimensions, one input channel in each group. Filters [first, last); `scratch` has
// depthwise_gradient_scratch() bytes, aligned to 64.
int64_t depthwise_gradient_scratch(const ConvShape& shape);
void depthwise_weight_gradient(const WeightGradient& g, int64_t first, int64_t last, std::byte* scratch);

// Kernels of one element at stride 1 without padding, one group: a product of the two images' rows, by tiles of some
// filters and some input channels. Tiles [first, last) of pointwise_gradient_tiles(); `sums` has one double for each
// weight.
int64_t pointwise_gradient_tiles(const ConvShape& shape);
void pointwise_weight_gradient(const WeightGradient& g, int64_t first, int64_t last, double* sums);

// --- channels last
// Images of up to two dimensions, as many filters as channels and groups. Sums of the output rows [first, last) of all
// images, numbered through, in depthwise_pixels_floats() numbers; then `count` of these one after the other joined. The
// rows of each part must not depend on the number of threads.
int64_t depthwise_pixels_floats(const ConvShape& shape);
void depthwise_pixels_rows(const WeightGradient& g, int64_t first, int64_t last, float* sums);
void depthwise_pixels_join(const WeightGradient& g, const float* parts, int64_t count);

// Images of up to two dimensions, kernels of any size, in groups: a product of rows of the two images for each group
// and tap. Tiles [first, last) of dense_pixels_tiles(); `sums` has dense_pixels_floats() numbers.
int64_t dense_pixels_floats(const WeightGradient& g);
int64_t dense_pixels_tiles(const WeightGradient& g);
void dense_pixels(const WeightGradient& g, int64_t first, int64_t last, float* sums);

}  // namespace sparkpilot
