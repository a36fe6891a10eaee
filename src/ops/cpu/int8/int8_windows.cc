#include "ops/cpu/int8/int8_windows.h"

#include <algorithm>
#include <cstring>

namespace sparkpilot {

void copy_bytes(const uint8_t* from, const uint8_t* end, int64_t n, uint8_t* to) {
  if (end - from < n + 15) {
    std::memcpy(to, from, static_cast<size_t>(n));
    return;
  }
  for (int64_t i = 0; i < n; i += 16) std::memcpy(to + i, from + i, 16);
}

void gather_windows(const ConvShape& s, const Int8Image& image, int64_t first, int64_t last, uint8_t* to,
                    int64_t stride) {
  const KernelWindow& w = s.window;
  const int64_t in = s.in_per_group(), line_bytes = w.kernel[2] * in;
  int64_t ow = first % w.out[2], oh = first / w.out[2] % w.out[1];
  int64_t od = first / w.out[2] / w.out[1] % w.out[0], n = first / w.out_size();
  const bool dense = w.dilation[2] == 1 && s.groups == 1;
  for (int64_t position = first; position < last; ++position, to += stride) {
    const int64_t w0 = ow * w.stride[2] - w.pad_begin[2];
    const int64_t h0 = oh * w.stride[1] - w.pad_begin[1], d0 = od * w.stride[0] - w.pad_begin[0];
    const bool run = dense && w0 >= 0 && w0 + w.kernel[2] <= w.in[2];
    uint8_t* at = to;
    for (int64_t kd = 0, d = d0; kd < w.kernel[0]; ++kd, d += w.dilation[0]) {
      for (int64_t kh = 0, h = h0; kh < w.kernel[1]; ++kh, h += w.dilation[1], at += line_bytes) {
        if (d < 0 || d >= w.in[0] || h < 0 || h >= w.in[1]) {
          std::fill_n(at, line_bytes, image.padding);
          continue;
        }
        const uint8_t* line = image.x + n * s.x.n + d * s.x.d + h * s.x.h + image.first_channel;
        if (run) {
          copy_bytes(line + w0 * s.x.w, image.end, line_bytes, at);
          continue;
        }
        for (int64_t kw = 0, x = w0; kw < w.kernel[2]; ++kw, x += w.dilation[2]) {
          if (x < 0 || x >= w.in[2]) std::fill_n(at + kw * in, in, image.padding);
          else copy_bytes(line + x * s.x.w, image.end, in, at + kw * in);
        }
      }
    }
    if (++ow < w.out[2]) continue;
    ow = 0;
    if (++oh < w.out[1]) continue;
    oh = 0;
    if (++od < w.out[0]) continue;
    od = 0;
    ++n;
  }
}

int64_t padded_row_bytes(const ConvShape& s) {
  const KernelWindow& w = s.window;
  return ((w.out[2] - 1) * w.stride[2] + w.kernel[2]) * s.in_channels;
}
int64_t rows_under(const KernelWindow& w, int64_t rows) {
  return (rows - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
}

void copy_padded_row(const ConvShape& s, const uint8_t* x, int64_t n, int64_t h, uint8_t padding, uint8_t* to) {
  const KernelWindow& w = s.window;
  const int64_t pixels = padded_row_bytes(s) / s.in_channels;
  const bool inside = h >= 0 && h < w.in[1];
  const int64_t before = inside ? std::min(w.pad_begin[2], pixels) : pixels;
  const int64_t there = inside ? std::max<int64_t>(0, std::min(w.in[2], pixels - before)) : 0;
  to = std::fill_n(to, before * s.in_channels, padding);
  if (there > 0) to = std::copy_n(x + n * s.x.n + h * s.x.h, there * s.in_channels, to);
  std::fill_n(to, (pixels - before - there) * s.in_channels, padding);
}

}  // namespace sparkpilot
