// The geometry of a window that slides over an image: for convolutions, transposed convolutions and pooling.
//
// An image has a batch, channels and one to three spatial dimensions, stored N,C,spatial or, with `channels_last`,
// N,spatial,C. Geometry always has three spatial dimensions here (depth, height, width); missing ones come first with
// size 1, so loops need no case for the rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/attributes.h"
#include "tensor/shape.h"

namespace sparkpilot {

struct KernelWindow {
  static constexpr int kMaxDims = 3;
  using Dims = std::array<int64_t, kMaxDims>;
  int dims = 0;  // spatial dimensions of the tensors, 1 to 3
  Dims in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Dims pad_begin{0, 0, 0}, pad_end{0, 0, 0};

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  // One of the arrays with only the dimensions that the tensors have.
  std::span<const int64_t> spatial(const Dims& d) const {
    return std::span<const int64_t>(d).last(static_cast<size_t>(dims));
  }
};

// The kernel offsets [begin, end) along one dimension that are inside the image, for the window that starts at `start`.
struct KernelRange {
  int64_t begin, end;
};
inline KernelRange inside(int64_t start, int64_t kernel, int64_t dilation, int64_t size) {
  // Avoids the division in the common case, since kernels call this for every row.
  const auto steps = [dilation](int64_t way) { return dilation == 1 ? way : (way + dilation - 1) / dilation; };
  const int64_t begin = start >= 0 ? 0 : steps(-start), end = start >= size ? 0 : steps(size - start);
  return {begin < kernel ? begin : kernel, end < begin ? begin : end < kernel ? end : kernel};
}

// The part of all products of a window's elements with the image that are not with padding, between 0 and 1. For a
// transposed window: the part that falls on the output.
double inside_share(const KernelWindow& window, bool transposed = false);

// Strides of an image's elements.
struct ImageStrides {
  int64_t n = 0, c = 0, d = 0, h = 0, w = 0;
};

struct ImageShape {
  int64_t batch = 0, channels = 0;
  std::span<const int64_t> spatial;
  ImageStrides strides;
};
// Reads an image's shape; fails (user) unless it has one to three spatial dimensions. `spatial` points into `shape`.
ImageShape image_shape(const Shape& shape, bool channels_last);
Shape make_image_shape(int64_t batch, int64_t channels, std::span<const int64_t> spatial, bool channels_last);

// Reads `strides`, `dilations`, `pads` and `auto_pad` as ONNX defines them for Conv and pooling, and computes the
// output size. With `ceil_mode` a last window that extends over the end counts too, unless it would start in the
// padding after the image. Fails (user) on lists of the wrong length, zero or huge sizes, or a window larger than the
// padded image.
KernelWindow sliding_window(const Attributes& attrs, std::span<const int64_t> in, std::span<const int64_t> kernel,
                            bool ceil_mode = false);

// The same for ConvTranspose, with `output_padding` and `output_shape`: `in` is the small image, `out` the large one.
KernelWindow transposed_window(const Attributes& attrs, std::span<const int64_t> in, std::span<const int64_t> kernel);

// The attribute `kernel_shape`, which must have `dims` positive entries. `fallback`, if not empty, is used if the
// attribute is absent, and must be equal to it otherwise.
std::array<int64_t, KernelWindow::kMaxDims> kernel_shape(const Attributes& attrs, int dims,
                                                         std::span<const int64_t> fallback = {});

}  // namespace sparkpilot
