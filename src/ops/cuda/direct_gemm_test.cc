#include "ops/cuda/direct_gemm.h"

#include "ops/cuda/conv_reference_test.h"

namespace sparkpilot::cuda::direct_gemm_test {
namespace {

struct Sizes {
  int rows, columns, depth, beyond = 0;  // elements between the rows of a, and between columns of b
};

// `bare`: without bias and epilogue.
void check(const TestStorage& storage, const DirectGemmPlan& plan, const Sizes& s, bool bare = false) {
  const long long stride = s.depth + s.beyond;
  const std::vector<double> a = storage.random(size_of(s.rows * stride), 1, 1.0);
  const std::vector<double> b = storage.random(size_of(s.columns * stride), 2, 1 / std::sqrt(s.depth));
  const std::vector<double> bias = kStorages[0].random(size_of(s.columns), 3, 0.5);
  std::vector<double> expected;
  for (int row = 0; row < s.rows; ++row) {
    for (int column = 0; column < s.columns; ++column) {
      double sum = bare ? 0 : bias[size_of(column)];
      for (int k = 0; k < s.depth; ++k) sum += a[size_of(row * stride + k)] * b[size_of(column * stride + k)];
      expected.push_back(sum);
    }
  }
  const TestEpilogue epilogue(storage, size_of(s.rows), size_of(s.columns));
  if (!bare) epilogue.apply(expected);
  TestRun run;
  DirectGemmArguments p{};
  p.a = run.input(storage, a);
  p.b = run.input(storage, b);
  if (!bare) p.bias = static_cast<const float*>(run.input(kStorages[0], bias));
  p.y = run.output(storage, expected.size());
  p.rows = s.rows, p.columns = s.columns, p.depth = s.depth;
  p.a_stride = stride, p.b_column = static_cast<int>(stride), p.b_slice = kDirectSlice;
  if (!bare) p.epilogue = epilogue.steps(run, storage);
  run.launch(plan.kernel(storage_of(storage)), p, plan.launch(s.rows, s.columns));
  EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6), 1.0))
      << plan.kernel(storage_of(storage)) << " " << s.rows << "x" << s.depth << " by " << s.columns;
}

TEST(CudaDirectGemm, AtOddSizes) {
  const Sizes sizes[] = {{1, 1, 8}, {10, 33, 40, 8}, {17, 20, 264}, {35, 40, 1032, 16}, {16, 32, 2048}};
  for (const TestStorage& storage : kStorages) {
    if (storage.dtype == DType::f32) continue;
    for (const DirectGemmPlan& plan : kDirectGemmPlans) {
      for (const Sizes& s : sizes) check(storage, plan, s);
      check(storage, plan, {13, 19, 72}, true);
    }
  }
}

TEST(CudaDirectGemm, PlansForWhatItTakes) {
  EXPECT_TRUE(direct_gemm_plans(Storage::f32, 10, 512, 512).empty());
  EXPECT_TRUE(direct_gemm_plans(Storage::f16, 10, 512, 516).empty());
  EXPECT_EQ(direct_gemm_plans(Storage::f16, 10, 512, 512).size(), 3U);
  EXPECT_EQ(direct_gemm_plans(Storage::bf16, 10, 512, 64).size(), 1U);  // warps without a part of the depth are idle
  EXPECT_TRUE(direct_gemm_plans(Storage::f16, 10, 65535 * 32 + 1, 512).empty());
}

}  // namespace
}  // namespace sparkpilot::cuda::direct_gemm_test
