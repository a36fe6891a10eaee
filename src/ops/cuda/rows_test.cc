#include "ops/cuda/rows.h"

#include <cmath>

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda {
namespace {

TEST(CudaRows, Softmax) {
  for (const TestStorage& storage : kStorages) {
    for (const auto& [rows, size] :
         std::vector<std::pair<int, int>>{{1, 1}, {5, 7}, {3, 1000}, {9, 33}, {2, 1025}, {1, 4097}}) {
      const std::vector<double> x = storage.random(static_cast<size_t>(rows * size), 1, 3.0);
      std::vector<double> expected(x.size());
      for (int r = 0; r < rows; ++r) {
        double top = -INFINITY, sum = 0;
        for (int i = 0; i < size; ++i) top = std::max(top, x[static_cast<size_t>(r * size + i)]);
        for (int i = 0; i < size; ++i) sum += std::exp(x[static_cast<size_t>(r * size + i)] - top);
        for (int i = 0; i < size; ++i)
          expected[static_cast<size_t>(r * size + i)] = std::exp(x[static_cast<size_t>(r * size + i)] - top) / sum;
      }
      TestRun run;
      SoftmaxArguments arguments{run.input(storage, x), run.output(storage, x.size()), rows, size};
      run.launch("softmax_" + storage.name, arguments, softmax_launch(arguments));
      EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6))) << storage.name << " " << rows << " x " << size;
    }
  }
}

TEST(CudaRows, SoftmaxOfNanIsNan) {
  for (const TestStorage& storage : kStorages) {
    std::vector<double> x = storage.random(2 * 50, 2, 1.0);
    x[77] = NAN;
    TestRun run;
    SoftmaxArguments arguments{run.input(storage, x), run.output(storage, x.size()), 2, 50};
    run.launch("softmax_" + storage.name, arguments, softmax_launch(arguments));
    const std::vector<double> y = run.values();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i >= 50) << i;
  }
}

}  // namespace
}  // namespace sparkpilot::cuda
