#include "ops/cuda/reduce.h"

#include <cmath>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::reduce_test {
namespace {

const ReduceKind kKinds[] = {ReduceKind::sum,     ReduceKind::mean,       ReduceKind::max, ReduceKind::min,
                             ReduceKind::prod,    ReduceKind::l1,         ReduceKind::l2,  ReduceKind::sum_square,
                             ReduceKind::log_sum, ReduceKind::log_sum_exp};

double reduced(ReduceKind kind, const std::vector<double>& x) {
  double sum = 0, absolute = 0, squares = 0, product = 1, most = -INFINITY, least = INFINITY, exponentials = 0;
  bool nan = false;
  for (const double v : x) {
    sum += v, absolute += std::fabs(v), squares += v * v, product *= v;
    most = std::max(most, v), least = std::min(least, v), nan |= v != v;
  }
  const double shift = std::isfinite(most) ? most : 0;
  for (const double v : x) exponentials += std::exp(v - shift);
  if (nan) return NAN;
  switch (kind) {
    case ReduceKind::sum: return sum;
    case ReduceKind::mean: return sum / static_cast<double>(x.size());
    case ReduceKind::max: return most;
    case ReduceKind::min: return least;
    case ReduceKind::prod: return product;
    case ReduceKind::l1: return absolute;
    case ReduceKind::l2: return std::sqrt(squares);
    case ReduceKind::sum_square: return squares;
    case ReduceKind::log_sum: return std::log(sum);
    default: return shift + std::log(exponentials);
  }
}

struct Shape {
  int outer, size, inner;
};

// By `parts` parts (0: as many as the host would choose for a GPU of 48 multiprocessors).
testing::AssertionResult agrees(const TestStorage& storage, const Shape& s, ReduceKind kind,
                                const std::vector<double>& x, int parts = 0) {
  std::vector<double> expected;
  for (int o = 0; o < s.outer; ++o) {
    for (int i = 0; i < s.inner; ++i) {
      std::vector<double> row;
      for (int k = 0; k < s.size; ++k) row.push_back(x[static_cast<size_t>((o * s.size + k) * s.inner + i)]);
      expected.push_back(reduced(kind, row));
    }
  }
  TestRun run;
  ReduceArguments arguments{.x = run.input(storage, x),
                            .y = run.output(storage, expected.size()),
                            .partials = nullptr,
                            .outer = s.outer,
                            .inner = s.inner,
                            .size = s.size,
                            .part = 0,
                            .parts = 1,
                            .kind = kind};
  set_reduce_parts(arguments, 48);
  if (parts > 0) {
    arguments.part = (s.size / parts + 8) / 8 * 8;
    arguments.parts = (s.size + arguments.part - 1) / arguments.part;
  }
  if (arguments.parts > 1) arguments.partials = static_cast<float*>(run.scratch(reduce_partial_bytes(arguments)));
  if (s.inner == 1) run.launch("reduce_rows_" + storage.name, arguments, reduce_rows_launch(arguments));
  else run.launch("reduce_columns_" + storage.name, arguments, reduce_columns_launch(arguments));
  if (arguments.parts > 1) run.launch("reduce_parts_" + storage.name, arguments, reduce_parts_launch(arguments));
  return near_special(run, expected, storage.tolerance(1e-5), storage.dtype == DType::f32 ? 0.05 : 1);
}

std::vector<double> values(const TestStorage& storage, const Shape& s, ReduceKind kind) {
  std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.size * s.inner), 1, 0.5);
  if (kind == ReduceKind::prod || kind == ReduceKind::log_sum) {
    for (double& v : x) v = storage.rounded(kind == ReduceKind::prod ? 1 + v / 64 : std::fabs(v));
  }
  return x;
}

TEST(CudaReduce, RowsAndColumns) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : {Shape{1, 1, 1},
                           {5, 7, 1},
                           {3, 1000, 1},
                           {2, 1029, 1},
                           {1030, 3, 1},
                           {1, 3, 2},
                           {2, 9, 33},
                           {1, 32, 96},
                           {3, 64, 5}}) {
      for (const ReduceKind kind : kKinds) {
        if (s.outer == 1030 && kind != ReduceKind::mean) continue;  // four warps a block
        const bool common = kind == ReduceKind::mean || kind == ReduceKind::max || kind == ReduceKind::log_sum_exp;
        if (storage.dtype != DType::f32 && !common) continue;
        EXPECT_TRUE(agrees(storage, s, kind, values(storage, s, kind)))
            << storage.name << " " << s.outer << " " << s.size << " " << s.inner << " kind " << static_cast<int>(kind);
      }
    }
  }
}

TEST(CudaReduce, Parts) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : {Shape{1, 9000, 1}, {2, 4100, 1}, {1, 700, 40}}) {
      for (const ReduceKind kind : kKinds) {
        if (storage.dtype != DType::f32 && kind != ReduceKind::mean) continue;
        EXPECT_TRUE(agrees(storage, s, kind, values(storage, s, kind), 5))
            << storage.name << " " << s.size << " kind " << static_cast<int>(kind);
      }
    }
  }
  ReduceArguments few{.x = nullptr,
                      .y = nullptr,
                      .partials = nullptr,
                      .outer = 1,
                      .inner = 1,
                      .size = 1 << 20,
                      .part = 0,
                      .parts = 0,
                      .kind = ReduceKind::sum};
  set_reduce_parts(few, 48);
  EXPECT_EQ(few.parts, 64);
  few.size = 3000;
  set_reduce_parts(few, 48);
  EXPECT_EQ(few.parts, 1);
  few.outer = 1000, few.size = 1 << 16;
  set_reduce_parts(few, 48);
  EXPECT_EQ(few.parts, 1);
}

TEST(CudaReduce, NanAndInfinityStay) {
  const TestStorage& storage = kStorages[0];
  for (const Shape& s : {Shape{4, 40, 1}, {4, 3000, 1}, {1, 100, 4}}) {
    for (const int parts : {1, 3}) {
      for (const ReduceKind kind : kKinds) {
        std::vector<double> x = values(storage, s, kind);
        for (double& v : x) v = std::fabs(v) + 0.5;
        const auto put = [&](int output, int i, double value) {
          x[static_cast<size_t>(s.inner == 1 ? output * s.size + i : i * s.inner + output)] = value;
        };
        put(0, 33, NAN);
        put(1, 17, INFINITY);
        for (int i = 0; i < s.size; ++i) put(2, i, kind == ReduceKind::log_sum_exp ? -INFINITY : 1);
        for (int i = 0; i < s.size; ++i) put(3, i, kind == ReduceKind::log_sum_exp && i != 5 ? -INFINITY : -1000);
        if (kind == ReduceKind::prod) {
          for (double& v : x) v = std::isfinite(v) ? 1 : v;
        }
        if (kind == ReduceKind::log_sum) {
          for (double& v : x) v = v < 0 ? 1 : v;
        }
        EXPECT_TRUE(agrees(storage, s, kind, x, parts)) << s.size << " kind " << static_cast<int>(kind) << " " << parts;
      }
    }
  }
}

TEST(CudaReduce, ShapesThatLieTogether) {
  const auto shape = [](const std::vector<int64_t>& sizes, uint32_t axes) {
    const auto found = reduce_shape(sizes, axes);
    return found ? std::vector<int64_t>{found->outer, found->size, found->inner} : std::vector<int64_t>{};
  };
  EXPECT_EQ(shape({2, 3, 4, 5}, 0b0110), (std::vector<int64_t>{2, 12, 5}));
  EXPECT_EQ(shape({2, 3, 4, 5}, 0b1111), (std::vector<int64_t>{1, 120, 1}));
  EXPECT_EQ(shape({2, 3, 4, 5}, 0b0101), (std::vector<int64_t>{}));
  EXPECT_EQ(shape({2, 1, 4, 5}, 0b0101), (std::vector<int64_t>{1, 8, 5}));
  EXPECT_EQ(shape({1, 3, 1, 5}, 0b0101), (std::vector<int64_t>{15, 1, 1}));
}

TEST(CudaReduce, Indices) {
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : {Shape{1, 1, 1}, {5, 7, 1}, {3, 100, 1}, {2, 33, 5}}) {
      for (const bool least : {false, true}) {
        for (const bool last : {false, true}) {
          std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.size * s.inner), 2, 2.0);
          for (double& v : x) v = std::round(v);  // with equal ones
          if (s.size == 33) x[12 * 5 + 1] = x[30 * 5 + 1] = NAN;
          std::vector<double> expected;
          for (int o = 0; o < s.outer; ++o) {
            for (int i = 0; i < s.inner; ++i) {
              const auto at = [&](int k) { return x[static_cast<size_t>((o * s.size + k) * s.inner + i)]; };
              int best = 0;
              for (int k = 1; k < s.size; ++k) {
                const double v = at(k), b = at(best);
                const bool beats = b != b ? last && v != v : v != v || (least ? v < b : v > b) || (last && v == b);
                if (beats) best = k;
              }
              expected.push_back(best);
            }
          }
          TestRun run;
          ArgReduceArguments arguments{
              .x = run.input(storage, x),
              .y = static_cast<long long*>(run.output(element_of(ElementType::i64).storage, expected.size())),
              .outer = s.outer,
              .size = s.size,
              .inner = s.inner,
              .of_inner = make_divisor(s.inner),
              .least = least,
              .last = last};
          run.launch("arg_reduce_" + storage.name, arguments, arg_reduce_launch(arguments));
          EXPECT_TRUE(run.near(expected, 0)) << storage.name << " " << s.size << least << last;
        }
      }
    }
  }
}

TEST(CudaReduce, ReadsWholeSectors) {
  for (const Shape& s : {Shape{4, 512, 1}, {1, 32, 1024}}) {
    TestRun run;
    run.count_traffic();
    const std::vector<double> x = kStorages[1].random(static_cast<size_t>(s.outer * s.size * s.inner), 3, 1.0);
    ReduceArguments arguments{.x = run.input(kStorages[1], x),
                              .y = run.output(kStorages[1], static_cast<size_t>(s.outer * s.inner)),
                              .partials = nullptr,
                              .outer = s.outer,
                              .inner = s.inner,
                              .size = s.size,
                              .part = 0,
                              .parts = 1,
                              .kind = ReduceKind::mean};
    set_reduce_parts(arguments, 48);
    EXPECT_EQ(arguments.parts, 1);
    if (s.inner == 1) run.launch("reduce_rows_f16", arguments, reduce_rows_launch(arguments));
    else run.launch("reduce_columns_f16", arguments, reduce_columns_launch(arguments));
    run.values();
    uint64_t read = 0;
    for (const emulator::Checker::Traffic& line : run.traffic()) {
      if (line.shared) {
        EXPECT_LE(line.worst_bank, 1) << line.line;
      } else if (!line.write) {
        EXPECT_EQ(line.used(), 1.0) << line.line;
        read += line.bytes;
      }
    }
    EXPECT_EQ(read, x.size() * 2);
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::reduce_test
