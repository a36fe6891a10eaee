// The plain convolution in double, and cases, for the tests of kernels.
#pragma once

#include <cmath>
#include <vector>

#include "ops/cuda/convolution.h"
#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda {

inline size_t pixels_of(const ConvSizes& s) {
  return static_cast<size_t>(s.batch) * static_cast<size_t>(s.out_height * s.out_width);
}

// N, H, W, C from N, H, W, C; weights O, I/g, kh, kw; `bias` may be empty.
inline std::vector<double> convolved(const ConvSizes& s, const std::vector<double>& x,
                                     const std::vector<double>& weights, const std::vector<double>& bias) {
  std::vector<double> y;
  y.reserve(pixels_of(s) * static_cast<size_t>(s.out_channels));
  const int in_group = s.channels / s.groups, out_group = s.out_channels / s.groups;
  for (int n = 0; n < s.batch; ++n) {
    for (int at = 0; at < s.out_height * s.out_width; ++at) {
      const int oy = at / s.out_width, ox = at % s.out_width;
      for (int o = 0; o < s.out_channels; ++o) {
        double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
        for (int ky = 0; ky < s.kernel_height; ++ky) {
          for (int kx = 0; kx < s.kernel_width; ++kx) {
            const int iy = oy * s.stride_height - s.pad_top + ky * s.dilation_height;
            const int ix = ox * s.stride_width - s.pad_left + kx * s.dilation_width;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            for (int c = 0; c < in_group; ++c) {
              const int channel = o / out_group * in_group + c;
              sum += x[static_cast<size_t>(((n * s.height + iy) * s.width + ix) * s.channels + channel)] *
                     weights[static_cast<size_t>(((o * in_group + c) * s.kernel_height + ky) * s.kernel_width + kx)];
            }
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

// A convolution with pads that keep the size at stride 1.
inline ConvSizes same_conv(int height, int width, int channels, int out_channels, int kernel, int stride = 1) {
  ConvSizes s;
  s.height = height, s.width = width, s.channels = channels, s.out_channels = out_channels;
  s.kernel_height = s.kernel_width = kernel;
  s.stride_height = s.stride_width = stride;
  s.pad_top = s.pad_left = (kernel - 1) / 2;
  s.out_height = (height + 2 * s.pad_top - kernel) / stride + 1;
  s.out_width = (width + 2 * s.pad_left - kernel) / stride + 1;
  return s;
}

// One of two activations, a residual and a scale a channel, as tests have them: GELU of the sums, times a channel's
// scale, plus the residual.
struct TestEpilogue {
  std::vector<double> scale, residual;

  TestEpilogue(const TestStorage& storage, size_t rows, size_t channels)
      : scale(TestStorage(kStorages[0]).random(channels, 11, 1.0)),
        residual(storage.random(rows * channels, 12, 1.0)) {}

  Epilogue steps(TestRun& run, const TestStorage& storage) const {
    const auto channels = static_cast<long long>(scale.size());
    Epilogue out;
    out.count = 3;
    out.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::gelu_tanh};
    out.steps[1] = {.kind = EpilogueStep::mul,
                    .storage = Storage::f32,
                    .operand = run.input(kStorages[0], scale),
                    .row_stride = 0,
                    .column_stride = 1};
    out.steps[2] = {.kind = EpilogueStep::add,
                    .storage = storage_of(storage),
                    .operand = run.input(storage, residual),
                    .row_stride = channels,
                    .column_stride = 1};
    return out;
  }
  void apply(std::vector<double>& y) const {
    for (size_t i = 0; i < y.size(); ++i) {
      const double x = y[i], gelu = 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
      y[i] = gelu * scale[i % scale.size()] + residual[i];
    }
  }
};

}  // namespace sparkpilot::cuda
