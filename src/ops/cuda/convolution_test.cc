#include "ops/cuda/convolution.h"

#include <algorithm>

#include "ops/cuda/conv_reference_test.h"

namespace sparkpilot::cuda::convolution_test {
namespace {

struct ConvTest {
  ConvSizes size;
  ConvPlan plan;
  bool planes = false, epilogue = false;
  ImageStorage image = ImageStorage::own;
  bool image_has_nan = false;
};

ConvPlan tile(int pixels, int channels, int splits = 1) {
  for (const ConvTile& t : kConvTiles) {
    if (t.pixels == pixels && t.channels == channels) return {t, splits, true};
  }
  return {};
}
const ConvPlan kElements{kConvElementTile, 1, false};

const void* packed(TestRun& run, const ConvSizes& size, const TestStorage& storage,
                   const std::vector<double>& weights) {
  std::vector<uint8_t> plain(weights.size() * storage.bytes()), bytes(conv_weight_bytes(size, storage_of(storage)));
  for (size_t i = 0; i < weights.size(); ++i)
    store_element(storage.dtype, plain.data(), static_cast<int64_t>(i), weights[i]);
  pack_conv_weights(size, storage_of(storage), plain.data(), bytes.data());
  return run.bytes(bytes.data(), bytes.size());
}

struct Prepared {
  std::vector<double> expected;
};

Prepared prepare(TestRun& run, const ConvTest& test, const TestStorage& storage) {
  const ConvSizes& s = test.size;
  const size_t image = static_cast<size_t>(s.height * s.width * s.channels), outputs = pixels_of(s);
  const auto channels = static_cast<size_t>(s.out_channels);
  const size_t depth = static_cast<size_t>(s.kernel_height * s.kernel_width * s.channels);
  const bool bytes = test.image == ImageStorage::bytes || test.image == ImageStorage::bytes_together;
  const TestStorage& image_storage = test.image == ImageStorage::f32 ? kStorages[0] : storage;
  std::vector<double> x = image_storage.random(image * static_cast<size_t>(s.batch), 1, 1.0);
  for (double& v : x) v = bytes ? std::min(std::floor(std::fabs(v * 80)), 255.0) : v;
  if (test.image_has_nan) x[x.size() / 2] = NAN;
  const double deviation = 1 / std::sqrt(static_cast<double>(depth)) / (bytes ? 80 : 1);
  const std::vector<double> weights = storage.random(channels * depth, 2, deviation);
  const std::vector<double> bias = kStorages[0].random(channels, 3, 0.5);

  ConvArguments p{};
  p.size = s;
  p.by = conv_divisors(s);
  p.splits = test.plan.splits;
  p.constant_weights = test.epilogue;  // either way
  std::vector<double> stored = x;
  p.x_image = static_cast<long long>(image), p.x_row = s.width * s.channels;
  p.x_column = s.channels, p.x_channel = 1;
  if (test.planes) {
    p.x_row = s.width, p.x_column = 1, p.x_channel = s.height * s.width;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % static_cast<size_t>(s.channels), at = i / static_cast<size_t>(s.channels);
      const auto plane = static_cast<size_t>(s.height * s.width);
      stored[at / plane * image + c * plane + at % plane] = x[i];
    }
  }
  p.x_storage = test.image;
  if (bytes) {
    const std::vector<uint8_t> all(stored.begin(), stored.end());
    p.x = run.bytes(all.data(), all.size());
  } else {
    p.x = run.input(image_storage, stored);
    for (double& v : x) v = storage.rounded(v);
  }
  p.weights = packed(run, s, storage, weights);
  p.bias = static_cast<const float*>(run.input(kStorages[0], bias));
  p.y = run.output(storage, outputs * channels);
  if (p.splits > 1) p.partial = static_cast<float*>(run.scratch(test.plan.partial_bytes(s)));
  Prepared out{convolved(s, x, weights, bias)};
  if (test.epilogue) {
    const TestEpilogue epilogue(storage, outputs, channels);
    p.epilogue = epilogue.steps(run, storage);
    epilogue.apply(out.expected);
  }
  const std::string kernel = test.plan.kernel(storage_of(storage));
  if (test.plan.direct) run.launch(kernel, direct_gemm_of(p), test.plan.launch(s));
  else run.launch(kernel, p, test.plan.launch(s));
  if (p.splits > 1) run.launch("conv_sum_" + storage.name, p, conv_sum_launch(s));
  return out;
}

void check(const ConvTest& test, const TestStorage& storage) {
  TestRun run;
  const Prepared prepared = prepare(run, test, storage);
  const ConvSizes& s = test.size;
  EXPECT_TRUE(run.near(prepared.expected, storage.tolerance(2e-6), 1.0))
      << test.plan.kernel(storage_of(storage)) << " " << s.height << "x" << s.width << "x" << s.channels << " to "
      << s.out_channels << ", kernel " << s.kernel_height << "x" << s.kernel_width;
}

bool has(const ConvPlan& plan, const TestStorage& storage) {
  return kernels_by_name().count(plan.kernel(storage_of(storage))) > 0;
}

TEST(CudaConvolution, TilesAtOddSizes) {
  ConvSizes uneven = same_conv(6, 9, 16, 21, 3);
  uneven.batch = 2, uneven.kernel_width = 2, uneven.stride_width = 2, uneven.dilation_height = 2;
  uneven.pad_top = 3, uneven.pad_left = 0, uneven.out_height = 7, uneven.out_width = 5;
  const ConvSizes sizes[] = {uneven, same_conv(5, 7, 24, 40, 1), same_conv(9, 11, 8, 65, 3, 2),
                             same_conv(1, 1, 72, 1, 1)};
  for (const TestStorage& storage : kStorages) {
    for (const ConvTile& t : kConvTiles) {
      const ConvPlan plan = tile(t.pixels, t.channels);
      if (!has(plan, storage)) continue;
      for (const ConvSizes& size : sizes) check({.size = size, .plan = plan}, storage);
    }
  }
}

TEST(CudaConvolution, AsAProduct) {
  ConvSizes covered = same_conv(3, 2, 16, 21, 1);  // the kernel covers the image
  covered.batch = 5, covered.kernel_height = 3, covered.kernel_width = 2, covered.out_height = covered.out_width = 1;
  ConvSizes two = same_conv(5, 7, 24, 40, 1);
  two.batch = 2;
  for (const TestStorage& storage : kStorages) {
    if (storage.dtype == DType::f32) continue;
    for (const DirectGemmPlan& direct : kDirectGemmPlans) {
      for (const ConvSizes& size : {covered, two}) {
        ASSERT_TRUE(conv_is_product(size));
        check({.size = size, .plan = {.direct = direct}, .epilogue = true}, storage);
      }
    }
  }
  for (const ConvSizes& size : {same_conv(5, 7, 24, 40, 3), same_conv(5, 7, 24, 40, 1, 2), same_conv(5, 7, 20, 40, 1)})
    EXPECT_FALSE(conv_is_product(size));
  ConvSizes wider = covered;
  wider.pad_left = 1, wider.kernel_width = 3;
  EXPECT_FALSE(conv_is_product(wider));
}

TEST(CudaConvolution, EpilogueAndSplits) {
  for (const TestStorage& storage : kStorages) {
    for (const int splits : {1, 3}) {
      check({.size = same_conv(5, 9, 40, 36, 3), .plan = tile(32, 32, splits), .epilogue = true}, storage);
      check({.size = same_conv(5, 9, 40, 37, 3), .plan = tile(16, 16, splits), .epilogue = true}, storage);
      check({.size = same_conv(5, 9, 40, 35, 3), .plan = tile(64, 64, splits), .epilogue = true}, storage);
    }
  }
}

TEST(CudaConvolution, AnyChannels) {
  ConvSizes uneven = same_conv(6, 9, 5, 21, 3);
  uneven.batch = 2, uneven.kernel_width = 2, uneven.stride_width = 2, uneven.dilation_height = 2;
  uneven.pad_top = 3, uneven.pad_left = 0, uneven.out_height = 7, uneven.out_width = 5;
  for (const TestStorage& storage : kStorages) {
    for (const bool planes : {false, true}) {
      for (const ImageStorage image : {ImageStorage::own, ImageStorage::f32, ImageStorage::bytes}) {
        check({.size = uneven, .plan = kElements, .planes = planes, .image = image}, storage);
        check({.size = same_conv(13, 12, 12, 33, 3, 2), .plan = kElements, .planes = planes, .image = image}, storage);
      }
    }
    check({.size = same_conv(11, 9, 24, 33, 3, 2), .plan = kElements, .image = ImageStorage::bytes_together}, storage);
    ConvPlan split = kElements;
    split.splits = 2;
    check({.size = same_conv(6, 5, 3, 10, 7), .plan = split, .planes = true, .epilogue = true}, storage);
  }
}

TEST(CudaConvolution, NanReachesItsWindowOnly) {
  for (const TestStorage& storage : kStorages) {
    for (const ConvPlan& plan : {tile(32, 32), tile(32, 32, 2), tile(16, 16), kElements}) {
      TestRun run;
      const Prepared prepared =
          prepare(run, {.size = same_conv(7, 7, 32, 9, 3), .plan = plan, .image_has_nan = true}, storage);
      const std::vector<double> y = run.values();
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), std::isnan(prepared.expected[i])) << i;
    }
  }
}

// Weights are read in whole sectors, 16 bytes a thread, and no bank of shared memory is asked for twice at once.
// Without pads: requests are counted by how often each thread came to a line, and a thread that reads nothing, but
// writes zeros, would be counted with others' next requests.
TEST(CudaConvolution, Traffic) {
  ConvSizes size = same_conv(6, 18, 64, 64, 3);
  size.pad_top = size.pad_left = 0, size.out_height = 4, size.out_width = 16;
  const auto test = [&](const ConvPlan& plan, const TestStorage& storage) {
    TestRun run;
    run.count_traffic();
    prepare(run, {.size = size, .plan = plan, .epilogue = true}, storage);
    run.values();
    int copies = 0;
    for (const auto& line : run.traffic()) {
      EXPECT_LE(line.worst_bank, 1) << line.line;
      // Copies to shared memory are counted at both ends, so their bytes are twice those of the sectors.
      if (line.line.find("conv_tile.cuh") == std::string::npos || line.requests == 0 || line.used() <= 1) continue;
      if (line.bytes / line.requests < 256) continue;  // the bias
      ++copies;
      EXPECT_GT(line.bytes, line.requests * 32 * 15) << line.line;
      EXPECT_GE(line.used(), 2 * 0.9) << line.line;
    }
    EXPECT_GE(copies, plan.pieces ? 2 : 1);
  };
  for (const TestStorage& storage : {kStorages[0], kStorages[1]}) {
    test(tile(32, 32), storage);
    test(kElements, storage);
  }
  test(tile(128, 64), kStorages[1]);
  test(tile(64, 64), kStorages[2]);
}

TEST(CudaConvolution, AcceptsWhatFitsIntoAnInt) {
  const ConvSizes size = same_conv(128, 256, 12, 32, 3, 2);
  EXPECT_TRUE(conv_accepts(size));
  EXPECT_FALSE(conv_pieces_accepts(size, Storage::f16));
  EXPECT_TRUE(conv_pieces_accepts(size, Storage::f32));
  ConvSizes grouped = size;
  grouped.groups = 4;
  EXPECT_FALSE(conv_accepts(grouped));
  EXPECT_FALSE(conv_accepts(same_conv(30000, 30000, 8, 8, 1)));
  EXPECT_EQ(conv_weight_bytes(size, Storage::f16), 4U * 32 * 64);  // 108 elements of depth are 4 slices of 32
}

TEST(CudaConvolution, PlansFillTheGpu) {
  for (const Storage storage : {Storage::f32, Storage::f16}) {
    for (const int multiprocessors : {48, 128, 132, 170}) {
      for (const ConvSizes& size :
           {same_conv(32, 64, 64, 64, 3), same_conv(8, 16, 256, 256, 3), same_conv(64, 128, 32, 32, 3),
            same_conv(128, 256, 16, 32, 1), same_conv(1, 1, 2048, 1024, 1)}) {
        const ConvPlan plan = plan_conv(size, storage, multiprocessors);
        const KernelLaunch launch = plan.launch(size);
        EXPECT_GE(launch.grid_x * launch.grid_y * launch.grid_z * 2, static_cast<unsigned>(multiprocessors))
            << size.height << "x" << size.width << "x" << size.channels << " to " << size.out_channels;
      }
    }
  }
}

// A second launch would cost more than a few idle multiprocessors.
TEST(CudaConvolution, ShortOnesAreNotSplit) {
  EXPECT_EQ(plan_conv(same_conv(8, 12, 240, 80, 1), Storage::f16, 48).splits, 1);
  const ConvPlan deep = plan_conv(same_conv(8, 12, 2400, 80, 1), Storage::f16, 48);
  EXPECT_TRUE(deep.splits == 1 && deep.tile.by_depth());
  EXPECT_GT(plan_conv(same_conv(8, 12, 1072, 80, 3), Storage::f16, 48).splits, 1);
}

}  // namespace
}  // namespace sparkpilot::cuda::convolution_test
