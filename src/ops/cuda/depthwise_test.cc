#include "ops/cuda/depthwise.h"

#include "ops/cuda/conv_reference_test.h"

namespace sparkpilot::cuda::depthwise_test {
namespace {

// Puts the case's memory and launch into `run`; what the output should be.
std::vector<double> prepare(TestRun& run, const ConvSizes& s, const TestStorage& storage, const std::string& kernel,
                            const KernelLaunch& launch, bool with_epilogue, bool with_nan = false) {
  const auto channels = static_cast<size_t>(s.out_channels);
  const size_t depth = static_cast<size_t>(s.kernel_height * s.kernel_width * (s.channels / s.groups));
  std::vector<double> x = storage.random(static_cast<size_t>(s.batch * s.height * s.width * s.channels), 1, 1.0);
  if (with_nan) x[x.size() / 2] = NAN;
  const std::vector<double> weights = storage.random(channels * depth, 2, 1 / std::sqrt(static_cast<double>(depth)));
  const std::vector<double> bias = kStorages[0].random(channels, 3, 0.5);
  std::vector<uint8_t> plain(weights.size() * storage.bytes()), packed(grouped_weight_bytes(s, storage_of(storage)));
  for (size_t i = 0; i < weights.size(); ++i)
    store_element(storage.dtype, plain.data(), static_cast<int64_t>(i), weights[i]);
  pack_grouped_weights(s, storage_of(storage), plain.data(), packed.data());
  ConvArguments p{};
  p.size = s;
  p.by = conv_divisors(s);
  p.x = run.input(storage, x);
  p.weights = run.bytes(packed.data(), packed.size());
  std::vector<float> packed_bias(bias.begin(), bias.end());
  if (kernel.starts_with("depthwise")) packed_bias = packed_depthwise_bias(s, storage_of(storage), packed_bias.data());
  p.bias = static_cast<const float*>(run.bytes(packed_bias.data(), packed_bias.size() * sizeof(float)));
  p.y = run.output(storage, pixels_of(s) * channels);
  std::vector<double> expected = convolved(s, x, weights, bias);
  if (with_epilogue) {
    const TestEpilogue epilogue(storage, pixels_of(s), channels);
    p.epilogue = epilogue.steps(run, storage);
    epilogue.apply(expected);
  }
  run.launch(kernel, p, launch);
  return expected;
}

using Way = DepthwisePlan::Way;

ConvSizes depthwise(int height, int width, int channels, int kernel, int stride = 1, int filters = 1) {
  ConvSizes s = same_conv(height, width, channels, filters * channels, kernel, stride);
  s.groups = channels;
  return s;
}

void check(const ConvSizes& s, const TestStorage& storage, const DepthwisePlan& plan, bool with_epilogue) {
  ASSERT_TRUE(depthwise_accepts(s, storage_of(storage)));
  TestRun run;
  const std::string name = plan.name(storage_of(storage));
  const std::vector<double> expected =
      prepare(run, s, storage, name, plan.launch(s, storage_of(storage)), with_epilogue);
  EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6), 1.0)) << name;
}

TEST(CudaDepthwise, KernelsAtOddSizes) {
  for (const TestStorage& storage : kStorages) {
    for (const int kernel : {3, 5, 7}) {
      const Way strips = storage.dtype != DType::f32 && kernel != 5 ? DepthwisePlan::strips : DepthwisePlan::pixels;
      check(depthwise(5, 9, 24, kernel), storage, {kernel, strips}, true);
      check(depthwise(3, 2, 8, kernel), storage, {kernel, strips}, false);
      ConvSizes dilated = depthwise(7, 8, 8, kernel);
      dilated.batch = 2, dilated.dilation_width = 2, dilated.pad_left = kernel - 1;
      for (const Way way : {DepthwisePlan::pixels, DepthwisePlan::rows}) {
        check(depthwise(9, 6, 40, kernel, 2), storage, {kernel, way}, true);
        check(dilated, storage, {kernel, way}, false);
      }
    }
  }
}

TEST(CudaDepthwise, TwoFiltersForEachChannel) {
  for (const TestStorage& storage : kStorages) {
    for (const int kernel : {3, 5, 7}) {
      const DepthwisePlan plan{kernel, DepthwisePlan::rows, 2};
      check(depthwise(5, 7, 24, kernel, 2, 2), storage, plan, true);
      check(depthwise(3, 2, 8, kernel, 1, 2), storage, plan, false);
      const std::vector<DepthwisePlan> plans = depthwise_plans(depthwise(5, 7, 24, kernel, 2, 2), Storage::f32, 48);
      ASSERT_EQ(plans.size(), 1u);
      EXPECT_EQ(plans[0].name(Storage::f32), plan.name(Storage::f32));
    }
    EXPECT_FALSE(depthwise_accepts(depthwise(5, 7, 24, 3, 1, 4), storage_of(storage)));
  }
}

TEST(CudaDepthwise, Groups) {
  for (const TestStorage& storage : kStorages) {
    ConvSizes multiplied = same_conv(5, 4, 3, 6, 3), few = same_conv(5, 4, 10, 15, 3, 2),
              odd = same_conv(4, 3, 7, 7, 5);
    multiplied.groups = 3, few.groups = 5, odd.groups = 7, few.batch = 2;
    ConvSizes uneven = depthwise(8, 7, 16, 4, 3);  // a kernel that no other takes
    uneven.kernel_width = 1, uneven.pad_left = 0, uneven.out_width = 3, uneven.out_height = 3;
    EXPECT_FALSE(depthwise_accepts(uneven, storage_of(storage)));
    const ConvSizes one = same_conv(5, 4, 10, 15, 3);
    for (const ConvSizes& s : {multiplied, few, odd, uneven, one}) {
      ASSERT_TRUE(grouped_accepts(s));
      TestRun run;
      const std::vector<double> expected = prepare(run, s, storage, "grouped_" + storage.name, grouped_launch(s), true);
      EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6), 1.0)) << s.groups << " groups";
    }
  }
}

TEST(CudaDepthwise, NanReachesItsWindowOnly) {
  for (const TestStorage& storage : kStorages) {
    const Way strips = storage.dtype != DType::f32 ? DepthwisePlan::strips : DepthwisePlan::pixels;
    for (const DepthwisePlan& plan :
         {DepthwisePlan{3, strips}, DepthwisePlan{3, DepthwisePlan::pixels}, DepthwisePlan{3, DepthwisePlan::rows}}) {
      TestRun run;
      const ConvSizes s = depthwise(6, 7, 8, 3);
      const std::vector<double> expected =
          prepare(run, s, storage, plan.name(storage_of(storage)), plan.launch(s, storage_of(storage)), true, true);
      const std::vector<double> y = run.values();
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), std::isnan(expected[i])) << i;
    }
  }
}

// All global memory is moved in whole sectors, 8 or 16 bytes a thread; shared memory without conflicts of banks.
TEST(CudaDepthwise, Traffic) {
  for (const TestStorage& storage : kStorages) {
    for (const Way way : {DepthwisePlan::pixels, DepthwisePlan::strips, DepthwisePlan::rows}) {
      if (way == DepthwisePlan::strips && storage.dtype == DType::f32) continue;
      TestRun run;
      run.count_traffic();
      const ConvSizes s = depthwise(8, 16, 64, 3);
      const DepthwisePlan plan{3, way};
      prepare(run, s, storage, plan.name(storage_of(storage)), plan.launch(s, storage_of(storage)), false);
      run.values();
      int wide = 0;
      for (const auto& line : run.traffic()) {
        EXPECT_LE(line.worst_bank, 1) << line.line;
        if (line.shared || line.bytes < line.requests * 32 * 8) continue;
        ++wide;
        EXPECT_GE(line.used(), 0.9) << line.line;
      }
      EXPECT_GE(wide, way == DepthwisePlan::rows ? 1 : 2);  // which loads both in one line
    }
  }
}

TEST(CudaDepthwise, RowsWhereTheGpuHoldsThem) {
  const auto way = [](const ConvSizes& s, int multiprocessors) {
    return plan_depthwise(s, Storage::f16, multiprocessors).way;
  };
  EXPECT_EQ(way(depthwise(8, 16, 256, 7), 48), DepthwisePlan::rows);
  EXPECT_EQ(way(depthwise(32, 64, 64, 7), 132), DepthwisePlan::rows);
  EXPECT_EQ(way(depthwise(32, 64, 64, 7), 48), DepthwisePlan::strips);
  EXPECT_EQ(way(depthwise(64, 128, 128, 7, 2), 48), DepthwisePlan::pixels);
  EXPECT_EQ(way(depthwise(64, 128, 64, 5), 48), DepthwisePlan::pixels);
}

}  // namespace
}  // namespace sparkpilot::cuda::depthwise_test
