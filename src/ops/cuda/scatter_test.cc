#include "ops/cuda/scatter.h"

#include <array>
#include <cmath>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::scatter_test {
namespace {

TEST(CudaScatter, AddsUpOrReplacesInTheOrderOfTheTuples) {
  struct Shape {
    std::vector<int64_t> sizes;
    int64_t inner, count;
  };
  for (const Shape& s :
       std::vector<Shape>{{{1}, 1, 1}, {{7}, 5, 40}, {{25}, 200, 8}, {{3, 5}, 33, 70}, {{2, 3, 2}, 1, 9}}) {
    const int64_t rows = product(s.sizes), depth = std::ssize(s.sizes);
    for (const TestStorage& storage : kStorages) {
      const std::vector<double> x = storage.random(static_cast<size_t>(rows * s.inner), 1, 1.0);
      const std::vector<double> updates = storage.random(static_cast<size_t>(s.count * s.inner), 2, 1.0);
      for (const bool add : {false, true}) {
        std::vector<double> indices, expected = x;
        for (int64_t k = 0; k < s.count; ++k) {
          int64_t row = 0;
          bool there = true;
          for (int64_t d = 0; d < depth; ++d) {
            const int64_t size = s.sizes[static_cast<size_t>(d)];
            const int64_t index = (k * 5 + d * 3) % (2 * size + 1) - size;  // `size`, now and then, is out of range
            indices.push_back(static_cast<double>(index));
            there = there && index < size;
            row = row * size + (index + size) % size;
          }
          for (int64_t i = 0; there && i < s.inner; ++i) {
            double& to = expected[static_cast<size_t>(row * s.inner + i)];
            const double update = updates[static_cast<size_t>(k * s.inner + i)];
            to = add ? static_cast<float>(to) + static_cast<float>(update) : update;
          }
        }
        for (const bool wide : {false, true}) {
          TestRun run;
          const void* data = run.input(storage, x);
          const void* at = run.input(element_of(wide ? ElementType::i64 : ElementType::i32).storage, indices);
          const void* from = run.input(storage, updates);
          void* y = run.output(storage, expected.size());
          const ScatterArguments arguments = make_scatter(data, at, wide, from, y, s.sizes, s.count, s.inner, add);
          run.launch("scatter_" + storage.name, arguments, scatter_launch(arguments));
          EXPECT_TRUE(run.near(expected, storage.tolerance(0)))
              << storage.name << " " << rows << " rows, " << s.count << (add ? " added" : " put");
        }
      }
    }
  }
}

TEST(CudaScatter, CountsWhatItReads) {
  const std::array<int64_t, 1> sizes{1000};
  EXPECT_EQ(scatter_reads(make_scatter(nullptr, nullptr, true, nullptr, nullptr, sizes, 64, 32, true)), 64000);
  EXPECT_EQ(scatter_reads(make_scatter(nullptr, nullptr, true, nullptr, nullptr, sizes, 64, 129, true)), 2 * 4 * 64000);
}

}  // namespace
}  // namespace sparkpilot::cuda::scatter_test
