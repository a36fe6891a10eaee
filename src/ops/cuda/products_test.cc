#include "ops/cuda/products.h"

#include <cmath>

#include "ir/activation.h"
#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::products_test {
namespace {

struct Sizes {
  int m, n, k, beyond = 0;  // elements between the rows of a and b, and of y
  int batches = 1, parts = 1;
};

constexpr GemmLayout kLayouts[] = {GemmLayout::nk, GemmLayout::kn, GemmLayout::km};

struct Case {
  Sizes sizes;
  GemmLayout layout;
  long long a_stride, b_stride, y_stride, a_batch, b_batch, y_batch;
  std::vector<double> a, b, bias, c, d;

  Case(const TestStorage& storage, const Sizes& s, GemmLayout layout)
      : sizes(s),
        layout(layout),
        a_stride((layout == GemmLayout::km ? s.m : s.k) + s.beyond),
        b_stride((layout == GemmLayout::nk ? s.k : s.n) + s.beyond),
        y_stride(s.n + s.beyond),
        a_batch((layout == GemmLayout::km ? s.k : s.m) * a_stride),
        b_batch((layout == GemmLayout::nk ? s.n : s.k) * b_stride),
        y_batch(s.m * y_stride) {
    a = storage.random(size_of(s.batches * a_batch), 1, 1.0);
    b = storage.random(size_of(s.batches * b_batch), 2, 1.0 / std::sqrt(s.k));
    bias = kStorages[0].random(size_of(s.n), 3, 0.5);
    c = storage.random(size_of(s.batches * s.m * s.n), 4, 0.5);
    d = storage.random(size_of(s.n), 5, 0.5);
  }
  size_t a_at(int batch, int i, int l) const {
    return size_of(batch * a_batch + (layout == GemmLayout::km ? l * a_stride + i : i * a_stride + l));
  }
  size_t b_at(int batch, int l, int j) const {
    return size_of(batch * b_batch + (layout == GemmLayout::nk ? j * b_stride + l : l * b_stride + j));
  }
  // gelu_erf, add c, mul by d[column], mul by -2; what lies beyond y's rows is not written.
  std::vector<double> expected() const {
    std::vector<double> y(size_of(sizes.batches * y_batch), NAN);
    for (int batch = 0; batch < sizes.batches; ++batch) {
      for (int i = 0; i < sizes.m; ++i) {
        for (int j = 0; j < sizes.n; ++j) {
          double sum = bias[size_of(j)];
          for (int l = 0; l < sizes.k; ++l) sum += a[a_at(batch, i, l)] * b[b_at(batch, l, j)];
          const double added = activation::gelu_erf(sum, 0, 0) + c[size_of((batch * sizes.m + i) * sizes.n + j)];
          y[size_of(batch * y_batch + i * y_stride + j)] = added * d[size_of(j)] * -2;
        }
      }
    }
    return y;
  }
  GemmArguments arguments(TestRun& run, const TestStorage& storage) const {
    GemmArguments out{};
    out.a = run.input(storage, a);
    out.b = run.input(storage, b);
    out.bias = static_cast<const float*>(run.input(kStorages[0], bias));
    out.y = run.output(storage, size_of(sizes.batches * y_batch));
    out.m = sizes.m, out.n = sizes.n, out.k = sizes.k;
    out.outer = sizes.batches % 2 == 0 ? 2 : 1, out.inner = sizes.batches / out.outer;
    const int steps = (sizes.k + kGemmDepth - 1) / kGemmDepth;
    out.parts = sizes.parts, out.part_depth = (steps + sizes.parts - 1) / sizes.parts * kGemmDepth;
    out.a_stride = a_stride, out.b_stride = b_stride, out.y_stride = y_stride;
    out.a_inner = a_batch, out.b_inner = b_batch, out.y_inner = y_batch;
    out.a_outer = a_batch * out.inner, out.b_outer = b_batch * out.inner, out.y_outer = y_batch * out.inner;
    if (sizes.parts > 1) out.partial = static_cast<float*>(run.scratch(gemm_partial_bytes(out)));
    out.epilogue.count = 4;
    out.epilogue.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::gelu_erf};
    out.epilogue.steps[1] = {.kind = EpilogueStep::add,
                             .storage = storage_of(storage),
                             .operand = run.input(storage, c),
                             .row_stride = sizes.n,
                             .column_stride = 1};
    out.epilogue.steps[2] = {.kind = EpilogueStep::mul,
                             .storage = storage_of(storage),
                             .operand = run.input(storage, d),
                             .row_stride = 0,
                             .column_stride = 1};
    out.epilogue.steps[3] = {.kind = EpilogueStep::mul,
                             .storage = Storage::f32,
                             .operand = run.input(kStorages[0], {-2.0}),
                             .row_stride = 0,
                             .column_stride = 0};
    return out;
  }
  void launch(TestRun& run, const GemmArguments& arguments, const TestStorage& storage, GemmTile tile) const {
    EXPECT_TRUE(gemm_accepts(arguments, tile));
    run.launch(gemm_name(storage_of(storage), layout, tile), arguments, gemm_launch(arguments, tile));
    if (arguments.parts > 1) run.launch("gemm_sum_" + storage.name, arguments, gemm_sum_launch(arguments));
  }
};

// Like TestRun::near, where NaN is expected what was there before is expected.
void expect_near(TestRun& run, const std::vector<double>& expected, double tolerance, const std::string& what) {
  const std::vector<double> y = run.values();
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(expected[i])) ASSERT_TRUE(std::isnan(y[i])) << what << ": element " << i;
    else
      ASSERT_LE(std::fabs(y[i] - expected[i]), tolerance * std::max(1.0, std::fabs(expected[i])))
          << what << ": element " << i;
  }
}

TEST(CudaProducts, AllTilesAtOddSizes) {
  const std::vector<Sizes> sizes{
      {1, 1, 1},       {33, 67, 40},          {35, 33, 77, 3}, {17, 20, 136, 0, 4}, {9, 36, 160, 0, 2, 2},
      {70, 40, 96, 8}, {40, 72, 333, 3, 1, 3}};
  for (const TestStorage& storage : kStorages) {
    for (const GemmLayout layout : kLayouts) {
      for (const GemmTile tile : kGemmTiles) {
        if (!gemm_has_tile(storage_of(storage), layout, tile)) continue;
        for (const Sizes& s : sizes) {
          if ((tile.m > 32 || storage.dtype == DType::bf16) && s.m < 40) continue;
          const Case test(storage, s, layout);
          TestRun run;
          const GemmArguments arguments = test.arguments(run, storage);
          test.launch(run, arguments, storage, tile);
          expect_near(run, test.expected(), storage.tolerance(4e-6),
                      fmt::format("{} {} x {} x {}", gemm_name(storage_of(storage), layout, tile), s.m, s.n, s.k));
        }
      }
    }
  }
}

TEST(CudaProducts, NanStaysNan) {
  for (const TestStorage& storage : kStorages) {
    for (const GemmLayout layout : kLayouts) {
      if (!gemm_has_tile(storage_of(storage), layout, {32, 32})) continue;
      for (const int parts : {1, 2}) {
        Case test(storage, {10, 12, 70, 2, 1, parts}, layout);
        test.a[test.a_at(0, 3, 69)] = test.b[test.b_at(0, 50, 7)] = NAN;
        const bool nk = layout == GemmLayout::nk, km = layout == GemmLayout::km;  // and beyond the rows
        for (int i = 0; i < (km ? 70 : 10); ++i) test.a[size_of(i * test.a_stride + (km ? 10 : 70))] = NAN;
        for (int i = 0; i < (nk ? 12 : 70); ++i) test.b[size_of(i * test.b_stride + (nk ? 70 : 12))] = NAN;
        TestRun run;
        const GemmArguments arguments = test.arguments(run, storage);
        test.launch(run, arguments, storage, {32, 32});
        const std::vector<double> y = run.values();
        for (int i = 0; i < 10; ++i) {
          for (int j = 0; j < 12; ++j)
            EXPECT_EQ(std::isnan(y[size_of(i * test.y_stride + j)]), i == 3 || j == 7) << storage.name << i << "," << j;
        }
      }
    }
  }
}

TEST(CudaProducts, OneBatchOfBForAll) {
  const TestStorage& storage = kStorages[1];
  Case test(storage, {20, 24, 48, 0, 4}, GemmLayout::kn);
  for (size_t i = 0; i < test.b.size(); ++i) test.b[i] = test.b[i % size_of(test.b_batch)];
  TestRun run;
  GemmArguments arguments = test.arguments(run, storage);
  arguments.b_outer = arguments.b_inner = 0;
  test.launch(run, arguments, storage, {32, 32});
  expect_near(run, test.expected(), storage.tolerance(4e-6), "one b");
}

TEST(CudaProducts, AllActivations) {
  const TestStorage& storage = kStorages[0];
  for (const EpilogueActivation& row : kEpilogueActivations) {
    Case test(storage, {20, 24, 4}, GemmLayout::nk);
    TestRun run;
    GemmArguments arguments = test.arguments(run, storage);
    const double alpha = row.parameters > 0 ? -0.25 : default_alpha(row.activation), beta = 0.75;
    arguments.bias = nullptr;
    arguments.epilogue.count = 1;
    arguments.epilogue.steps[0] = {.kind = EpilogueStep::activation,
                                   .function = row.activation,
                                   .alpha = static_cast<float>(alpha),
                                   .beta = static_cast<float>(beta)};
    std::vector<double> expected;
    for (int i = 0; i < 20; ++i) {
      for (int j = 0; j < 24; ++j) {
        double sum = 0;
        for (int l = 0; l < 4; ++l) sum += test.a[size_of(i * 4 + l)] * test.b[size_of(j * 4 + l)];
        expected.push_back(row.function(sum, alpha, beta));
      }
    }
    test.launch(run, arguments, storage, {32, 32});
    expect_near(run, expected, 2e-6, std::string(row.step));
  }
}

TEST(CudaProducts, PlansCoverTheGpu) {
  for (const Storage storage : {Storage::f32, Storage::f16}) {
    for (const int multiprocessors : {48, 132, 188}) {
      // Rows by columns by depth of transformers and of convolutions of 1x1 in openpilot's sizes.
      for (const auto& [m, n, k] : std::vector<std::tuple<int, int, int>>{
               {25, 512, 2048}, {100, 1536, 512}, {100, 512, 2048}, {128, 768, 192}, {512, 96, 384}}) {
        const GemmPlan plan = gemm_plan(storage, GemmLayout::nk, 1, m, n, k, multiprocessors);
        const int blocks = (m + plan.tile.m - 1) / plan.tile.m * ((n + plan.tile.n - 1) / plan.tile.n) * plan.parts;
        EXPECT_GE(blocks, std::min(multiprocessors, 48)) << m << " " << n << " " << k;
        EXPECT_GE(plan.parts * plan.part_depth, k);
        EXPECT_LT((plan.parts - 1) * plan.part_depth, k);
      }
      const GemmPlan large = gemm_plan(storage, GemmLayout::nk, 1, 32768, 512, 512, multiprocessors);
      EXPECT_EQ(large.parts, 1);
      EXPECT_GE(large.tile.m, 64);
    }
  }
}

// Every tile is copied 16 bytes a lane without a sector in part; no conflicts of banks.
TEST(CudaProducts, Traffic) {
  for (const TestStorage& storage : kStorages) {
    for (const GemmLayout layout : kLayouts) {
      for (const GemmTile tile : kGemmTiles) {
        if (!gemm_has_tile(storage_of(storage), layout, tile) || storage.dtype == DType::bf16) continue;
        const Case test(storage, {tile.m, 64, 64}, layout);
        TestRun run;
        run.count_traffic();
        const GemmArguments arguments = test.arguments(run, storage);
        test.launch(run, arguments, storage, tile);
        run.values();
        for (const emulator::Checker::Traffic& line : run.traffic()) {
          // An asynchronous copy counts once as read from global and once as written to shared memory.
          EXPECT_LE(line.worst_bank, 2) << line.line;
          EXPECT_GE(line.used(), line.sectors ? line.shared ? 1.8 : 0.9 : 0.0) << line.line;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::products_test
