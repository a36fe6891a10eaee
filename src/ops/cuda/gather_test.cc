#include "ops/cuda/gather.h"

#include <cmath>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::gather_test {
namespace {

const TestStorage kBytes[] = {element_of(ElementType::u8).storage, element_of(ElementType::f16).storage,
                              element_of(ElementType::i32).storage, element_of(ElementType::i64).storage};
const TestStorage& index_storage(bool wide) { return element_of(wide ? ElementType::i64 : ElementType::i32).storage; }

std::vector<double> numbers(int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(1 + i * 7 % 250);
  return out;
}

TEST(CudaGather, Gathers) {
  struct Shape {
    int64_t outer, size, inner;
    std::vector<double> indices;
  };
  for (const Shape& s : std::vector<Shape>{{1, 1, 1, {0}},
                                           {1, 100, 512, {99, -1, 3, 4, 4, 0, -100, 50}},  // a history of features
                                           {3, 5, 7, {4, 0, -2}},
                                           {2, 9, 6, {8}},
                                           {4, 3, 1, {2, 1, 0, 1, 2}},
                                           {1, 4, 3, {4, -5, 1}}}) {  // two out of range
    const std::vector<double> x = numbers(s.outer * s.size * s.inner);
    std::vector<double> expected;
    for (int64_t o = 0; o < s.outer; ++o) {
      for (const double index : s.indices) {
        const auto k = static_cast<int64_t>(index < 0 ? index + static_cast<double>(s.size) : index);
        for (int64_t i = 0; i < s.inner; ++i) {
          expected.push_back(k < 0 || k >= s.size ? 0 : x[static_cast<size_t>((o * s.size + k) * s.inner + i)]);
        }
      }
    }
    for (const TestStorage& storage : kBytes) {
      for (const bool wide : {false, true}) {
        TestRun run;
        const void* data = run.input(storage, x);
        const void* indices = run.input(index_storage(wide), s.indices);
        void* y = run.output(storage, expected.size());
        const GatherArguments arguments = make_gather(data, indices, wide, y, static_cast<int>(storage.bytes()),
                                                      s.outer, s.size, s.inner, static_cast<int64_t>(s.indices.size()));
        if (s.inner == 512) {
          EXPECT_EQ(arguments.unit, 16);
        }
        run.launch("gather", arguments, gather_launch(arguments));
        EXPECT_TRUE(run.near(expected, 0)) << storage.name << " " << s.size << " of " << s.inner;
      }
    }
  }
}

TEST(CudaGather, ReadsWholeSectorsIn16Bytes) {
  TestRun run;
  run.count_traffic();
  const void* data = run.input(kBytes[1], numbers(25 * 512));
  const void* indices = run.input(index_storage(true), {24, 20, 16, 12, 8, 4, 0, -1});
  void* y = run.output(kBytes[1], 8 * 512);
  const GatherArguments arguments = make_gather(data, indices, true, y, 2, 1, 25, 512, 8);
  run.launch("gather", arguments, gather_launch(arguments));
  run.values();
  uint64_t moved = 0;
  for (const emulator::Checker::Traffic& line : run.traffic()) {
    if (line.bytes != line.requests * 512) continue;  // the indices
    EXPECT_EQ(line.used(), 1.0) << line.line;
    moved += line.bytes;
  }
  EXPECT_EQ(moved, 2u * 8 * 512 * 2);
}

TEST(CudaGather, GathersElements) {
  const std::vector<int64_t> x_sizes = {3, 5, 4};
  for (const auto& [y_sizes, axis] : std::vector<std::pair<std::vector<int64_t>, int>>{
           {{3, 7, 4}, 1}, {{2, 5, 4}, 0}, {{3, 5, 9}, 2}, {{1, 2, 3}, 1}}) {
    const std::vector<double> x = numbers(60);
    const int64_t size = x_sizes[static_cast<size_t>(axis)];
    std::vector<int64_t> strides = contiguous_strides(x_sizes);
    const int64_t stride = strides[static_cast<size_t>(axis)];
    strides[static_cast<size_t>(axis)] = 0;
    std::vector<double> indices, expected;
    for (int64_t i = 0; i < product(y_sizes); ++i) {
      const int64_t index = i * 3 % (2 * size) - size;
      indices.push_back(static_cast<double>(index));
      expected.push_back(x[static_cast<size_t>(strided_offset(i, y_sizes, strides) + (index + size) % size * stride)]);
    }
    for (const TestStorage& storage : kBytes) {
      for (const bool wide : {false, true}) {
        TestRun run;
        const void* data = run.input(storage, x);
        const void* at = run.input(index_storage(wide), indices);
        void* y = run.output(storage, expected.size());
        const GatherElementsArguments arguments =
            make_gather_elements(data, at, wide, y, static_cast<int>(storage.bytes()), x_sizes, y_sizes, axis);
        run.launch("gather_elements", arguments, gather_elements_launch(arguments));
        EXPECT_TRUE(run.near(expected, 0)) << storage.name << " axis " << axis;
      }
    }
  }
}

// Linear with two taps along the rows, nearest along the columns.
TEST(CudaGather, Resizes) {
  struct Shape {
    int outer, rows, columns, inner;
  };
  for (const TestStorage& storage : kStorages) {
    for (const Shape& s : {Shape{1, 1, 1, 1}, {2, 4, 3, 1}, {1, 5, 6, 16}, {1, 3, 7, 5}}) {
      const int y_rows = 2 * s.rows, y_columns = 2 * s.columns;
      std::vector<int32_t> row_index(static_cast<size_t>(2 * y_rows)), column_index;
      std::vector<float> row_weight(row_index.size());
      for (int i = 0; i < y_rows; ++i) {
        const double at = std::min(std::max((i + 0.5) / 2 - 0.5, 0.0), s.rows - 1.0);
        const auto low = static_cast<int>(at);
        row_index[static_cast<size_t>(i)] = low;
        row_index[static_cast<size_t>(y_rows + i)] = std::min(low + 1, s.rows - 1);
        row_weight[static_cast<size_t>(i)] = static_cast<float>(1 - (at - low));
        row_weight[static_cast<size_t>(y_rows + i)] = static_cast<float>(at - low);
      }
      for (int j = 0; j < y_columns; ++j) column_index.push_back(j / 2);
      std::vector<double> x = storage.random(static_cast<size_t>(s.outer * s.rows * s.columns * s.inner), 1, 1.0),
                          expected;
      x.back() = NAN;
      for (int o = 0; o < s.outer; ++o) {
        for (int i = 0; i < y_rows; ++i) {
          for (int j = 0; j < y_columns; ++j) {
            for (int c = 0; c < s.inner; ++c) {
              double sum = 0;
              for (int t = 0; t < 2; ++t) {
                const auto tap = static_cast<size_t>(t * y_rows + i);
                if (row_weight[tap] == 0) continue;
                sum += static_cast<double>(row_weight[tap]) *
                       x[static_cast<size_t>(((o * s.rows + row_index[tap]) * s.columns + j / 2) * s.inner + c)];
              }
              expected.push_back(sum);
            }
          }
        }
      }
      TestRun run;
      const void* data = run.input(storage, x);
      const ResizeTable rows{.index = static_cast<const int*>(run.bytes(row_index.data(), row_index.size() * 4)),
                             .weight = static_cast<const float*>(run.bytes(row_weight.data(), row_weight.size() * 4)),
                             .taps = 2};
      const ResizeTable columns{
          .index = static_cast<const int*>(run.bytes(column_index.data(), column_index.size() * 4)),
          .weight = nullptr,
          .taps = 1};
      void* y = run.output(storage, expected.size());
      const ResizeArguments arguments =
          make_resize(data, y, s.outer, s.rows, s.columns, s.inner, y_rows, y_columns, rows, columns);
      EXPECT_EQ(arguments.wide, s.inner == 16);
      run.launch("resize_" + storage.name, arguments, resize_launch(arguments));
      EXPECT_TRUE(near_special(run, expected, storage.tolerance(1e-6), 1)) << storage.name << " " << s.inner;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::gather_test
