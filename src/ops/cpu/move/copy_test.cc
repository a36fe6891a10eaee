// Compares every path of copy_strided with a simple loop.
#include "ops/cpu/move/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/parallel.h"

namespace sparkpilot {
namespace {

struct Layout {
  std::vector<CopyLoop> loops;
  int64_t from_start = 0, from_size = 0, to_size = 0;
};

void plain(DType dtype, const Layout& layout, const void* from, void* to) {
  std::vector<int64_t> at(layout.loops.size());
  for (bool more = true; more;) {
    int64_t f = layout.from_start, t = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      f += at[i] * layout.loops[i].from;
      t += at[i] * layout.loops[i].to;
    }
    store_element(dtype, to, t, load_element(dtype, from, f));
    more = false;
    for (size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < layout.loops[i].count;
      if (!more) at[i] = 0;
    }
  }
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {{{300000, 1, 1}}, 0, 300000, 300000},                           // one run, several pieces
      {{{7, 50, 100}, {50, 1, 1}}, 0, 350, 700},                       // rows into wider rows
      {{{37, 1, 53}, {53, 37, 1}}, 0, 37 * 53, 37 * 53},               // transposition, ragged
      {{{64, 1, 96}, {96, 64, 1}}, 0, 64 * 96, 64 * 96},               // transposition, whole tiles
      {{{3, 1, 1}, {101, 3, 3}, {2, 303, 303}}, 0, 606, 606},          // merges to one run
      {{{2, 3030, 3030}, {3, 1, 1010}, {1010, 3, 1}}, 0, 6060, 6060},  // NHWC to NCHW
      {{{2, 3030, 3030}, {1010, 1, 3}, {3, 1010, 1}}, 0, 6060, 6060},  // NCHW to NHWC
      {{{1531, 1, 4}, {4, 1531, 1}}, 0, 6124, 6124},                   // ... of few channels
      {{{2, 9186, 9186}, {1531, 1, 6}, {6, 1531, 1}}, 0, 18372, 18372},
      {{{1531, 1, 8}, {8, 1531, 1}}, 0, 12248, 12248},
      {{{5, 0, 40}, {40, 1, 1}}, 0, 40, 200},                          // broadcast of rows
      {{{40, 1, 5}, {5, 0, 1}}, 0, 40, 200},                           // broadcast of elements
      {{{40, -1, 1}}, 39, 40, 40},                                     // backwards
      {{{9, -20, 10}, {10, 2, 1}}, 160, 180, 90},                      // rows backwards, every second element
      {{{11, 2, 26}, {13, 22, 2}, {2, 1, 1}}, 0, 286, 286},            // transposition of pairs
      {{{11, 4, 52}, {13, 44, 4}, {4, 1, 1}}, 0, 572, 572},            // ... of quadruples
      {{{2, 60, 1}, {3, 20, 2}, {4, 5, 6}, {5, 1, 24}}, 0, 120, 120},  // all axes reversed
      {{}, 0, 1, 1},                                                   // a scalar
      {{{4, 1, 7}, {1, 0, 0}}, 0, 4, 28},                              // strided destination
  };
  return all;
}

TEST(Copy, EveryLayoutAndSize) {
  for (const DType dtype : {DType::u8, DType::u16, DType::u32, DType::f64, DType::u4, DType::i2}) {
    for (const int threads : {1, 3}) {
      const ThreadScope scope(threads);
      for (size_t l = 0; l < layouts().size(); ++l) {
        const Layout& layout = layouts()[l];
        Tensor from = Tensor::zeros(dtype, Shape{layout.from_size});
        for (int64_t i = 0; i < layout.from_size; ++i) {
          store_element(dtype, from.raw(), i, static_cast<double>(bits(dtype) < 8 ? i * 7 % 3 - (i % 2) : i % 251));
        }
        const Tensor expected = Tensor::zeros(dtype, Shape{layout.to_size});
        const Tensor got = Tensor::zeros(dtype, Shape{layout.to_size});
        plain(dtype, layout, from.raw(), expected.raw());
        CopyLoops loops;
        for (const CopyLoop& loop : layout.loops) loops.add(loop.count, loop.from, loop.to);
        copy_strided(dtype, loops, from.raw(), layout.from_start, got.raw(), 0);
        EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), static_cast<size_t>(got.bytes())), 0)
            << name(dtype) << " layout " << l;
      }
    }
  }
}

TEST(Copy, NothingIsCopiedWhenALoopIsEmpty) {
  CopyLoops loops;
  loops.add(3, 1, 1);
  loops.add(0, 1, 1);
  copy_strided(DType::f32, loops, nullptr, 0, nullptr, 0);
}

TEST(Copy, FillSetsEveryElement) {
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::i64, DType::u4}) {
    Tensor value = Tensor::zeros(dtype, Shape{}), out = Tensor::zeros(dtype, Shape{1001});
    store_element(dtype, value.raw(), 0, 5);
    fill(dtype, out.raw(), 1001, value.raw());
    for (int64_t i = 0; i < 1001; ++i) ASSERT_EQ(load_element(dtype, out.raw(), i), 5) << name(dtype);
  }
}

}  // namespace
}  // namespace sparkpilot
