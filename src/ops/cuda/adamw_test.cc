#include "ops/cuda/adamw.h"

#include <cmath>

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda::adamw_test {
namespace {

const TestStorage& f32 = kStorages[0];

// Tensors of these sizes, which begin `beyond` elements after a multiple of 64 bytes.
struct Case {
  std::vector<int> sizes;
  int64_t count = 1;
  int beyond = 0;

  static constexpr float kRate = 0.01f, kScale = 0.3f, kBeta1 = 0.9f, kBeta2 = 0.99f, kEpsilon = 1e-6f, kDecay = 0.1f;

  void check() const {
    std::vector<double> of[4], expected;  // x, gradients, m, v, one tensor after another
    std::vector<size_t> first;
    size_t elements = 0;
    for (const int size : sizes) {
      first.push_back(elements + static_cast<size_t>(beyond));
      elements += (static_cast<size_t>(size + beyond) + 15) / 16 * 16;
    }
    for (size_t i = 0; i < 4; ++i) of[i] = f32.random(elements, i + 1, 1);
    for (double& v : of[3]) v = std::fabs(v);
    TestRun run;
    auto* const y = static_cast<float*>(run.output(f32, 3 * elements));
    const float* in[4];
    for (size_t i = 0; i < 4; ++i) in[i] = static_cast<const float*>(run.input(f32, of[i]));
    AdamWArguments p{.rate = static_cast<const float*>(run.input(f32, {kRate})),
                     .scale = static_cast<const float*>(run.input(f32, {kScale})),
                     .count = static_cast<const long long*>(run.bytes(&count, sizeof(count))),
                     .beta1 = kBeta1,
                     .beta2 = kBeta2,
                     .epsilon = kEpsilon,
                     .weight_decay = kDecay,
                     .tensors = static_cast<int>(sizes.size()),
                     .all = {}};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const size_t at = first[i];
      p.all[i] = {in[0] + at, in[1] + at, in[2] + at, in[3] + at, y + at, y + elements + at, y + 2 * elements + at,
                  sizes[i],   0};
    }
    run.launch("adamw_f32", p, adamw_launch(set_adamw_blocks(p)));
    const std::vector<double> got = run.values();
    std::vector<bool> written(elements);
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t k = first[i]; k < first[i] + static_cast<size_t>(sizes[i]); ++k) {
        written[k] = true;
        const double g = double{kScale} * of[1][k], m = double{kBeta1} * of[2][k] + (1 - double{kBeta1}) * g,
                     v = double{kBeta2} * of[3][k] + (1 - double{kBeta2}) * g * g;
        const auto t = static_cast<double>(count);
        const double step = m / (1 - std::pow(double{kBeta1}, t)) /
                            (std::sqrt(v / (1 - std::pow(double{kBeta2}, t))) + double{kEpsilon});
        const double x = (1 - double{kRate} * double{kDecay}) * of[0][k] - double{kRate} * step;
        ASSERT_NEAR(got[k], x, 1e-6 * (std::fabs(of[0][k]) + 0.1)) << i << ", element " << k;
        ASSERT_NEAR(got[elements + k], m, 1e-6 * (std::fabs(of[2][k]) + std::fabs(g))) << i << ", element " << k;
        ASSERT_NEAR(got[2 * elements + k], v, 1e-6 * v) << i << ", element " << k;
      }
    }
    for (size_t k = 0; k < elements; ++k) {
      for (size_t group = 0; group < 3; ++group) {
        ASSERT_EQ(std::isnan(got[group * elements + k]), !written[k]) << k;
      }
    }
  }
};

TEST(CudaAdamW, OddSizes) {
  Case{{1}, 1}.check();
  Case{{5, 3, 64, 7}, 17}.check();
  Case{{4097, 4096, 2, 9000}, 1000}.check();
  Case{std::vector<int>(AdamWArguments::kMostTensors, 13), 3}.check();
}
TEST(CudaAdamW, NotAtMultiplesOf16) { Case{{5, 300, 4100}, 2, 1}.check(); }

TEST(CudaAdamW, ACountBelowOneGivesNan) {
  TestRun run;
  auto* const y = static_cast<float*>(run.output(f32, 1));
  auto* const rest = static_cast<float*>(run.scratch(8));
  const auto* const one = static_cast<const float*>(run.input(f32, {1}));
  const long long count = 0;
  AdamWArguments p{.rate = one,
                   .scale = one,
                   .count = static_cast<const long long*>(run.bytes(&count, sizeof(count))),
                   .beta1 = 0.5f,
                   .beta2 = 0.5f,
                   .epsilon = 1,
                   .weight_decay = 0,
                   .tensors = 1,
                   .all = {}};
  p.all[0] = {one, one, one, one, y, rest, rest + 1, 1, 0};
  run.launch("adamw_f32", p, adamw_launch(set_adamw_blocks(p)));
  EXPECT_TRUE(std::isnan(run.values()[0]));
}

}  // namespace
}  // namespace sparkpilot::cuda::adamw_test
