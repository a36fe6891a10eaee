#include "ops/cuda/conv_chain.h"

#include "ops/cuda/conv_reference_test.h"

namespace sparkpilot::cuda {
namespace {

struct Chain {
  ConvSizes depthwise, last;
};

Chain chain(int height, int width, int channels, int out_channels, int kernel, int stride = 1) {
  Chain out{same_conv(height, width, channels, channels, kernel, stride), {}};
  out.depthwise.groups = channels;
  out.last = same_conv(out.depthwise.out_height, out.depthwise.out_width, channels, out_channels, 1);
  return out;
}

// Weights packed by one of the functions that do it, in the memory of `run`.
template <typename Pack>
const void* packed(TestRun& run, const TestStorage& storage, const std::vector<double>& weights, size_t bytes,
                   const Pack& pack) {
  std::vector<uint8_t> plain(weights.size() * storage.bytes()), out(bytes);
  for (size_t i = 0; i < weights.size(); ++i)
    store_element(storage.dtype, plain.data(), static_cast<int64_t>(i), weights[i]);
  pack(plain.data(), out.data());
  return run.bytes(out.data(), out.size());
}

std::vector<double> prepare(TestRun& run, const Chain& c, const TestStorage& storage, const ConvChainPlan& plan,
                            bool between, bool nan = false) {
  const auto channels = static_cast<size_t>(c.last.channels), outputs = static_cast<size_t>(c.last.out_channels);
  const auto taps = static_cast<size_t>(c.depthwise.kernel_height * c.depthwise.kernel_width);
  const size_t image = static_cast<size_t>(c.depthwise.batch * c.depthwise.height * c.depthwise.width) * channels;
  const Storage type = storage_of(storage);
  std::vector<double> x = storage.random(image, 1, 1.0);
  if (nan) x[image / 2] = NAN;
  const std::vector<double> filters = storage.random(channels * taps, 2, 1 / std::sqrt(static_cast<double>(taps)));
  const std::vector<double> weights =
      storage.random(outputs * channels, 3, 1 / std::sqrt(static_cast<double>(channels)));
  const std::vector<double> filter_bias = kStorages[0].random(channels, 4, 0.5);
  const std::vector<double> bias = kStorages[0].random(outputs, 5, 0.5);
  ConvChainArguments p{};
  p.depthwise.size = c.depthwise;
  p.last.size = c.last;
  p.last.splits = plan.splits;
  p.depthwise.x = run.input(storage, x);
  p.depthwise.weights = packed(run, storage, filters, grouped_weight_bytes(c.depthwise, type),
                               [&](auto* from, auto* to) { pack_grouped_weights(c.depthwise, type, from, to); });
  p.depthwise.bias = static_cast<const float*>(run.input(kStorages[0], filter_bias));
  p.last.weights = packed(run, storage, weights, conv_weight_bytes(c.last, type),
                          [&](auto* from, auto* to) { pack_conv_weights(c.last, type, from, to); });
  p.last.bias = static_cast<const float*>(run.input(kStorages[0], bias));
  p.last.y = run.output(storage, pixels_of(c.last) * outputs);
  if (plan.splits > 1) p.last.partial = static_cast<float*>(run.scratch(plan.partial_bytes(c.last)));

  std::vector<double> middle = convolved(c.depthwise, x, filters, filter_bias);
  if (between) {
    const std::vector<double> scale = kStorages[0].random(channels, 6, 1.0);
    p.depthwise.epilogue.count = 2;
    p.depthwise.epilogue.steps[0] = {.kind = EpilogueStep::mul,
                                     .storage = Storage::f32,
                                     .operand = run.input(kStorages[0], scale),
                                     .row_stride = 0,
                                     .column_stride = 1};
    p.depthwise.epilogue.steps[1] = {.kind = EpilogueStep::activation, .function = Activation::relu};
    for (size_t i = 0; i < middle.size(); ++i) {
      middle[i] *= scale[i % channels];
      if (middle[i] < 0) middle[i] = 0;
    }
  }
  for (double& v : middle) v = storage.rounded(v);
  std::vector<double> expected = convolved(c.last, middle, weights, bias);
  const TestEpilogue epilogue(storage, pixels_of(c.last), outputs);
  p.last.epilogue = epilogue.steps(run, storage);
  epilogue.apply(expected);
  run.launch(plan.kernel(type), p, plan.launch(c.last));
  if (plan.splits > 1) run.launch("conv_sum_" + storage.name, p.last, conv_sum_launch(c.last));
  return expected;
}

TEST(CudaConvChain, TilesAtOddSizes) {
  for (const TestStorage& storage : {kStorages[1], kStorages[2]}) {
    for (const ConvTile& tile : kConvChainTiles) {
      for (const int splits : {1, 2}) {
        for (const Chain& c : {chain(5, 7, 72, 36, 3), chain(9, 6, 136, 133, 7, 2), chain(1, 1, 8, 4, 5)}) {
          if (splits > 1 && c.last.channels <= tile.pieces * 8) continue;
          ASSERT_TRUE(conv_chain_accepts(c.depthwise, c.last, storage_of(storage)));
          const ConvChainPlan plan{tile, splits};
          TestRun run;
          const std::vector<double> expected = prepare(run, c, storage, plan, splits == 1);
          // Where fp32 falls to the other side of what is rounded between the stages, the result moves by a part of it.
          EXPECT_TRUE(run.near(expected, storage.tolerance(storage.last_place / 4), 1.0))
              << plan.kernel(storage_of(storage)) << " " << c.last.channels << " to " << c.last.out_channels;
        }
      }
    }
  }
}

TEST(CudaConvChain, NanReachesItsWindowOnly) {
  for (const TestStorage& storage : {kStorages[1], kStorages[2]}) {
    TestRun run;
    const Chain c = chain(7, 7, 32, 9, 3);
    const std::vector<double> expected = prepare(run, c, storage, {}, true, true), y = run.values();
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), std::isnan(expected[i])) << i;
  }
}

// Whole sectors, 16 bytes a thread, and no conflict of banks.
TEST(CudaConvChain, Traffic) {
  for (const ConvTile& tile : kConvChainTiles) {
    TestRun run;
    run.count_traffic();
    const ConvChainPlan plan{tile, 1};
    prepare(run, chain(4, 8, tile.pieces * 8, 128, 3), kStorages[1], plan, true);
    run.values();
    for (const auto& line : run.traffic()) {
      EXPECT_LE(line.worst_bank, 1) << line.line;
      if (line.sectors == 0 || line.bytes < line.requests * 32 * 8) continue;
      EXPECT_GE(line.used(), 0.9) << line.line;
    }
  }
}

TEST(CudaConvChain, PlansFillTheGpu) {
  for (const Chain& c : {chain(32, 64, 64, 64, 7), chain(8, 16, 512, 128, 7), chain(64, 128, 32, 32, 3)}) {
    const KernelLaunch launch = plan_conv_chain(c.depthwise, c.last, 48).launch(c.last);
    EXPECT_GE(launch.grid_x * launch.grid_y * launch.grid_z * 2, 48U) << c.last.channels;
    EXPECT_LE(launch.shared_bytes, 48U * 1024);
  }
}

// A second launch would cost more than a few idle multiprocessors.
TEST(CudaConvChain, ShortOnesAreNotSplit) {
  const auto splits = [](const Chain& c) { return plan_conv_chain(c.depthwise, c.last, 48).splits; };
  EXPECT_EQ(splits(chain(20, 10, 480, 80, 3)), 1);
  EXPECT_GT(splits(chain(4, 6, 1152, 192, 5)), 1);
}

}  // namespace
}  // namespace sparkpilot::cuda
