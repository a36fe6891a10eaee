#include "ops/cuda/e4m3_gemm.h"

#include "ops/cuda/test_codes.h"
#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::e4m3_gemm_test {
namespace {

const TestStorage& kF32 = kStorages[0];
constexpr const char* kWays[] = {"e4m3_gemm_", "e4m3_gemm_decoded_"};

// y of random codes, with bias and the epilogue "relu, add c[row, column]".
struct Case {
  const TestStorage* storage;  // of y and c
  int m, n, k;
  long long a_stride, code_bytes;
  std::vector<uint8_t> a, codes;
  std::vector<double> scales, bias, c;

  Case(const TestStorage& storage, int m, int n, int k, int beyond = 0)
      : storage(&storage), m(m), n(n), k(k), a_stride(k + beyond), code_bytes(byte_gemm_depth(k)) {
    a = any_codes(size_of(m * a_stride), 1);
    codes.resize(size_of(n * code_bytes));
    const std::vector<uint8_t> weights = any_codes(size_of(n * k), 2);
    for (int j = 0; j < n; ++j) std::copy_n(weights.begin() + j * k, k, codes.begin() + j * code_bytes);
    // So that y is about 1: codes reach 448.
    scales = kF32.random(size_of(n), 3, 1e-4 / std::sqrt(k));
    bias = kF32.random(size_of(n), 4, 0.5);
    c = storage.random(size_of(m * n), 5, 0.5);
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l)
          sum += value_of(a[size_of(i * a_stride + l)]) * value_of(codes[size_of(j * code_bytes + l)]);
        out.push_back(std::max(sum * scales[size_of(j)] + bias[size_of(j)], 0.0) + c[size_of(i * n + j)]);
      }
    }
    return out;
  }

  void launch(TestRun& run, const std::string& way) const {
    std::vector<double> kernel_scales = scales;
    for (double& scale : kernel_scales) scale *= static_cast<double>(e4m3_gemm_factor(way == kWays[1]));
    E4m3GemmArguments p{};
    p.a = static_cast<const uint8_t*>(run.bytes(a.data(), a.size()));
    p.codes = static_cast<const uint8_t*>(run.bytes(codes.data(), codes.size()));
    p.scales = static_cast<const float*>(run.input(kF32, kernel_scales));
    p.bias = static_cast<const float*>(run.input(kF32, bias));
    p.y = run.output(*storage, size_of(m * n));
    p.storage = storage_of(*storage);
    p.m = m, p.n = n, p.k = k;
    p.code_bytes = code_bytes, p.a_stride = a_stride, p.y_stride = n;
    p.epilogue = relu_then_add(*storage, run.input(*storage, c), n);
    run.launch(way + std::to_string(byte_gemm_rows(m)), p, byte_gemm_launch(m, n));
  }
};

TEST(CudaE4m3Gemm, Rows) {
  size_t turn = 0;  // of the storages
  for (const std::string way : kWays) {
    for (const auto& [m, n, k, beyond] : std::vector<std::tuple<int, int, int, int>>{{1, 1, 1, 0},
                                                                                     {1, 40, 512, 0},
                                                                                     {8, 17, 264, 0},
                                                                                     {3, 20, 77, 3},
                                                                                     {5, 33, 520, 8},
                                                                                     {9, 16, 1030, 2},
                                                                                     {33, 9, 31, 0},
                                                                                     {70, 18, 144, 16}}) {
      const TestStorage& storage = kStorages[turn++ % kStorages.size()];
      const Case test(storage, m, n, k, beyond);
      TestRun run;
      test.launch(run, way);
      EXPECT_TRUE(run.near(test.expected(), storage.of_small_product(), 1.0))
          << way << " " << storage.name << " " << m << " x " << n << " x " << k;
    }
  }
}

TEST(CudaE4m3Gemm, DeepRows) {
  for (const std::string way : kWays) {
    const Case test(kF32, 8, 16, 16384);
    TestRun run;
    test.launch(run, way);
    EXPECT_TRUE(run.near_in_norm(test.expected(), 1e-6)) << way;
  }
}

// Each code by 1 in either operand, at the places of a depth that mma tells apart: exact.
TEST(CudaE4m3Gemm, EveryCodeCounts) {
  for (const std::string way : kWays) {
    for (const int at : {0, 5, 26, 63, 70}) {
      Case test(kF32, 1, 256, 75);
      std::fill(test.a.begin(), test.a.end(), 0);
      std::fill(test.codes.begin(), test.codes.end(), 0);
      std::fill(test.scales.begin(), test.scales.end(), 1);
      std::fill(test.bias.begin(), test.bias.end(), 4096);  // so that relu leaves it
      std::fill(test.c.begin(), test.c.end(), -4096);
      test.a[size_of(at)] = 0x38;  // 1
      for (int j = 0; j < 256; ++j) {
        if ((j & 0x7f) != 0x7f) test.codes[size_of(j * test.code_bytes + at)] = static_cast<uint8_t>(j);
      }
      TestRun run;
      test.launch(run, way);
      EXPECT_TRUE(run.near(test.expected(), 0, 0)) << way << " at " << at;
      // The other way round: 256 rows.
      Case other(kF32, 256, 1, 75);
      other.scales = {1}, other.bias = {4096}, other.c.assign(256, -4096);
      std::fill(other.a.begin(), other.a.end(), 0);
      std::fill(other.codes.begin(), other.codes.end(), 0);
      other.codes[size_of(at)] = 0x38;
      for (int i = 0; i < 256; ++i) {
        if ((i & 0x7f) != 0x7f) other.a[size_of(i * 75 + at)] = static_cast<uint8_t>(i);
      }
      TestRun turned;
      other.launch(turned, way);
      EXPECT_TRUE(turned.near(other.expected(), 0, 0)) << way << " at " << at << ", rows";
    }
  }
}

TEST(CudaE4m3Gemm, NanStaysNan) {
  for (const std::string way : kWays) {
    for (const int m : {1, 12}) {
      for (const uint8_t nan : {0x7f, 0xff}) {
        Case test(kStorages[1], m, 20, 100, 12);
        test.a[size_of((m - 1) * test.a_stride + 99)] = nan;
        for (int i = 0; i < m; ++i) test.a[size_of(i * test.a_stride + 101)] = nan;  // beyond k
        TestRun run;
        test.launch(run, way);
        const std::vector<double> y = run.values();
        for (int i = 0; i < m * 20; ++i) EXPECT_EQ(std::isnan(y[size_of(i)]), i / 20 == m - 1) << way << " " << i;
      }
    }
  }
}

// Every weight is read once where one block has all rows, in whole sectors.
TEST(CudaE4m3Gemm, Traffic) {
  for (const std::string way : kWays) {
    for (const int m : {1, 8, 32}) {
      const Case test(kStorages[1], m, 64, 512);
      TestRun run;
      run.count_traffic();
      test.launch(run, way);
      run.values();
      uint64_t read = 0;
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (line.shared) EXPECT_LE(line.worst_bank, 2) << line.line;
        else if (line.bytes == test.codes.size() && line.used() > 0.9) read += line.bytes;
      }
      EXPECT_GE(read, test.codes.size()) << way << m;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::e4m3_gemm_test
