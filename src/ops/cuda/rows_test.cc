#include "ops/cuda/rows.h"

#include <cmath>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::rows_test {
namespace {

struct Shape {
  int64_t outer;
  int size, inner;
};

// fn(the row's elements) for each row of [outer, size, inner].
template <typename Fn>
void each_row(const Shape& s, std::vector<double>& values, const Fn& fn) {
  for (int64_t outer = 0; outer < s.outer; ++outer) {
    for (int inner = 0; inner < s.inner; ++inner) {
      const auto at = [&](int i) { return static_cast<size_t>((outer * s.size + i) * s.inner + inner); };
      std::vector<double> row;
      for (int i = 0; i < s.size; ++i) row.push_back(values[at(i)]);
      fn(row);
      for (int i = 0; i < s.size; ++i) values[at(i)] = row[static_cast<size_t>(i)];
    }
  }
}

void softmax(std::vector<double>& row, bool log) {
  double top = -INFINITY, sum = 0;
  for (const double x : row) top = std::max(top, x);
  for (const double x : row) sum += std::exp(x - top);
  for (double& x : row) x = log ? x - top - std::log(sum) : std::exp(x - top) / sum;
}

void norm(std::vector<double>& row, NormKind kind, double epsilon, const std::vector<double>& gain,
          const std::vector<double>& bias) {
  const auto size = static_cast<double>(row.size());
  double mean = 0, squares = 0;
  if (kind == NormKind::layer) {
    for (const double x : row) mean += x / size;
  }
  for (const double x : row) squares += (x - mean) * (x - mean);
  double scale = 1 / std::sqrt(squares / size + epsilon);
  if (kind == NormKind::l2) {
    const double length = std::max(std::sqrt(squares), epsilon);
    scale = length == 0 ? 0 : 1 / length;
  }
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = (row[i] - mean) * scale * (gain.empty() ? 1 : gain[i]) + (bias.empty() ? 0 : bias[i]);
  }
}

// Short and long, wide and not, fewer than a warp and more.
const Shape kShapes[] = {{1, 1, 1},    {5, 7, 1},    {3, 1000, 1}, {9, 33, 1},   {10, 512, 1},
                         {1030, 8, 1}, {2, 1024, 1}, {2, 1025, 1}, {1, 4104, 1}, {1, 4097, 1}};
const Shape kStrided[] = {{1, 1, 1}, {2, 5, 7}, {3, 24, 33}, {1, 2, 130}};

TEST(CudaRows, Softmax) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : kShapes) {
      const std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.size), 1, 3.0);
      std::vector<double> expected = x;
      const bool log = s.outer % 2 == 0;
      each_row(s, expected, [&](std::vector<double>& row) { softmax(row, log); });
      TestRun run;
      SoftmaxArguments arguments{run.input(storage, x), run.output(storage, x.size()), s.outer, s.size, log};
      run.launch("softmax_" + storage.name, arguments, softmax_launch(arguments));
      EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6), log ? 1 : 0))
          << storage.name << " " << s.outer << " x " << s.size;
    }
  }
}

TEST(CudaRows, SoftmaxAlongChannels) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : kStrided) {
      const std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.size * s.inner), 1, 3.0);
      const bool log = s.outer == 3;
      std::vector<double> expected = x;
      each_row(s, expected, [&](std::vector<double>& row) { softmax(row, log); });
      TestRun run;
      SoftmaxStridedArguments arguments{
          run.input(storage, x), run.output(storage, x.size()), s.outer, s.size, s.inner, make_divisor(s.inner), log};
      run.launch("softmax_strided_" + storage.name, arguments, softmax_strided_launch(arguments));
      EXPECT_TRUE(run.near(expected, storage.tolerance(2e-6), log ? 1 : 0)) << storage.name << " " << s.inner;
    }
  }
}

TEST(CudaRows, SoftmaxOfNanIsNan) {
  for (const TestStorage& storage : kStorages) {
    for (const int size : {50, 56, 1500}) {
      std::vector<double> x = storage.random(static_cast<size_t>(2 * size), 2, 1.0);
      x[static_cast<size_t>(size) + 27] = NAN;
      TestRun run;
      SoftmaxArguments arguments{run.input(storage, x), run.output(storage, x.size()), 2, size};
      run.launch("softmax_" + storage.name, arguments, softmax_launch(arguments));
      const std::vector<double> y = run.values();
      for (int i = 0; i < 2 * size; ++i) EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i >= size) << i;
    }
  }
}

TEST(CudaRows, Norms) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : kShapes) {
      for (const NormKind kind : {NormKind::layer, NormKind::rms, NormKind::l2}) {
        if (s.outer == 1030 && kind != NormKind::layer) continue;  // four warps a block
        const auto size = static_cast<size_t>(s.size);
        std::vector<double> x = storage.random(static_cast<size_t>(s.outer) * size, 3, 2.0);
        for (double& v : x) v = storage.rounded(v + 1);
        const std::vector<double> gain = kStorages[0].random(size, 4, 1.0), bias = kStorages[0].random(size, 5, 1.0);
        const bool has_gain = s.outer != 3, has_bias = kind != NormKind::l2 && s.outer != 9;
        std::vector<double> expected = x;
        each_row(s, expected, [&](std::vector<double>& row) {
          norm(row, kind, 1e-5f, has_gain ? gain : std::vector<double>{}, has_bias ? bias : std::vector<double>{});
        });
        TestRun run;
        NormArguments arguments{.x = run.input(storage, x),
                                .y = run.output(storage, x.size()),
                                .gain = has_gain ? static_cast<const float*>(run.input(kStorages[0], gain)) : nullptr,
                                .bias = has_bias ? static_cast<const float*>(run.input(kStorages[0], bias)) : nullptr,
                                .rows = s.outer,
                                .size = s.size,
                                .epsilon = 1e-5f,
                                .kind = kind};
        run.launch("norm_" + storage.name, arguments, norm_launch(arguments));
        EXPECT_TRUE(run.near(expected, storage.tolerance(3e-6), 1))
            << storage.name << " " << s.outer << " x " << s.size << " kind " << static_cast<int>(kind);
      }
    }
  }
}

TEST(CudaRows, NormsAlongChannels) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : kStrided) {
      for (const NormKind kind : {NormKind::layer, NormKind::rms, NormKind::l2}) {
        const std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.size * s.inner), 6, 2.0);
        const std::vector<double> gain = kStorages[0].random(static_cast<size_t>(s.size), 4, 1.0);
        std::vector<double> expected = x;
        each_row(s, expected, [&](std::vector<double>& row) { norm(row, kind, 0.1f, gain, gain); });
        TestRun run;
        const auto* row = static_cast<const float*>(run.input(kStorages[0], gain));
        NormStridedArguments arguments{.norm = {.x = run.input(storage, x),
                                                .y = run.output(storage, x.size()),
                                                .gain = row,
                                                .bias = row,
                                                .rows = s.outer * s.inner,
                                                .size = s.size,
                                                .epsilon = 0.1f,
                                                .kind = kind},
                                       .inner = s.inner,
                                       .of_inner = make_divisor(s.inner)};
        run.launch("norm_strided_" + storage.name, arguments, norm_strided_launch(arguments));
        EXPECT_TRUE(run.near(expected, storage.tolerance(3e-6), 1)) << storage.name << " " << s.inner;
      }
    }
  }
}

// A mean far from 0 loses nothing: the variance is of distances. Rows of zeros, and NaN.
TEST(CudaRows, NormsOfOddRows) {
  std::vector<double> x(3 * 520);
  for (size_t i = 0; i < 520; ++i) x[i] = kStorages[0].rounded(1000 + std::sin(static_cast<double>(i)));
  for (size_t i = 1040; i < 1560; ++i) x[i] = i == 1100 ? NAN : 1;
  for (const NormKind kind : {NormKind::layer, NormKind::l2}) {
    const float epsilon = kind == NormKind::layer ? 1e-5f : 0;
    std::vector<double> expected = x;
    each_row({3, 520, 1}, expected, [&](std::vector<double>& row) { norm(row, kind, epsilon, {}, {}); });
    for (size_t i = 1040; i < 1560; ++i) expected[i] = NAN;
    TestRun run;
    NormArguments arguments{.x = run.input(kStorages[0], x),
                            .y = run.output(kStorages[0], x.size()),
                            .gain = nullptr,
                            .bias = nullptr,
                            .rows = 3,
                            .size = 520,
                            .epsilon = epsilon,
                            .kind = kind};
    run.launch("norm_f32", arguments, norm_launch(arguments));
    EXPECT_TRUE(near_special(run, expected, 1e-4, 1)) << static_cast<int>(kind);
  }
}

TEST(CudaRows, ReadsARowOnceIn16Bytes) {
  for (const TestStorage& storage : kStorages) {
    for (const bool with_gain : {false, true}) {
      TestRun run;
      run.count_traffic();
      const std::vector<double> x = storage.random(10 * 512, 7, 1.0), gain = kStorages[0].random(512, 8, 1.0);
      NormArguments arguments{.x = run.input(storage, x),
                              .y = run.output(storage, x.size()),
                              .gain = static_cast<const float*>(run.input(kStorages[0], gain)),
                              .bias = nullptr,
                              .rows = 10,
                              .size = 512,
                              .epsilon = 1e-5f,
                              .kind = NormKind::layer};
      if (!with_gain) arguments.gain = nullptr;
      run.launch("norm_" + storage.name, arguments, norm_launch(arguments));
      run.values();
      uint64_t read = 0, written = 0;
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (line.shared) continue;
        // The eight f32 of gain that go with eight of 16 bits are two requests, each to every other 16 bytes.
        EXPECT_EQ(line.used(), with_gain && line.used() < 1 && storage.bytes() == 2 ? 0.5 : 1.0) << line.line;
        EXPECT_EQ(line.bytes, line.requests * 512) << line.line;
        (line.write ? written : read) += line.bytes;
      }
      EXPECT_EQ(read, 10u * 512 * (storage.bytes() + (with_gain ? 4 : 0)));
      EXPECT_EQ(written, 10u * 512 * storage.bytes());
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::rows_test
