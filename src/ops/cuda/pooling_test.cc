#include "ops/cuda/pooling.h"

#include <cmath>

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda::pooling_test {
namespace {

size_t image_at(const PoolArguments& p, int n, int c, int y, int x) {
  return static_cast<size_t>(p.channels_first ? ((n * p.channels + c) * p.height + y) * p.width + x
                                              : ((n * p.height + y) * p.width + x) * p.channels + c);
}

double pooled(const PoolArguments& p, const std::vector<double>& x, int n, int c, int oy, int ox) {
  double sum = 0, top = -INFINITY;
  int taps = 0, padded = 0;
  for (int ky = 0; ky < p.kernel_height; ++ky) {
    for (int kx = 0; kx < p.kernel_width; ++kx) {
      const int y = oy * p.stride_height - p.pad_top + ky * p.dilation_height;
      const int at = ox * p.stride_width - p.pad_left + kx * p.dilation_width;
      padded += y < p.height + p.pad_bottom && at < p.width + p.pad_right;
      if (y < 0 || y >= p.height || at < 0 || at >= p.width) continue;
      const double v = x[image_at(p, n, c, y, at)];
      ++taps;
      sum += v;
      top = std::isnan(v) || std::isnan(top) ? NAN : std::max(top, v);
    }
  }
  return p.average ? sum / (p.count_padding ? padded : taps) : top;
}

std::vector<double> pooled(const PoolArguments& p, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(p.batch * p.channels * p.out_height * p.out_width));
  for (size_t i = 0; i < y.size(); ++i) {
    int rest = static_cast<int>(i);
    const auto taken = [&](int size) {
      const int now = rest % size;
      rest /= size;
      return now;
    };
    int c = 0;
    if (!p.channels_first) c = taken(p.channels);
    const int ox = taken(p.out_width), oy = taken(p.out_height);
    if (p.channels_first) c = taken(p.channels);
    y[i] = pooled(p, x, rest, c, oy, ox);
  }
  return y;
}

void check(PoolArguments p, const TestStorage& storage, bool global, bool nan) {
  if (global) {
    p.kernel_height = p.height, p.kernel_width = p.width, p.out_height = p.out_width = 1;
    p.stride_height = p.stride_width = p.dilation_height = p.dilation_width = 1;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 0;
  }
  std::vector<double> x = storage.random(static_cast<size_t>(p.batch * p.channels * p.height * p.width), 1, 2.0);
  if (nan) x[x.size() / 2] = NAN;
  const std::vector<double> expected = pooled(p, x);
  TestRun run;
  p.x = run.input(storage, x);
  p.y = run.output(storage, expected.size());
  const std::string kernel = global ? global_pool_kernel(p, storage_of(storage)) : pool_kernel(p, storage_of(storage));
  run.launch(kernel, p, global ? global_pool_launch(p, storage_of(storage)) : pool_launch(p, storage_of(storage)));
  if (!nan) {
    EXPECT_TRUE(run.near(expected, storage.tolerance(p.average ? 2e-6 : 0), p.average ? 1.0 : 0.0)) << kernel;
    return;
  }
  const std::vector<double> y = run.values();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), std::isnan(expected[i])) << kernel << " " << i;
}

PoolArguments uneven(int channels) {
  PoolArguments p{};
  p.batch = 2, p.height = 7, p.width = 6, p.channels = channels;
  p.kernel_height = 3, p.kernel_width = 2, p.stride_height = 2, p.stride_width = 3, p.dilation_height = 2;
  p.pad_top = 1, p.pad_left = 1, p.pad_bottom = 2, p.pad_right = 0;
  p.out_height = 4, p.out_width = 3;  // the last column begins inside, and ends beyond the padding
  return p;
}

TEST(CudaPooling, AllLayoutsAndKinds) {
  for (const TestStorage& storage : kStorages) {
    for (const int channels : {24, 5, 40}) {
      for (const int kind : {0, 1, 2}) {
        for (const bool first : {false, true}) {
          PoolArguments p = uneven(channels);
          p.channels_first = first, p.average = kind > 0, p.count_padding = kind > 1;
          for (const bool nan : {false, true}) check(p, storage, false, nan);
          if (kind == 2) continue;
          for (const bool nan : {false, true}) check(p, storage, true, nan);
        }
      }
    }
  }
}

TEST(CudaPooling, Traffic) {
  for (const TestStorage& storage : kStorages) {
    for (const bool global : {false, true}) {
      PoolArguments p{};
      p.height = 8, p.width = 8, p.channels = 64;
      p.kernel_height = p.kernel_width = p.stride_height = p.stride_width = 2;
      p.out_height = p.out_width = global ? 1 : 4;
      p.average = true;
      TestRun run;
      run.count_traffic();
      p.x = run.input(storage, storage.random(8 * 8 * 64, 1, 1.0));
      p.y = run.output(storage, static_cast<size_t>(p.out_height * p.out_width * 64));
      const Storage s = storage_of(storage);
      run.launch(global ? global_pool_kernel(p, s) : pool_kernel(p, s), p,
                 global ? global_pool_launch(p, s) : pool_launch(p, s));
      run.values();
      for (const auto& line : run.traffic()) {
        EXPECT_LE(line.worst_bank, 1) << line.line;
        EXPECT_GE(line.used(), 0.9) << line.line;
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::pooling_test
