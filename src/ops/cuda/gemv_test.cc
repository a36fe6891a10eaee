#include "ops/cuda/gemv.h"

#include <cmath>

#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::gemv_test {
namespace {

constexpr int kMultiprocessors = 48;

struct Kind {
  std::string name;
  const TestStorage *storage, *weights;
};
std::vector<Kind> kinds() {
  const TestStorage *f32 = &kStorages[0], *f16 = &kStorages[1], *bf16 = &kStorages[2];
  return {{"f32", f32, f32},
          {"f16", f16, f16},
          {"bf16", bf16, bf16},
          {"f32_weights_f16", f32, f16},
          {"f32_weights_bf16", f32, bf16}};
}

// y of random a and weights, with bias and the epilogue "relu, add c[row, column], mul d[column]".
struct Case {
  int m, n, k;
  long long a_stride, weight_stride;
  std::vector<double> a, weights, bias, c, d;

  Case(const Kind& kind, int m, int n, int k, int beyond)
      : m(m), n(n), k(k), a_stride(k + beyond), weight_stride(k + beyond) {
    a = kind.storage->random(size_of(m * a_stride), 1, 1.0);
    weights = kind.weights->random(size_of(n * weight_stride), 2, 1.0 / std::sqrt(k));
    bias = kStorages[0].random(size_of(n), 3, 0.5);
    c = kind.storage->random(size_of(m * n), 4, 0.5);
    d = kStorages[0].random(size_of(n), 5, 0.5);
  }
  std::vector<double> expected() const {
    std::vector<double> y(size_of(m * n));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = bias[size_of(j)];
        for (int l = 0; l < k; ++l) sum += a[size_of(i * a_stride + l)] * weights[size_of(j * weight_stride + l)];
        y[size_of(i * n + j)] = (std::max(sum, 0.0) + c[size_of(i * n + j)]) * d[size_of(j)];
      }
    }
    return y;
  }
  GemvArguments arguments(TestRun& run, const Kind& kind) const {
    GemvArguments out{};
    out.a = run.input(*kind.storage, a);
    out.weights = run.input(*kind.weights, weights);
    out.bias = static_cast<const float*>(run.input(kStorages[0], bias));
    out.y = run.output(*kind.storage, size_of(m * n));
    out.m = m, out.n = n, out.k = k;
    out.warps_per_row = gemv_warps_per_row(n, k, kMultiprocessors);
    out.a_stride = a_stride, out.weight_stride = weight_stride, out.y_stride = n;
    out.epilogue.count = 3;
    out.epilogue.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::relu};
    out.epilogue.steps[1] = {.kind = EpilogueStep::add,
                             .storage = storage_of(*kind.storage),
                             .operand = run.input(*kind.storage, c),
                             .row_stride = n,
                             .column_stride = 1};
    out.epilogue.steps[2] = {.kind = EpilogueStep::mul,
                             .storage = Storage::f32,
                             .operand = run.input(kStorages[0], d),
                             .row_stride = 0,
                             .column_stride = 1};
    return out;
  }
};

TEST(CudaGemv, OneRow) {
  for (const Kind& kind : kinds()) {
    for (const auto& [n, k, beyond] : std::vector<std::tuple<int, int, int>>{
             {1, 1, 0}, {5, 7, 1}, {9, 40, 0}, {3, 264, 0}, {33, 100, 4}, {6, 2055, 1}, {7, 1023, 0}, {64, 512, 0}}) {
      if (kind.storage->dtype == DType::bf16 && k < 264) continue;
      const Case test(kind, 1, n, k, beyond);
      TestRun run;
      const GemvArguments arguments = test.arguments(run, kind);
      run.launch("gemv_" + kind.name, arguments, gemv_launch(arguments));
      EXPECT_TRUE(run.near(test.expected(), kind.storage->tolerance(3e-6), 1.0)) << kind.name << " " << n << " x " << k;
    }
  }
}

TEST(CudaGemv, FewRows) {
  for (const Kind& kind : kinds()) {
    if (kind.storage != kind.weights) continue;
    for (const auto& [m, n, k, beyond] : std::vector<std::tuple<int, int, int, int>>{
             {1, 1, 1, 0}, {8, 17, 264, 0}, {3, 20, 77, 3}, {5, 33, 520, 0}, {2, 16, 1030, 2}, {7, 9, 31, 0}}) {
      const Case test(kind, m, n, k, beyond);
      TestRun run;
      const GemvArguments arguments = test.arguments(run, kind);
      run.launch("gemv_rows_" + kind.name, arguments, gemv_rows_launch(arguments, kind.storage->dtype == DType::f32));
      EXPECT_TRUE(run.near(test.expected(), kind.storage->tolerance(3e-6), 1.0))
          << kind.name << " " << m << " x " << n << " x " << k;
    }
  }
}

TEST(CudaGemv, SeveralProductsInOneLaunch) {
  const std::vector<std::pair<int, int>> sizes{{5, 512}, {1, 40}, {32, 1040}, {3, 1}, {18, 515}};
  for (const Kind& kind : kinds()) {
    TestRun run;
    long long total = 0;
    for (const auto& [n, k] : sizes) total += n;
    char* y = static_cast<char*>(run.output(*kind.storage, size_of(total)));
    const std::vector<double> a = kind.storage->random(1040, 1, 1.0);
    const void* const a_data = run.input(*kind.storage, a);
    std::vector<double> expected;
    GemvGroupArguments arguments{};
    for (const auto& [n, k] : sizes) {
      const std::vector<double> weights = kind.weights->random(size_of(n * k), 2, 1.0 / std::sqrt(k));
      const std::vector<double> bias = kStorages[0].random(size_of(n), 3, 0.5);
      const bool has_bias = n != 5;
      for (int j = 0; j < n; ++j) {
        double sum = has_bias ? bias[size_of(j)] : 0;
        for (int l = 0; l < k; ++l) sum += a[size_of(l)] * weights[size_of(j * k + l)];
        expected.push_back(n == 32 ? std::tanh(sum) : sum);
      }
      GemvGroupArguments::Product& product = arguments.products[arguments.count++];
      product.a = a_data;
      product.weights = run.input(*kind.weights, weights);
      product.bias = has_bias ? static_cast<const float*>(run.input(kStorages[0], bias)) : nullptr;
      product.y = y;
      product.n = n, product.k = k, product.weight_stride = k;
      if (n == 32) {
        product.epilogue.count = 1;
        product.epilogue.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::tanh};
      }
      y += size_of(n) * kind.storage->bytes();
    }
    const int blocks = gemv_group_prepare(arguments, kMultiprocessors);
    EXPECT_EQ(gemv_group_launch(arguments).grid_x, static_cast<unsigned>(blocks));
    run.launch("gemv_group_" + kind.name, arguments, gemv_group_launch(arguments));
    EXPECT_TRUE(run.near(expected, kind.storage->tolerance(3e-6), 1.0)) << kind.name;
  }
}

TEST(CudaGemv, NanStaysNan) {
  for (const Kind& kind : kinds()) {
    for (const int m : {1, 4}) {
      if (m > 1 && kind.storage != kind.weights) continue;
      Case test(kind, m, 20, 100, 4);
      test.a[size_of((m - 1) * test.a_stride + 99)] = NAN;
      test.weights[size_of(7 * test.weight_stride + 50)] = NAN;
      for (int j = 0; j < 20; ++j) test.weights[size_of(j * test.weight_stride + 101)] = NAN;  // beyond k
      TestRun run;
      const GemvArguments arguments = test.arguments(run, kind);
      run.launch((m == 1 ? "gemv_" : "gemv_rows_") + kind.name, arguments,
                 m == 1 ? gemv_launch(arguments) : gemv_rows_launch(arguments, kind.storage->dtype == DType::f32));
      const std::vector<double> y = run.values();
      for (int i = 0; i < m * 20; ++i)
        EXPECT_EQ(std::isnan(y[size_of(i)]), i / 20 == m - 1 || i % 20 == 7) << kind.name << " " << i;
    }
  }
}

TEST(CudaGemv, BlocksCoverTheGpu) {
  for (const int multiprocessors : {48, 128, 170, 188}) {
    for (const auto& [n, k] : std::vector<std::pair<int, int>>{{64, 2048}, {512, 1024}, {1024, 512}, {2048, 256}}) {
      GemvArguments arguments{};
      arguments.n = n, arguments.k = k;
      arguments.warps_per_row = gemv_warps_per_row(n, k, multiprocessors);
      EXPECT_GE(gemv_launch(arguments).grid_x, std::min(64u, static_cast<unsigned>(multiprocessors)));
      EXPECT_LE(arguments.warps_per_row, 4);
    }
  }
}

// Every weight once, 16 bytes a lane, no sector in part.
TEST(CudaGemv, Traffic) {
  for (const Kind& kind : kinds()) {
    for (const int m : {1, 8}) {
      if (m > 1 && kind.storage != kind.weights) continue;
      const Case test(kind, m, 64, 512, 0);
      TestRun run;
      run.count_traffic();
      const GemvArguments arguments = test.arguments(run, kind);
      run.launch((m == 1 ? "gemv_" : "gemv_rows_") + kind.name, arguments,
                 m == 1 ? gemv_launch(arguments) : gemv_rows_launch(arguments, kind.storage->dtype == DType::f32));
      run.values();
      const uint64_t weight_bytes = size_of(64 * 512) * kind.weights->bytes();
      uint64_t wide = 0;
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (line.shared) EXPECT_LE(line.worst_bank, 2) << line.line;
        else if (line.bytes == weight_bytes && line.bytes == line.requests * 512 && line.used() > 0.9)
          wide += line.bytes;
      }
      EXPECT_GE(wide, weight_bytes) << kind.name << " " << m;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::gemv_test
