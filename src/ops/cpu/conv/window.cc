#include "ops/cpu/conv/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace sparkpilot {
namespace {

// Sizes above this are refused, so that no sum or product of two of them overflows.
constexpr int64_t kMaxSize = int64_t{1} << 30;

enum class AutoPad { explicit_pads, same_upper, same_lower, valid };

AutoPad auto_pad(const Attributes& attrs) {
  const std::string text = attrs.text("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::explicit_pads;
  if (text == "SAME_UPPER") return AutoPad::same_upper;
  if (text == "SAME_LOWER") return AutoPad::same_lower;
  if (text == "VALID") return AutoPad::valid;
  fail("auto_pad is \"{}\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", text);
}

// A list attribute of `count` entries in [low, kMaxSize]; if absent or empty, all entries are `fallback`.
std::vector<int64_t> list(const Attributes& attrs, std::string_view key, size_t count, int64_t low, int64_t fallback) {
  std::vector<int64_t> values = attrs.integers(key);
  if (values.empty()) return std::vector<int64_t>(count, fallback);
  if (values.size() != count) fail("{} has {} entries, expected {}", key, values.size(), count);
  for (const int64_t v : values) {
    if (v < low || v > kMaxSize) fail("{} holds {}, expected {} to {}", key, v, low, kMaxSize);
  }
  return values;
}

// Sets everything except pads and output size.
KernelWindow common(const Attributes& attrs, std::span<const int64_t> in, std::span<const int64_t> kernel) {
  const size_t dims = in.size(), skip = KernelWindow::kMaxDims - dims;
  if (kernel.size() != dims) fail("kernel has {} dimensions, the image {}", kernel.size(), dims);
  const Shape product(kernel);  // refuses kernels whose size overflows
  KernelWindow w;
  w.dims = static_cast<int>(dims);
  const std::vector<int64_t> strides = list(attrs, "strides", dims, 1, 1);
  const std::vector<int64_t> dilations = list(attrs, "dilations", dims, 1, 1);
  for (size_t i = 0; i < dims; ++i) {
    if (in[i] > kMaxSize) fail("image size {} is above {}", in[i], kMaxSize);
    if (kernel[i] < 1 || kernel[i] > kMaxSize) fail("kernel size {} is outside 1 to {}", kernel[i], kMaxSize);
    w.in[skip + i] = in[i];
    w.kernel[skip + i] = kernel[i];
    w.stride[skip + i] = strides[i];
    w.dilation[skip + i] = dilations[i];
  }
  return w;
}

// SAME splits an odd number of padded elements unevenly: the larger half goes to the end (upper) or to the beginning
// (lower).
void split_pads(KernelWindow& w, size_t i, int64_t total, bool larger_behind) {
  const int64_t half = total / 2;
  w.pad_begin[i] = larger_behind ? half : total - half;
  w.pad_end[i] = total - w.pad_begin[i];
}

void explicit_pads(const Attributes& attrs, KernelWindow& w) {
  const auto dims = static_cast<size_t>(w.dims), skip = KernelWindow::kMaxDims - dims;
  const std::vector<int64_t> pads = list(attrs, "pads", 2 * dims, 0, 0);
  for (size_t i = 0; i < dims; ++i) {
    w.pad_begin[skip + i] = pads[i];
    w.pad_end[skip + i] = pads[dims + i];
  }
}

int64_t extent(const KernelWindow& w, size_t i) { return (w.kernel[i] - 1) * w.dilation[i] + 1; }

}  // namespace

double inside_share(const KernelWindow& w, bool transposed) {
  double share = 1;
  for (size_t i = 0; i < KernelWindow::kMaxDims; ++i) {
    const int64_t windows = transposed ? w.in[i] : w.out[i], size = transposed ? w.out[i] : w.in[i];
    double elements = 0;
    for (int64_t at = 0; at < windows; ++at) {
      const KernelRange range = inside(at * w.stride[i] - w.pad_begin[i], w.kernel[i], w.dilation[i], size);
      elements += static_cast<double>(range.end - range.begin);
    }
    if (windows > 0) share *= elements / (static_cast<double>(windows) * static_cast<double>(w.kernel[i]));
  }
  return share;
}

ImageShape image_shape(const Shape& shape, bool channels_last) {
  const int rank = shape.rank(), dims = rank - 2;
  if (dims < 1 || dims > KernelWindow::kMaxDims) {
    fail("image has shape {}, expected batch, channels and 1 to {} spatial dimensions", shape.str(),
         KernelWindow::kMaxDims);
  }
  const auto all = shape.strides();
  const auto stride = [&](int axis) { return all[static_cast<size_t>(axis)]; };
  const int first = channels_last ? 1 : 2, channel = channels_last ? rank - 1 : 1;
  ImageShape image;
  image.batch = shape[0];
  image.channels = shape[channel];
  image.spatial = shape.dims().subspan(static_cast<size_t>(first), static_cast<size_t>(dims));
  image.strides = {stride(0), stride(channel), dims > 2 ? stride(first) : 0, dims > 1 ? stride(first + dims - 2) : 0,
                   stride(first + dims - 1)};
  return image;
}

Shape make_image_shape(int64_t batch, int64_t channels, std::span<const int64_t> spatial, bool channels_last) {
  std::vector<int64_t> dims{batch};
  if (!channels_last) dims.push_back(channels);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  if (channels_last) dims.push_back(channels);
  return Shape(std::span<const int64_t>(dims));
}

KernelWindow sliding_window(const Attributes& attrs, std::span<const int64_t> in, std::span<const int64_t> kernel,
                            bool ceil_mode) {
  KernelWindow w = common(attrs, in, kernel);
  const AutoPad mode = auto_pad(attrs);
  if (mode == AutoPad::explicit_pads) explicit_pads(attrs, w);
  for (size_t i = KernelWindow::kMaxDims - in.size(); i < KernelWindow::kMaxDims; ++i) {
    if (mode == AutoPad::same_upper || mode == AutoPad::same_lower) {
      w.out[i] = (w.in[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t total = std::max<int64_t>(0, (w.out[i] - 1) * w.stride[i] + extent(w, i) - w.in[i]);
      split_pads(w, i, total, mode == AutoPad::same_upper);
      continue;
    }
    const int64_t padded = w.in[i] + w.pad_begin[i] + w.pad_end[i];
    const int64_t room = padded - extent(w, i);
    if (room < 0) fail("window of {} does not fit into the padded image of {}", extent(w, i), padded);
    w.out[i] = (ceil_mode ? room + w.stride[i] - 1 : room) / w.stride[i] + 1;
    if (ceil_mode && (w.out[i] - 1) * w.stride[i] >= w.in[i] + w.pad_begin[i]) --w.out[i];
  }
  return w;
}

KernelWindow transposed_window(const Attributes& attrs, std::span<const int64_t> in, std::span<const int64_t> kernel) {
  KernelWindow w = common(attrs, in, kernel);
  const size_t dims = in.size(), skip = KernelWindow::kMaxDims - dims;
  const AutoPad mode = auto_pad(attrs);
  const std::vector<int64_t> extra = list(attrs, "output_padding", dims, 0, 0);
  std::vector<int64_t> wanted = attrs.integers("output_shape");
  if (wanted.size() == dims + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);  // some exporters give N and C too
  if (!wanted.empty() && wanted.size() != dims) fail("output_shape has {} entries, expected {}", wanted.size(), dims);
  if (mode == AutoPad::explicit_pads) explicit_pads(attrs, w);
  for (size_t i = skip; i < KernelWindow::kMaxDims; ++i) {
    if (w.in[i] < 1) fail("image size {} is below 1", w.in[i]);
    const int64_t full = (w.in[i] - 1) * w.stride[i] + extra[i - skip] + extent(w, i);
    const bool same = mode == AutoPad::same_upper || mode == AutoPad::same_lower;
    if (!wanted.empty()) {
      w.out[i] = wanted[i - skip];
      if (w.out[i] < 1 || w.out[i] > kMaxSize) fail("output_shape holds {}, expected 1 to {}", w.out[i], kMaxSize);
    } else if (same) {
      w.out[i] = w.in[i] * w.stride[i];
    }
    if (!wanted.empty() || same) {
      // ONNX puts the larger half at the beginning except for SAME_UPPER; a negative total is extra output at the end.
      const int64_t total = full - w.out[i];
      if (total >= 0) split_pads(w, i, total, mode == AutoPad::same_upper);
      else w.pad_end[i] = total;
    } else {
      w.out[i] = full - w.pad_begin[i] - w.pad_end[i];
      if (w.out[i] < 1) fail("pads {} and {} leave no output of {}", w.pad_begin[i], w.pad_end[i], full);
    }
  }
  return w;
}

std::array<int64_t, KernelWindow::kMaxDims> kernel_shape(const Attributes& attrs, int dims,
                                                         std::span<const int64_t> fallback) {
  const std::vector<int64_t> given = attrs.integers("kernel_shape");
  if (given.empty() && fallback.empty()) fail("attribute kernel_shape is missing");
  const std::span<const int64_t> chosen = given.empty() ? fallback : std::span<const int64_t>(given);
  if (chosen.size() != static_cast<size_t>(dims)) fail("kernel_shape has {} entries, expected {}", chosen.size(), dims);
  if (!fallback.empty() && !std::equal(chosen.begin(), chosen.end(), fallback.begin(), fallback.end())) {
    fail("kernel_shape differs from the weight's spatial shape");
  }
  std::array<int64_t, KernelWindow::kMaxDims> out{};
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] < 1) fail("kernel_shape holds {}, expected 1 or more", chosen[i]);
    out[i] = chosen[i];
  }
  return out;
}

}  // namespace sparkpilot
