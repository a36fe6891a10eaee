#include "ops/cuda/nvfp4_gemm.h"

#include <cmath>

#include "ops/cuda/test_products.h"
#include "tensor/small_floats.h"

namespace sparkpilot::cuda::nvfp4_gemm_test {
namespace {

const TestStorage& kF32 = kStorages[0];

// y of random a and weights in NVFP4, with bias and the epilogue "relu, add c[row, column]".
struct Case {
  const TestStorage& storage;
  int m, n, k;
  long long a_stride;
  float input_scale;
  std::vector<double> a, scales, bias, c, weights;
  std::vector<uint32_t> words;
  std::vector<uint8_t> blocks;

  Case(const TestStorage& storage, int m, int n, int k, int beyond = 0)
      : storage(storage), m(m), n(n), k(k), a_stride(k + beyond) {
    const int64_t row_words = scaled_code_words(SmallCodes::nvfp4, k);
    const int64_t row_blocks = scaled_block_bytes(SmallCodes::nvfp4, k);
    Random random(7);
    a = storage.random(size_of(m * a_stride), 1, 1.0);
    for (size_t i = 0; i < a.size(); ++i) a[i] = storage.rounded(a[i] * std::exp2(static_cast<double>(i / 16 % 9) - 6));
    input_scale = fp4_scale(3);  // some saturate
    scales = kF32.random(size_of(n), 2, 0.002 / std::sqrt(k));
    bias = kF32.random(size_of(n), 3, 0.5);
    c = storage.random(size_of(m * n), 4, 0.5);
    weights.resize(size_of(n * k));
    words.resize(size_of(n * row_words));
    blocks.resize(size_of(n * row_blocks));
    for (int j = 0; j < n; ++j) {
      for (int64_t b = 0; b < row_blocks; ++b)
        blocks[size_of(j * row_blocks + b)] = static_cast<uint8_t>(random.integer(0, 0x7e));
      std::vector<uint8_t> codes(size_of(row_words * 8));
      for (int l = 0; l < k; ++l) {
        codes[size_of(l)] = static_cast<uint8_t>(random.integer(0, 15));
        weights[size_of(j * k + l)] = static_cast<double>(e2m1_to_float(codes[size_of(l)])) *
                                      static_cast<double>(e4m3_to_float(blocks[size_of(j * row_blocks + l / 16)])) *
                                      scales[size_of(j)];
      }
      for (int64_t w = 0; w < row_words; ++w)
        words[size_of(j * row_words + w)] = packed_codes(SmallCodes::nvfp4, codes.data() + w * 8);
    }
  }

  // Row i of a as the kernel is to take it.
  std::vector<double> rounded(int i) const {
    std::vector<double> out;
    const double* const row = a.data() + i * a_stride;
    for (int first = 0; first < k; first += 16) {
      float largest = 0;
      for (int l = first; l < std::min(first + 16, k); ++l)
        largest = larger_magnitude(largest, static_cast<float>(row[l]));
      const float step = fp4_step(largest, input_scale);
      for (int l = first; l < std::min(first + 16, k); ++l)
        out.push_back(static_cast<double>(round_to_fp4(static_cast<float>(row[l]), step)));
    }
    return out;
  }
  std::vector<double> expected() const {
    std::vector<double> out;
    for (int i = 0; i < m; ++i) {
      const std::vector<double> row = rounded(i);
      for (int j = 0; j < n; ++j) {
        double sum = bias[size_of(j)];
        for (int l = 0; l < k; ++l) sum += row[size_of(l)] * weights[size_of(j * k + l)];
        out.push_back(std::max(sum, 0.0) + c[size_of(i * n + j)]);
      }
    }
    return out;
  }

  void launch(TestRun& run) const {
    std::vector<double> both = scales;
    for (double& scale : both) scale *= static_cast<double>(input_scale);
    Nvfp4GemmArguments p{};
    p.a = run.input(storage, a);
    p.codes = static_cast<const uint32_t*>(run.bytes(words.data(), words.size() * 4));
    p.block_scales = static_cast<const uint8_t*>(run.bytes(blocks.data(), blocks.size()));
    p.scales = static_cast<const float*>(run.input(kF32, both));
    p.bias = static_cast<const float*>(run.input(kF32, bias));
    p.y = run.output(storage, size_of(m * n));
    p.m = m, p.n = n, p.k = k;
    p.code_stride = scaled_code_words(SmallCodes::nvfp4, k);
    p.block_stride = scaled_block_bytes(SmallCodes::nvfp4, k);
    p.a_stride = a_stride, p.y_stride = n;
    p.input_scale = input_scale, p.six_scales = kLargestE2m1 * input_scale;
    p.epilogue = relu_then_add(storage, run.input(storage, c), n);
    const int rows = scaled_gemm_rows(m);
    run.launch("nvfp4_gemm_" + storage.name + "_" + std::to_string(rows), p, scaled_gemm_launch(p, rows));
  }
};

TEST(CudaNvfp4Gemm, RoundsItsRowsAndMultiplies) {
  for (const TestStorage& storage : kStorages) {
    for (const auto& [m, n, k, beyond] : std::vector<std::tuple<int, int, int, int>>{{1, 1, 1, 0},
                                                                                     {1, 33, 517, 0},
                                                                                     {8, 17, 264, 0},
                                                                                     {3, 20, 77, 3},
                                                                                     {9, 16, 1030, 2},
                                                                                     {33, 9, 31, 0},
                                                                                     {70, 18, 144, 8}}) {
      const Case test(storage, m, n, k, beyond);
      TestRun run;
      test.launch(run);
      EXPECT_TRUE(run.near(test.expected(), storage.of_small_product(), 1.0))
          << storage.name << " " << m << " x " << n << " x " << k;
    }
  }
}

TEST(CudaNvfp4Gemm, DeepRows) {
  const Case test(kF32, 8, 16, 16384);
  TestRun run;
  test.launch(run);
  EXPECT_TRUE(run.near_in_norm(test.expected(), 1e-6));
}

// Each pair of a code and the place of its block in the four that mma takes, exactly: one weight at a time is not 0.
TEST(CudaNvfp4Gemm, EveryPlaceInDepth) {
  constexpr int kDepth = 64;
  Case test(kF32, kDepth, kDepth, kDepth);
  test.input_scale = 1;
  std::fill(test.bias.begin(), test.bias.end(), 8192);  // so that relu leaves it
  std::fill(test.c.begin(), test.c.end(), -8192);
  std::fill(test.scales.begin(), test.scales.end(), 1);
  std::fill(test.words.begin(), test.words.end(), 0);
  // Row l of the weights has one number, at depth l; row i of a has one at i.
  for (int l = 0; l < kDepth; ++l) {
    uint8_t codes[kDepth] = {};
    codes[l] = static_cast<uint8_t>(l % 16);
    for (int w = 0; w < kDepth / 8; ++w)
      test.words[size_of(l * kDepth / 8 + w)] = packed_codes(SmallCodes::nvfp4, codes + 8 * w);
    for (int b = 0; b < 4; ++b) test.blocks[size_of(l * 4 + b)] = static_cast<uint8_t>(0x20 + 8 * b + l % 8);
    for (int i = 0; i < kDepth; ++i) {
      test.a[size_of(i * kDepth + l)] = i == l ? 6.0 * (1 + l / 16) : 0.0;
      test.weights[size_of(l * kDepth + i)] =
          i == l ? static_cast<double>(e2m1_to_float(codes[l]) * e4m3_to_float(test.blocks[size_of(l * 4 + l / 16)]))
                 : 0;
    }
  }
  TestRun run;
  test.launch(run);
  EXPECT_TRUE(run.near(test.expected(), 1e-3, 0));
}

TEST(CudaNvfp4Gemm, NanStaysNanAndZerosAreZeros) {
  for (const TestStorage& storage : kStorages) {
    Case test(storage, 12, 20, 100, 4);
    for (int l = 0; l < 100; ++l) test.a[size_of(3 * test.a_stride + l)] = 0;
    test.a[size_of(11 * test.a_stride + 99)] = NAN;
    for (int i = 0; i < 12; ++i) test.a[size_of(i * test.a_stride + 101)] = NAN;  // beyond k
    TestRun run;
    test.launch(run);
    const std::vector<double> y = run.values();
    for (int i = 0; i < 12 * 20; ++i) EXPECT_EQ(std::isnan(y[size_of(i)]), i / 20 == 11) << storage.name << " " << i;
    for (int j = 0; j < 20; ++j) {
      const double zero = std::max(test.bias[size_of(j)], 0.0) + test.c[size_of(3 * 20 + j)];
      EXPECT_NEAR(y[size_of(3 * 20 + j)], zero, storage.tolerance(1e-6)) << storage.name;
    }
  }
}

// Weights are read once where one block has all rows, in whole sectors.
TEST(CudaNvfp4Gemm, Traffic) {
  for (const int m : {8, 32}) {
    const Case test(kStorages[1], m, 64, 1024);
    TestRun run;
    run.count_traffic();
    test.launch(run);
    run.values();
    const uint64_t weight_bytes = test.words.size() * 4;
    uint64_t read = 0;
    for (const emulator::Checker::Traffic& line : run.traffic()) {
      if (line.shared) EXPECT_LE(line.worst_bank, 2) << line.line;
      else if (line.bytes == weight_bytes / 2 && line.used() > 0.9) read += line.bytes;
    }
    EXPECT_EQ(read, weight_bytes) << m;
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::nvfp4_gemm_test
