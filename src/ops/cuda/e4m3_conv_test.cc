#include "ops/cuda/e4m3_conv.h"

#include "ops/cuda/conv_reference_test.h"
#include "ops/cuda/e4m3_gemm.h"
#include "ops/cuda/test_codes.h"

namespace sparkpilot::cuda::e4m3_conv_test {
namespace {

const TestStorage& kF32 = kStorages[0];
constexpr const char* kWays[] = {"e4m3_conv_", "e4m3_conv_decoded_"};

std::vector<double> values_of(const std::vector<uint8_t>& codes) {
  std::vector<double> out;
  for (const uint8_t code : codes) out.push_back(value_of(code));
  return out;
}

// y of random codes, with bias and the epilogue "relu, add c[pixel, channel]".
struct Case {
  const TestStorage* storage;  // of y and c
  E4m3ConvArguments p{};
  std::vector<uint8_t> x, weights;  // N, H, W, C; O, C, kernel
  std::vector<double> scales, bias, c;

  Case(const TestStorage& storage, const ConvSizes& size) : storage(&storage) {
    p.size = size;
    p.by = conv_divisors(size);
    const int taps = size.kernel_height * size.kernel_width;
    p.m = static_cast<int>(pixels_of(size)), p.n = size.out_channels, p.k = size.channels * taps;
    p.code_bytes = byte_gemm_depth(p.k);
    x = any_codes(size_of(1LL * size.batch * size.height * size.width * size.channels), 1);
    weights = any_codes(size_of(p.n * p.k), 2);
    scales = kF32.random(size_of(p.n), 3, 1e-4 / std::sqrt(p.k));  // so that y is about 1: codes reach 448
    bias = kF32.random(size_of(p.n), 4, 0.5);
    c = storage.random(size_of(p.m * p.n), 5, 0.5);
  }

  std::vector<double> expected() const {
    std::vector<double> y = convolved(p.size, values_of(x), values_of(weights), {});
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t o = i % size_of(p.n);
      y[i] = std::max(y[i] * scales[o] + bias[o], 0.0) + c[i];
    }
    return y;
  }

  std::string launch(TestRun& run, const std::string& way) const {
    const int taps = p.size.kernel_height * p.size.kernel_width;
    std::vector<uint8_t> rows(size_of(p.n * p.code_bytes));
    for (int o = 0; o < p.n; ++o) {
      for (int i = 0; i < p.k; ++i)
        rows[size_of(o * p.code_bytes + i % taps * p.size.channels + i / taps)] = weights[size_of(o * p.k + i)];
    }
    std::vector<double> kernel_scales = scales;
    for (double& scale : kernel_scales) scale *= static_cast<double>(e4m3_gemm_factor(way == kWays[1]));
    E4m3ConvArguments a = p;
    a.a = static_cast<const uint8_t*>(run.bytes(x.data(), x.size()));
    a.codes = static_cast<const uint8_t*>(run.bytes(rows.data(), rows.size()));
    a.scales = static_cast<const float*>(run.input(kF32, kernel_scales));
    a.bias = static_cast<const float*>(run.input(kF32, bias));
    a.y = run.output(*storage, size_of(p.m * p.n));
    a.storage = storage_of(*storage);
    a.epilogue.count = 2;
    a.epilogue.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::relu};
    a.epilogue.steps[1] = {.kind = EpilogueStep::add,
                           .storage = a.storage,
                           .operand = run.input(*storage, c),
                           .row_stride = p.n,
                           .column_stride = 1};
    const std::string kernel =
        way + std::to_string(byte_conv_unit(p.size)) + "_" + std::to_string(byte_conv_pixels(p.k));
    run.launch(kernel, a, byte_conv_launch(p.m, p.n, p.k));
    return kernel;
  }
};

ConvSizes several(ConvSizes size, int batch) {
  size.batch = batch;
  return size;
}
ConvSizes dilated(int height, int width, int channels, int out_channels, int by) {
  ConvSizes s = same_conv(height, width, channels, out_channels, 3);
  s.dilation_height = s.dilation_width = by;
  s.pad_top = s.pad_left = by - 1;
  s.out_height = height + 2 * s.pad_top - 2 * by, s.out_width = width + 2 * s.pad_left - 2 * by;
  return s;
}

TEST(CudaE4m3Conv, Windows) {
  size_t turn = 0;  // of the storages
  for (const std::string way : kWays) {
    for (const ConvSizes& size :
         {same_conv(9, 7, 48, 37, 1), several(same_conv(5, 6, 16, 20, 3), 2), same_conv(9, 8, 64, 17, 3, 2),
          dilated(11, 9, 32, 18, 2), same_conv(15, 13, 12, 33, 3, 2), several(same_conv(7, 6, 20, 9, 5), 2),
          same_conv(13, 12, 3, 16, 3, 2), same_conv(6, 7, 19, 5, 5), dilated(9, 8, 5, 18, 3)}) {
      const TestStorage& storage = kStorages[turn++ % kStorages.size()];
      const Case test(storage, size);
      TestRun run;
      run.count_traffic();
      const std::string kernel = test.launch(run, way);
      EXPECT_TRUE(run.near(test.expected(), storage.of_small_product(), 1.0))
          << kernel << " " << storage.name << ", " << size.channels << " channels, " << test.p.m << " pixels";
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (!line.shared) continue;
        EXPECT_LE(line.worst_bank, 2) << line.line;
      }
    }
  }
}

// A NaN of the image reaches the pixels whose windows have it, in all channels; of a weight, one channel's.
TEST(CudaE4m3Conv, NanStaysNan) {
  for (const std::string way : kWays) {
    for (const int channels : {16, 4, 3}) {
      Case test(kStorages[1], same_conv(6, 5, channels, 20, 3));
      test.x[size_of((2 * 5 + 1) * channels)] = 0x7f;
      TestRun run;
      test.launch(run, way);
      const std::vector<double> y = run.values();
      for (int pixel = 0; pixel < 30; ++pixel) {
        const bool sees = std::abs(pixel / 5 - 2) <= 1 && std::abs(pixel % 5 - 1) <= 1;
        for (int o = 0; o < 20; ++o) EXPECT_EQ(std::isnan(y[size_of(pixel * 20 + o)]), sees) << way << pixel;
      }
      Case weight(kStorages[1], same_conv(6, 5, channels, 20, 1));
      weight.weights[size_of(7 * channels)] = 0xff;
      TestRun again;
      weight.launch(again, way);
      const std::vector<double> z = again.values();
      for (size_t i = 0; i < z.size(); ++i) EXPECT_EQ(std::isnan(z[i]), i % 20 == 7) << way << i;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::e4m3_conv_test
