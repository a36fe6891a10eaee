#include "ops/cuda/limits.h"

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda::limits_test {
namespace {

constexpr int kBlocks = 3;
constexpr size_t kFloats = kBlocks * kLimitThreads;
const TestStorage& f32 = kStorages[0];

// What each thread of a kernel that computes in registers leaves.
std::vector<double> left_by(const std::string& kernel, int rounds) {
  TestRun run;
  const LimitArguments p{.from = nullptr, .to = run.output(f32, kFloats), .pieces = 0, .rounds = rounds};
  run.launch(kernel, p, limit_launch(kBlocks));
  return run.values();
}

TEST(CudaLimits, EveryMultiplyAddIsDone) {
  EXPECT_EQ(left_by("limit_fma_f32", 64), std::vector<double>(kFloats, 2.0 * kLimitChains));
  const std::vector<double> one = left_by("limit_fma_f32", 1);
  double expected = 0;  // of the thread 33, in lane 1
  for (int i = 0; i < kLimitChains; ++i) expected += (1 + i) * 0.5 + 1;
  EXPECT_EQ(one.at(33), expected);
  for (const char* kernel : {"limit_mma_f16", "limit_mma_bf16"}) {
    EXPECT_EQ(left_by(kernel, 5), std::vector<double>(kFloats, kLimitChains * 5 * 16 * 0x1p-10)) << kernel;
  }
}

TEST(CudaLimits, EveryPieceIsMoved) {
  for (const size_t pieces : {size_t{1}, kFloats * 4 - 1, kFloats * 4, kFloats * 9 + 5}) {
    const std::vector<double> values = f32.random(pieces * 4, 1, 1);
    TestRun run;
    const void* const from = run.input(f32, values);
    const LimitArguments p{
        .from = from, .to = run.output(f32, values.size()), .pieces = static_cast<long long>(pieces), .rounds = 2};
    run.launch("limit_copy", p, limit_launch(kBlocks));
    EXPECT_EQ(run.values(), values) << pieces;
  }
  // One piece differs from zero: exactly one thread sees it, wherever it lies.
  for (const size_t at : {size_t{0}, kFloats * 5 + 7}) {
    std::vector<double> values(kFloats * 6 * 4);
    values[at * 4 + 2] = 1.5;
    TestRun run;
    const void* const from = run.input(f32, values);
    const LimitArguments p{
        .from = from, .to = run.output(f32, kFloats), .pieces = static_cast<long long>(kFloats * 6), .rounds = 1};
    run.launch("limit_read", p, limit_launch(kBlocks));
    std::vector<double> expected(kFloats);
    expected[at % kFloats] = 1.5;
    EXPECT_EQ(run.values(), expected) << at;
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::limits_test
