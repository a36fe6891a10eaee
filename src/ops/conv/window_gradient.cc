#include "ops/conv/window_gradient.h"

#include <algorithm>

namespace sparkpilot {
namespace {

// What the windows reach along an axis, from the first to the last, the padding included.
int64_t reach(const KernelWindow& w, size_t axis) {
  return (w.out[axis] - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1;
}

}  // namespace

Attributes window_attributes(const KernelWindow& w, int64_t groups) {
  const auto list = [&](const KernelWindow::Dims& dims) {
    const std::span<const int64_t> own = w.spatial(dims);
    return std::vector<int64_t>(own.begin(), own.end());
  };
  KernelWindow::Dims ends{};  // a negative one would be what no window reaches
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = std::max<int64_t>(0, reach(w, i) - w.pad_begin[i] - w.in[i]);
  std::vector<int64_t> pads = list(w.pad_begin);
  for (const int64_t end : list(ends)) pads.push_back(end);
  return {{"strides", list(w.stride)}, {"dilations", list(w.dilation)}, {"pads", pads}, {"group", groups}};
}

Attributes transposed_attributes(const KernelWindow& w, int64_t groups) {
  Attributes out = window_attributes(w, groups);
  std::vector<int64_t> missing;
  for (size_t i = KernelWindow::kMaxDims - static_cast<size_t>(w.dims); i < KernelWindow::kMaxDims; ++i) {
    missing.push_back(std::max<int64_t>(0, w.in[i] + w.pad_begin[i] - reach(w, i)));
  }
  out.set("output_padding", missing);
  return out;
}

Term reached(Term image, const KernelWindow& w) {
  const Shape shape = image.shape();
  std::vector<int64_t> axes, ends;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(KernelWindow::kMaxDims - shape.rank() + axis);
    axes.push_back(axis);
    ends.push_back(std::min(shape[axis], reach(w, i) - w.pad_begin[i]));
  }
  if (std::equal(ends.begin(), ends.end(), shape.begin() + 2)) return image;
  Builder& b = image.builder();
  const std::vector<int64_t> starts(ends.size());
  return {b, b.add("Slice", {image, b.ints(starts), b.ints(ends), b.ints(axes)})};
}

Term sum_of_channels(Term g) {
  std::vector<int64_t> axes = axes_from(2, g.shape().rank());
  axes.insert(axes.begin(), 0);
  return {g.builder(), g.builder().add("ReduceSum", {g, g.builder().ints(axes)}, {{"keepdims", int64_t{0}}})};
}

Term spread_over_windows(Term g, const PoolShape& s) {
  std::vector<int64_t> dims{s.channels, 1};
  for (const int64_t size : s.window.spatial(s.window.kernel)) dims.push_back(size);
  Tensor ones = Tensor::zeros(g.dtype(), Shape(dims));
  for (int64_t i = 0; i < ones.elements(); ++i) store_element(g.dtype(), ones.raw(), i, 1);
  Builder& b = g.builder();
  return {b, b.add("ConvTranspose", {g, b.constant(std::move(ones))}, transposed_attributes(s.window, s.channels))};
}

}  // namespace sparkpilot
