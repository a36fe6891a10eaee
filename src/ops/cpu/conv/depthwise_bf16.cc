#include "ops/cpu/conv/depthwise_bf16.h"

#include <algorithm>

#include "base/parallel.h"

namespace sparkpilot {
namespace {

// What one thread processes at a time, in rows and floats.
struct Band {
  int64_t step = 1;  // rows of the output
  int64_t ring = 0;  // rows of the image
  int64_t image_row = 0, output_row = 0;

  explicit Band(const ConvShape& s) : image_row(s.window.in[2] * s.in_channels) {
    constexpr int64_t kFloats = 8192;  // of the first-level cache, for the ring
    const KernelWindow& w = s.window;
    const int64_t span = std::min(w.in[1], (w.kernel[1] - 1) * w.dilation[1] + 1);
    step = std::clamp<int64_t>((kFloats / image_row - span) / w.stride[1] + 1, 1, w.out[1]);
    ring = std::min(w.in[1], (step - 1) * w.stride[1] + span);
    output_row = w.out[2] * s.out_channels;
  }
  int64_t floats() const { return (ring * image_row + step * output_row + 15) / 16 * 16; }
};

}  // namespace

int64_t DepthwiseBf16::workspace(const ConvShape& shape) {
  return Band(shape).floats() * static_cast<int64_t>(sizeof(float));
}

void DepthwiseBf16::run(const BFloat16* x, BFloat16* y, const Epilogue::Operands& operands,
                        std::byte* workspace) const {
  constexpr double kWorth = 32768;  // FLOPs that justify a thread
  const KernelWindow& w = shape.window;
  const Band band(shape);
  ConvShape image = shape;  // as the kernel sees it: one f32 image
  image.batch = 1;
  const int64_t all = shape.batch * w.out[1];
  const auto worth = static_cast<int64_t>(shape.flops() / kWorth);
  const int64_t pieces = std::clamp<int64_t>(worth, 1, std::min<int64_t>(threads, std::max(1, thread_count())));
  const auto clamp_row = [&](int64_t row) { return std::clamp<int64_t>(row, 0, w.in[1]); };

  const auto rows_of = [&](int64_t n, int64_t first, int64_t last, float* ring) {
    float* filtered = ring + band.ring * band.image_row;
    const BFloat16* from = x + n * shape.x.n;
    int64_t made = clamp_row(first * w.stride[1] - w.pad_begin[1]);
    for (int64_t row = first; row < last; row += band.step) {
      const int64_t end = std::min(last, row + band.step);
      const int64_t top = clamp_row(row * w.stride[1] - w.pad_begin[1]);
      const int64_t bottom =
          clamp_row((end - 1) * w.stride[1] - w.pad_begin[1] + (w.kernel[1] - 1) * w.dilation[1] + 1);
      for (int64_t h = std::max(made, top); h < bottom;) {
        const int64_t slot = h % band.ring, count = std::min(bottom - h, band.ring - slot);
        bfloat16_to_float_n(from + h * shape.x.h, ring + slot * band.image_row, count * band.image_row);
        h += count;
      }
      made = std::max(made, bottom);
      TileOutput out = output;
      out.y = filtered - row * band.output_row;
      depthwise_rows(ring, band.ring, image, weights, out, {row, end, 0, weights.panels()});
      const int64_t offset = (n * w.out[1] + row) * band.output_row;
      store.store(operands,
                  {.data = filtered,
                   .lines = (end - row) * w.out[2],
                   .length = shape.out_channels,
                   .stride = shape.out_channels,
                   .channel = 0,
                   .offset = offset,
                   .output_stride = shape.out_channels},
                  y + offset);
    }
  };
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = all * (i + 1) / pieces;
      for (int64_t at = all * i / pieces; at < end;) {
        const int64_t row = at % w.out[1], count = std::min(end - at, w.out[1] - row);
        rows_of(at / w.out[1], row, row + count, reinterpret_cast<float*>(workspace) + i * band.floats());
        at += count;
      }
    }
  });
}

}  // namespace sparkpilot
