#include "ops/cuda/scaled_gemm.h"

#include <cmath>

#include "ops/cuda/gemv.h"
#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::scaled_gemm_test {
namespace {

constexpr int kMultiprocessors = 48;
const TestStorage &kF32 = kStorages[0], &kF16 = kStorages[1];

struct Kind {
  SmallCodes codes;
  const TestStorage* storage;  // f32: scaled_gemv
  std::string name() const {
    const std::string format = codes == SmallCodes::e4m3 ? "e4m3" : "nvfp4";
    return storage == &kF32 ? "scaled_gemv_" + format : "scaled_gemm_" + format + "_" + storage->name;
  }
};
std::vector<Kind> kinds() {
  std::vector<Kind> out;
  for (const SmallCodes codes : {SmallCodes::e4m3, SmallCodes::nvfp4}) {
    for (const TestStorage& storage : kStorages) out.push_back({codes, &storage});
  }
  return out;
}

// Any code but E4M3's NaN.
uint8_t any_code(SmallCodes codes, Random& random) {
  if (codes == SmallCodes::nvfp4) return static_cast<uint8_t>(random.integer(0, 15));
  const auto code = static_cast<uint8_t>(random.integer(0, 255));
  return (code & 0x7f) == 0x7f ? 0 : code;
}

// y of random a and codes, with bias and the epilogue "relu, add c[row, column]".
struct Case {
  Kind kind;
  int m, n, k;
  long long a_stride;
  std::vector<double> a, scales, bias, c, expected;
  std::vector<uint32_t> words;
  std::vector<uint8_t> blocks;

  Case(const Kind& kind, int m, int n, int k, int beyond = 0) : kind(kind), m(m), n(n), k(k), a_stride(k + beyond) {
    const bool four = kind.codes == SmallCodes::nvfp4;
    const int64_t in_word = four ? 8 : 4, row_words = scaled_code_words(kind.codes, k);
    const int64_t row_blocks = scaled_block_bytes(kind.codes, k);
    Random random(7);
    a = kind.storage->random(size_of(m * a_stride), 1, 1.0);
    // So that weights are about 1 / sqrt(k): codes reach 6 * 448, and 448.
    scales = kF32.random(size_of(n), 2, (four ? 0.002 : 0.01) / std::sqrt(k));
    bias = kF32.random(size_of(n), 3, 0.5);
    c = kind.storage->random(size_of(m * n), 4, 0.5);
    std::vector<double> weights(size_of(n * k));
    words.resize(size_of(n * row_words));
    blocks.resize(size_of(n * row_blocks));
    for (int j = 0; j < n; ++j) {
      std::vector<uint8_t> codes(size_of(row_words * in_word));
      for (int64_t b = 0; b < row_blocks; ++b) blocks[size_of(j * row_blocks + b)] = any_code(SmallCodes::e4m3, random);
      for (int l = 0; l < k; ++l) {
        const uint8_t code = codes[size_of(l)] = any_code(kind.codes, random);
        double weight = load_element(four ? DType::f4e2m1 : DType::f8e4m3fn, &code, 0);
        if (four) weight *= load_element(DType::f8e4m3fn, blocks.data(), j * row_blocks + l / 16);
        weights[size_of(j * k + l)] = weight * scales[size_of(j)];
      }
      for (int64_t w = 0; w < row_words; ++w)
        words[size_of(j * row_words + w)] = packed_codes(kind.codes, codes.data() + w * in_word);
    }
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = bias[size_of(j)];
        for (int l = 0; l < k; ++l) sum += a[size_of(i * a_stride + l)] * weights[size_of(j * k + l)];
        expected.push_back(std::max(sum, 0.0) + c[size_of(i * n + j)]);
      }
    }
  }

  void launch(TestRun& run) const {
    const bool gemv = kind.storage == &kF32;
    const float factor = scaled_gemm_factor(kind.codes, gemv, kind.storage->dtype == DType::bf16);
    std::vector<double> kernel_scales = scales;
    for (double& scale : kernel_scales) scale *= static_cast<double>(factor);
    ScaledGemmArguments p{};
    p.a = run.input(*kind.storage, a);
    p.codes = static_cast<const uint32_t*>(run.bytes(words.data(), words.size() * 4));
    if (!blocks.empty()) p.block_scales = static_cast<const uint8_t*>(run.bytes(blocks.data(), blocks.size()));
    p.scales = static_cast<const float*>(run.input(kF32, kernel_scales));
    p.bias = static_cast<const float*>(run.input(kF32, bias));
    p.y = run.output(*kind.storage, size_of(m * n));
    p.m = m, p.n = n, p.k = k;
    p.warps_per_row = gemv_warps_per_row(n, k, kMultiprocessors);
    p.code_stride = scaled_code_words(kind.codes, k), p.block_stride = scaled_block_bytes(kind.codes, k);
    p.a_stride = a_stride, p.y_stride = n;
    p.epilogue = relu_then_add(*kind.storage, run.input(*kind.storage, c), n);
    if (gemv) return run.launch(kind.name(), p, scaled_gemv_launch(p));
    const int rows = scaled_gemm_rows(m);
    run.launch(kind.name() + "_" + std::to_string(rows), p, scaled_gemm_launch(p, rows));
  }
};

TEST(CudaScaledGemm, OneRow) {
  for (const Kind& kind : kinds()) {
    for (const auto& [n, k] : std::vector<std::pair<int, int>>{
             {1, 1}, {5, 7}, {9, 40}, {3, 264}, {33, 100}, {6, 2055}, {7, 1023}, {64, 512}}) {
      const Case test(kind, 1, n, k);
      TestRun run;
      test.launch(run);
      EXPECT_TRUE(run.near(test.expected, kind.storage->of_small_product(), 1.0))
          << kind.name() << " " << n << " x " << k;
    }
  }
}

TEST(CudaScaledGemm, DeepRow) {
  for (const SmallCodes codes : {SmallCodes::e4m3, SmallCodes::nvfp4}) {
    const Case test({codes, &kF32}, 1, 24, 16384);
    TestRun run;
    test.launch(run);
    EXPECT_TRUE(run.near_in_norm(test.expected, 1e-6)) << test.kind.name();
  }
}

TEST(CudaScaledGemm, Rows) {
  for (const Kind& kind : kinds()) {
    if (kind.storage == &kF32) continue;
    for (const auto& [m, n, k, beyond] : std::vector<std::tuple<int, int, int, int>>{{8, 17, 264, 0},
                                                                                     {3, 20, 77, 3},
                                                                                     {5, 33, 520, 0},
                                                                                     {9, 16, 1030, 2},
                                                                                     {32, 40, 64, 0},
                                                                                     {33, 9, 31, 0},
                                                                                     {70, 18, 144, 8}}) {
      const Case test(kind, m, n, k, beyond);
      TestRun run;
      test.launch(run);
      EXPECT_TRUE(run.near(test.expected, kind.storage->of_small_product(), 1.0))
          << kind.name() << " " << m << " x " << n << " x " << k;
    }
  }
}

// Each code alone: what a row of one 1 picks out of the weights is exact.
TEST(CudaScaledGemm, DecodesEveryCode) {
  for (const Kind& kind : kinds()) {
    const bool four = kind.codes == SmallCodes::nvfp4;
    const int64_t in_word = four ? 8 : 4;
    for (const int at : {0, 5, 42}) {  // in depth
      const int n = four ? 16 * 127 : 256, k = 43;
      Case test(kind, 1, n, k);
      const int64_t row_words = scaled_code_words(kind.codes, k), row_blocks = scaled_block_bytes(kind.codes, k);
      std::fill(test.a.begin(), test.a.end(), 0);
      test.a[size_of(at)] = 1;
      std::fill(test.scales.begin(), test.scales.end(), 1);
      std::fill(test.bias.begin(), test.bias.end(), 4096);  // so that relu leaves it
      std::fill(test.c.begin(), test.c.end(), -4096);
      for (int j = 0; j < n; ++j) {
        std::vector<uint8_t> codes(size_of(row_words * in_word));
        const auto code = static_cast<uint8_t>(four ? j % 16 : (j & 0x7f) == 0x7f ? 0 : j);
        codes[size_of(at)] = code;
        for (int64_t w = 0; w < row_words; ++w)
          test.words[size_of(j * row_words + w)] = packed_codes(kind.codes, codes.data() + w * in_word);
        double value = load_element(four ? DType::f4e2m1 : DType::f8e4m3fn, &code, 0);
        const auto block = static_cast<uint8_t>(j / 16);
        for (int64_t b = 0; b < row_blocks; ++b) test.blocks[size_of(j * row_blocks + b)] = block;
        if (four) value *= load_element(DType::f8e4m3fn, &block, 0);
        // f32's rounding at 4096, then the storage's of the result.
        const float sum = static_cast<float>(value) + 4096.0f;
        test.expected[size_of(j)] = static_cast<double>(sum - 4096.0f);
      }
      TestRun run;
      test.launch(run);
      EXPECT_TRUE(run.near(test.expected, kind.storage->tolerance(0), 0)) << kind.name() << " at " << at;
    }
  }
}

TEST(CudaScaledGemm, NanStaysNan) {
  for (const Kind& kind : kinds()) {
    for (const int m : {1, 4, 12}) {
      if (m > 1 && kind.storage == &kF32) continue;
      Case test(kind, m, 20, 100, 4);
      test.a[size_of((m - 1) * test.a_stride + 99)] = NAN;
      for (int i = 0; i < m; ++i) test.a[size_of(i * test.a_stride + 101)] = NAN;  // beyond k
      TestRun run;
      test.launch(run);
      const std::vector<double> y = run.values();
      for (int i = 0; i < m * 20; ++i) EXPECT_EQ(std::isnan(y[size_of(i)]), i / 20 == m - 1) << kind.name() << " " << i;
    }
  }
}

// Every weight is read once where one block has all rows, in whole sectors.
TEST(CudaScaledGemm, Traffic) {
  for (const Kind& kind : kinds()) {
    for (const int m : {1, 8, 32}) {
      if (m > 1 && kind.storage == &kF32) continue;
      const Case test(kind, m, 64, 512);
      TestRun run;
      run.count_traffic();
      test.launch(run);
      run.values();
      const uint64_t weight_bytes = test.words.size() * 4;
      uint64_t read = 0;
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (line.shared) EXPECT_LE(line.worst_bank, 2) << line.line;
        else if (line.bytes == weight_bytes / 2 || line.bytes == weight_bytes) {
          if (line.used() > 0.9) read += line.bytes;
        }
      }
      EXPECT_GE(read, weight_bytes) << kind.name() << " " << m;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::scaled_gemm_test
