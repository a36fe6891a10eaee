#include "ops/cuda/weight_gradient.h"

#include <cmath>

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda::weight_gradient_test {
namespace {

const TestStorage& f32 = kStorages[0];

void check(ConvSizes s, int multiprocessors, bool several_parts) {
  s.groups = s.channels;
  const auto out_size = [](int in, int kernel, int stride, int dilation, int pads) {
    return (in + pads - (kernel - 1) * dilation - 1) / stride + 1;
  };
  s.out_height = out_size(s.height, s.kernel_height, s.stride_height, s.dilation_height, 2 * s.pad_top);
  s.out_width = out_size(s.width, s.kernel_width, s.stride_width, s.dilation_width, 2 * s.pad_left);
  const auto count = [](auto... sizes) { return (size_t{1} * ... * static_cast<size_t>(sizes)); };
  const std::vector<double> x = f32.random(count(s.batch, s.height, s.width, s.channels), 1, 1),
                            dy = f32.random(count(s.batch, s.out_height, s.out_width, s.out_channels), 2, 1);
  std::vector<double> expected(count(s.out_channels, s.kernel_height, s.kernel_width));
  for (int o = 0; o < s.out_channels; ++o) {
    for (int tap = 0; tap < s.kernel_height * s.kernel_width; ++tap) {
      double sum = 0;
      for (int at = 0; at < s.batch * s.out_height * s.out_width; ++at) {
        const int out_x = at % s.out_width, out_y = at / s.out_width % s.out_height,
                  n = at / s.out_width / s.out_height;
        const int h = out_y * s.stride_height - s.pad_top + tap / s.kernel_width * s.dilation_height,
                  w = out_x * s.stride_width - s.pad_left + tap % s.kernel_width * s.dilation_width;
        if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
        sum += x[static_cast<size_t>(((n * s.height + h) * s.width + w) * s.channels +
                                     o / (s.out_channels / s.channels))] *
               dy[static_cast<size_t>(at * s.out_channels + o)];
      }
      expected[static_cast<size_t>(o * s.kernel_height * s.kernel_width + tap)] = sum;
    }
  }
  TestRun run;
  DepthwiseGradientArguments p{};
  p.dw = static_cast<float*>(run.output(f32, expected.size()));
  p.x = static_cast<const float*>(run.input(f32, x));
  p.dy = static_cast<const float*>(run.input(f32, dy));
  p.size = s;
  set_gradient_parts(p, multiprocessors);
  EXPECT_EQ(p.parts > 1, several_parts);
  if (p.parts > 1) p.partial = static_cast<float*>(run.scratch(gradient_partial_bytes(p)));
  run.launch(gradient_kernel(s), p, gradient_launch(p));
  if (p.parts > 1) run.launch("depthwise_gradient_sum_f32", p, gradient_sum_launch(p));
  EXPECT_TRUE(run.near(expected, 1e-5, std::sqrt(s.batch * s.out_height * s.out_width)));
}

TEST(CudaWeightGradient, OddSizes) {
  ConvSizes s{.batch = 2, .height = 9, .width = 11, .channels = 5, .out_channels = 5};
  for (const int kernel : {3, 5, 7}) {
    s.kernel_height = s.kernel_width = kernel;
    s.pad_top = kernel / 2, s.pad_left = 1;
    check(s, 48, false);
  }
  s.kernel_height = 2, s.kernel_width = 4;
  check(s, 48, false);
  s.channels = 33, s.out_channels = 66;
  s.stride_height = 2, s.stride_width = 3, s.dilation_height = 3, s.dilation_width = 2;
  check(s, 48, false);
  s.kernel_width = 3;
  check(s, 48, false);
}

TEST(CudaWeightGradient, InParts) {
  ConvSizes s{.batch = 3, .height = 21, .width = 40, .channels = 35, .out_channels = 35};
  s.kernel_height = s.kernel_width = 3, s.pad_top = s.pad_left = 1;
  check(s, 48, true);
  s.kernel_width = 2;
  check(s, 48, true);
}

TEST(CudaWeightGradient, NanStaysNan) {
  ConvSizes s{.batch = 1, .height = 4, .width = 5, .channels = 2, .out_channels = 2};
  s.out_height = 4, s.out_width = 5, s.groups = 2;
  std::vector<double> x(40, 1), dy(40, 1);
  dy[21] = NAN;
  TestRun run;
  DepthwiseGradientArguments p{};
  p.dw = static_cast<float*>(run.output(f32, 2));
  p.x = static_cast<const float*>(run.input(f32, x));
  p.dy = static_cast<const float*>(run.input(f32, dy));
  p.size = s;
  set_gradient_parts(p, 48);
  run.launch(gradient_kernel(s), p, gradient_launch(p));
  const std::vector<double> dw = run.values();
  EXPECT_EQ(dw[0], 20);
  EXPECT_TRUE(std::isnan(dw[1]));
}

}  // namespace
}  // namespace sparkpilot::cuda::weight_gradient_test
