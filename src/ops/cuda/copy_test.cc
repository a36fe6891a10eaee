#include "ops/cuda/copy.h"

#include <numeric>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::copy_test {
namespace {

// Types of 1, 2, 4 and 8 bytes.
const TestStorage kBytes[] = {element_of(ElementType::u8).storage, element_of(ElementType::f16).storage,
                              element_of(ElementType::i32).storage, element_of(ElementType::i64).storage};

std::vector<double> numbers(int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(i * 7 % 251);
  return out;
}
const void* plus(const void* data, int64_t bytes) { return static_cast<const char*>(data) + bytes; }
void* plus(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

// y has `sizes` and lies together; its element i is x[origin + offset of i by `strides`].
void expect_copy(const std::vector<int64_t>& x_sizes, const std::vector<int64_t>& sizes, int64_t origin,
                 const std::vector<int64_t>& strides) {
  const std::vector<double> x = numbers(product(x_sizes));
  for (const TestStorage& storage : kBytes) {
    const auto bytes = static_cast<int>(storage.bytes());
    std::vector<double> expected;
    for (int64_t i = 0; i < product(sizes); ++i) {
      expected.push_back(x[static_cast<size_t>(origin + strided_offset(i, sizes, strides))]);
    }
    TestRun run;
    const void* from = plus(run.input(storage, x), origin * bytes);
    void* to = run.output(storage, expected.size());
    const auto piece = make_copy(from, to, bytes, sizes, strides, contiguous_strides(sizes));
    ASSERT_TRUE(piece);
    const CopyArguments arguments = make_copies({*piece});
    run.launch("copy_strided", arguments, copy_strided_launch(arguments));
    EXPECT_TRUE(run.near(expected, 0)) << storage.name << " " << sizes.size() << " dimensions";
  }
}

TEST(CudaCopy, Slices) {
  expect_copy({1}, {1}, 0, {1});
  expect_copy({5000}, {4999}, 1, {1});
  expect_copy({3, 8, 16}, {3, 8, 16}, 0, {128, 16, 1});
  expect_copy({3, 8, 16}, {3, 4, 8}, 2 * 16 + 8, {128, 16, 1});
  expect_copy({3, 8, 16}, {3, 4, 5}, 3, {128, 32, 2});
  expect_copy({4, 9}, {4, 9}, 3 * 9 + 8, {-9, -1});
  expect_copy({2, 3, 2, 5, 2, 3}, {2, 2, 2, 3, 2, 2}, 0, {180, 60, 30, 6, 3, 1});
}

TEST(CudaCopy, TransposesExpandsAndTiles) {
  expect_copy({2, 3, 4, 5}, {2, 4, 5, 3}, 0, {60, 5, 1, 20});
  expect_copy({2, 8, 3, 16}, {2, 3, 8, 16}, 0, {384, 16, 48, 1});
  expect_copy({2, 3, 2, 5, 2, 3}, {3, 3, 5, 2, 2, 2}, 0, {1, 60, 6, 3, 180, 30});
  expect_copy({3, 1, 8}, {2, 3, 5, 8}, 0, {0, 8, 0, 1});
  expect_copy({3, 4}, {2, 3, 3, 4}, 0, {0, 4, 0, 1});  // tiled by 2, 3 along the first and between
}

TEST(CudaCopy, PieceThatCopiesRunsIsWide) {
  alignas(16) static char memory[64];
  const auto unit = [&](int64_t offset, int bytes, const std::vector<int64_t>& sizes,
                        const std::vector<int64_t>& strides) {
    return make_copy(memory + offset, memory, bytes, sizes, strides, contiguous_strides(sizes))->unit;
  };
  EXPECT_EQ(unit(0, 2, {8}, {1}), 16);
  EXPECT_EQ(unit(0, 2, {5, 24}, {48, 1}), 16);
  EXPECT_EQ(unit(0, 2, {5, 12}, {24, 1}), 8);
  EXPECT_EQ(unit(0, 2, {5, 9}, {24, 1}), 2);
  EXPECT_EQ(unit(8, 1, {5, 32}, {64, 1}), 8);
  EXPECT_EQ(unit(1, 1, {5, 32}, {64, 1}), 1);
  EXPECT_EQ(unit(0, 4, {5, 4}, {-4, 1}), 16);
  EXPECT_EQ(unit(0, 4, {5, 4}, {4, 2}), 4);
  EXPECT_FALSE(make_copy(memory, memory, 4, {3, 0}, {4, 1}, {4, 1}));
}

// Concat of parts with 1, 512, 3 and 40 columns, and the same back: each in one launch.
TEST(CudaCopy, ConcatAndSplit) {
  const std::vector<int64_t> widths = {1, 512, 3, 40};
  const int64_t rows = 5, all = 556;
  for (const TestStorage& storage : kBytes) {
    const auto bytes = static_cast<int>(storage.bytes());
    TestRun concat, split;
    const std::vector<double> whole = numbers(rows * all);
    const void* from = split.input(storage, whole);
    void* to = concat.output(storage, whole.size());
    void* parts = split.output(storage, whole.size());  // one after another
    std::vector<double> expected_parts;
    std::vector<CopyPiece> joins, splits;
    int64_t column = 0;
    for (const int64_t width : widths) {
      std::vector<double> part;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < width; ++i) part.push_back(whole[static_cast<size_t>(r * all + column + i)]);
      }
      expected_parts.insert(expected_parts.end(), part.begin(), part.end());
      const void* x = concat.input(storage, part);
      joins.push_back(*make_copy(x, plus(to, column * bytes), bytes, {rows, width}, {width, 1}, {all, 1}));
      splits.push_back(*make_copy(plus(from, column * bytes), plus(parts, column * rows * bytes), bytes, {rows, width},
                                  {all, 1}, {width, 1}));
      column += width;
    }
    const CopyArguments join = make_copies(joins), cut = make_copies(splits);
    concat.launch("copy_strided", join, copy_strided_launch(join));
    EXPECT_TRUE(concat.near(whole, 0)) << storage.name;
    split.launch("copy_strided", cut, copy_strided_launch(cut));
    EXPECT_TRUE(split.near(expected_parts, 0)) << storage.name;
  }
}

TEST(CudaCopy, Tiles) {
  for (const auto& [sizes, permutation] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int>>>{{{33, 70}, {1, 0}},
                                                                      {{2, 24, 3, 11}, {0, 2, 3, 1}},
                                                                      {{3, 5, 8, 64}, {0, 3, 1, 2}},
                                                                      {{2, 100, 3}, {0, 2, 1}},
                                                                      {{31, 33}, {1, 0}},
                                                                      {{6, 40}, {1, 0}}}) {
    const std::vector<double> x = numbers(product(sizes));
    std::vector<int64_t> to_sizes, strides;
    for (const int axis : permutation) {
      to_sizes.push_back(sizes[static_cast<size_t>(axis)]);
      strides.push_back(contiguous_strides(sizes)[static_cast<size_t>(axis)]);
    }
    std::vector<double> expected;
    for (int64_t i = 0; i < product(sizes); ++i) {
      expected.push_back(x[static_cast<size_t>(strided_offset(i, to_sizes, strides))]);
    }
    for (const TestStorage& storage : kBytes) {
      TestRun run;
      const void* from = run.input(storage, x);
      void* to = run.output(storage, x.size());
      const auto arguments = make_transpose(from, to, static_cast<int>(storage.bytes()), sizes, permutation);
      ASSERT_TRUE(arguments);
      run.launch("copy_tiles", *arguments, copy_tiles_launch(*arguments));
      EXPECT_TRUE(run.near(expected, 0)) << storage.name << " " << sizes[0] << " " << sizes[1];
    }
  }
  EXPECT_FALSE(make_transpose(nullptr, nullptr, 4, {4, 5, 6}, {2, 1, 0}));
  EXPECT_FALSE(make_transpose(nullptr, nullptr, 4, {8, 9}, {1, 0}));
}

TEST(CudaCopy, Pads) {
  const auto source = [](int64_t i, int64_t size, PadMode mode) -> int64_t {
    if (mode == PadMode::constant) return i >= 0 && i < size ? i : -1;
    if (mode == PadMode::edge) return std::min(std::max<int64_t>(i, 0), size - 1);
    if (mode == PadMode::wrap) return (i % size + size) % size;
    const int64_t period = std::max<int64_t>(2 * (size - 1), 1), at = (i % period + period) % period;
    return at < size ? at : period - at;
  };
  const std::vector<int64_t> sizes = {2, 3, 5, 4};
  struct Pads {
    std::vector<int64_t> before, after;
  };
  for (const Pads& pads : {Pads{{0, 0, 2, 1}, {0, 0, 1, 3}}, Pads{{0, 2, 0, 0}, {1, 1, 0, 0}},
                           Pads{{0, -1, 4, 0}, {0, 1, -2, 0}}, Pads{{0, 0, 0, 0}, {0, 0, 0, 0}}}) {
    for (const PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect, PadMode::wrap}) {
      for (const TestStorage& storage : kBytes) {
        const std::vector<double> x = numbers(product(sizes));
        std::vector<int64_t> y_sizes;
        for (size_t d = 0; d < 4; ++d) y_sizes.push_back(sizes[d] + pads.before[d] + pads.after[d]);
        std::vector<double> expected;
        for (int64_t i = 0; i < product(y_sizes); ++i) {
          int64_t rest = i, step = 1, at = 0;
          for (size_t d = 4; d-- > 0; rest /= y_sizes[d], step *= sizes[d]) {
            const int64_t from = source(rest % y_sizes[d] - pads.before[d], sizes[d], mode);
            at = from < 0 || at < 0 ? -1 : at + from * step;
          }
          expected.push_back(at < 0 ? 9 : x[static_cast<size_t>(at)]);
        }
        uint64_t nine = 0;
        store_element(storage.dtype, &nine, 0, 9);
        TestRun run;
        const void* from = run.input(storage, x);
        void* y = run.output(storage, expected.size());
        const PadArguments arguments =
            make_pad(from, y, static_cast<int>(storage.bytes()), sizes, pads.before, pads.after, mode, nine);
        run.launch("pad", arguments, pad_launch(arguments));
        EXPECT_TRUE(run.near(expected, 0)) << storage.name << " mode " << static_cast<int>(mode);
      }
    }
  }
}

TEST(CudaCopy, TrafficIsWideAndFreeOfConflicts) {
  for (const TestStorage& storage : kBytes) {
    for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{64, 96}, {24, 128}, {128, 24}}) {
      TestRun run;
      run.count_traffic();
      const void* from = run.input(storage, numbers(rows * columns));
      void* to = run.output(storage, static_cast<size_t>(rows * columns));
      const TransposeArguments arguments =
          *make_transpose(from, to, static_cast<int>(storage.bytes()), {rows, columns}, {1, 0});
      run.launch("copy_tiles", arguments, copy_tiles_launch(arguments));
      run.values();
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        if (line.shared) EXPECT_LE(line.worst_bank, rows == 64 ? 1 : 2) << storage.name << " " << line.line;
        else EXPECT_EQ(line.used(), 1.0) << storage.name << " " << line.line;
      }
    }
  }
  TestRun run;
  run.count_traffic();
  const void* from = run.input(kBytes[1], numbers(10 * 512));
  void* to = run.output(kBytes[1], 10 * 512);
  const CopyArguments copies =
      make_copies({*make_copy(from, to, 2, {10, 256}, {512, 1}, {256, 1}),
                   *make_copy(plus(from, 512), plus(to, 10 * 512), 2, {10, 256}, {512, 1}, {256, 1})});
  run.launch("copy_strided", copies, copy_strided_launch(copies));
  run.values();
  for (const emulator::Checker::Traffic& line : run.traffic()) {
    EXPECT_EQ(line.used(), 1.0) << line.line;
    EXPECT_EQ(line.bytes, line.requests * 512) << line.line;
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::copy_test
