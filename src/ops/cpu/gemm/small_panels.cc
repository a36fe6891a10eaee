#include "ops/cpu/gemm/small_panels.h"

#include <algorithm>

#include "base/parallel.h"
#include "tensor/small_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm/small_panels.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/gemm/register_tile-inl.h"
#include "ops/cpu/vector/e4m3-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

constexpr int64_t kPanel = SmallPanels::kPanel, kBlock = SmallPanels::kBlock;
using D = Tile::D;
using V = Tile::V;
constexpr int kLanes = Tile::kLanes;
// Vectors whose sums are in flight at once. The rest of a panel follows with the same weights in cache.
constexpr int kVecs = std::min(static_cast<int>(kPanel) / kLanes, 4);

HWY_INLINE V load_bytes(D d, const int8_t* bytes) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, bytes)));
}

// Twice the numbers of E2M1, by code.
alignas(16) constexpr uint8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, 255, 254, 253, 252, 250, 248, 244};

// Twice the numbers of 32 columns at one depth.
HWY_INLINE void decode_e2m1(const uint8_t* codes, int8_t* doubled) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 16; ++j) {
    doubled[j] = static_cast<int8_t>(kDoubled[codes[j] & 15]);
    doubled[j + 16] = static_cast<int8_t>(kDoubled[codes[j] >> 4]);
  }
#else
  const hn::CappedTag<uint8_t, 16> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto table = hn::Load(d, kDoubled), low = hn::Set(d, uint8_t{15});
  const auto both = hn::LoadU(d, codes);
  const auto high = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, both)));
  auto* to = reinterpret_cast<uint8_t*>(doubled);
  hn::StoreU(hn::TableLookupBytes(table, hn::And(both, low)), d, to);
  hn::StoreU(hn::TableLookupBytes(table, hn::And(high, low)), d, to + 16);
#endif
}

// One panel's sums for kRows rows: kVecs vectors from column `first` on. Even and odd depths (E4M3) or blocks have sums
// of their own, which hides the latency of the additions.
template <int kRows>
HWY_INLINE void sum_e4m3(const SmallPanels& b, int64_t panel, int64_t first, const float* const (&rows)[kRows],
                         Sums<kRows, kVecs>& s) {
  const uint8_t* codes = static_cast<const uint8_t*>(b.codes.raw()) + panel * b.depth * kPanel + first;
  Sums<kRows, kVecs> even, odd;
  s.start(nullptr);
  const D d;
  const auto step = [&](Sums<kRows, kVecs>& sums, int64_t p) HWY_ATTR {
    V x[kRows];
    HWY_UNROLL(2)
    for (int r = 0; r < kRows; ++r) x[r] = hn::Set(d, rows[r][p]);
    HWY_UNROLL(4)
    for (int j = 0; j < kVecs; ++j) {
      const V w = load_e4m3(d, codes + p * kPanel + j * kLanes);
      HWY_UNROLL(2)
      for (int r = 0; r < kRows; ++r) sums.v[r][j] = hn::MulAdd(x[r], w, sums.v[r][j]);
    }
  };
  for (int64_t p = 0; p < b.depth;) {
    const int64_t end = std::min(b.depth, p + SmallPanels::kPiece);
    even.start(nullptr);
    odd.start(nullptr);
    for (; p + 2 <= end; p += 2) {
      step(even, p);
      step(odd, p + 1);
    }
    for (; p < end; ++p) step(even, p);
    for (int j = 0; j < kVecs; ++j) {
      for (int r = 0; r < kRows; ++r) s.v[r][j] = hn::Add(s.v[r][j], hn::Add(even.v[r][j], odd.v[r][j]));
    }
  }
  const float* scales = b.scales.data<float>().data() + panel * kPanel + first;
  for (int j = 0; j < kVecs; ++j) {
    const V scale = hn::LoadU(d, scales + j * kLanes);
    for (int r = 0; r < kRows; ++r) s.v[r][j] = hn::Mul(s.v[r][j], scale);
  }
}

// The steps that a block's codes count, halved since decode_e2m1 doubles: (block scale * tensor scale) / 2.
HWY_INLINE V block_steps(const SmallPanels& b, D d, const uint8_t* scales) {
  const V step = hn::Mul(hn::Mul(load_e4m3(d, scales), hn::Set(d, 256.0f)), hn::Set(d, b.scale));
  return hn::Mul(step, hn::Set(d, 0.5f));
}

template <int kRows>
HWY_INLINE void sum_e2m1(const SmallPanels& b, int64_t panel, int64_t first, const float* const (&rows)[kRows],
                         Sums<kRows, kVecs>& s) {
  const uint8_t* codes = static_cast<const uint8_t*>(b.codes.raw()) + panel * b.blocks() * kBlock * (kPanel / 2);
  const uint8_t* scales = static_cast<const uint8_t*>(b.scales.raw()) + panel * b.blocks() * kPanel + first;
  const D d;
  s.start(nullptr);
  alignas(64) int8_t doubled[kPanel];
  for (int64_t block = 0; block < b.blocks(); ++block, scales += kPanel) {
    const int64_t begin = block * kBlock, count = std::min(kBlock, b.depth - begin);
    Sums<kRows, kVecs> part;
    part.start(nullptr);
    for (int64_t p = begin; p < begin + count; ++p) {
      decode_e2m1(codes + p * (kPanel / 2), doubled);
      HWY_UNROLL(4)
      for (int j = 0; j < kVecs; ++j) {
        const V w = load_bytes(d, doubled + first + j * kLanes);
        HWY_UNROLL(2)
        for (int r = 0; r < kRows; ++r) part.v[r][j] = hn::MulAdd(hn::Set(d, rows[r][p]), w, part.v[r][j]);
      }
    }
    HWY_UNROLL(4)
    for (int j = 0; j < kVecs; ++j) {
      const V step = block_steps(b, d, scales + j * kLanes);
      HWY_UNROLL(2)
      for (int r = 0; r < kRows; ++r) s.v[r][j] = hn::MulAdd(part.v[r][j], step, s.v[r][j]);
    }
  }
}

template <int kRows>
HWY_NOINLINE void panel_rows(const float* a, int64_t lda, const SmallPanels& b, const TileOutput& out,
                             const RowRange& range, int64_t panel) {
  const float* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = a + (range.first_row + r) * lda;
  const D d;
  for (int64_t first = 0; first < kPanel; first += kVecs * kLanes) {
    const int64_t column = panel * kPanel + first, left = std::min<int64_t>(kVecs * kLanes, b.columns - column);
    if (left <= 0) return;
    Sums<kRows, kVecs> s;
    if (b.four_bits) sum_e2m1(b, panel, first, rows, s);
    else sum_e4m3(b, panel, first, rows, s);
    if (out.bias) {
      for (int j = 0; j < kVecs; ++j) {
        const V bias = hn::LoadU(d, out.bias + column + j * kLanes);
        for (int r = 0; r < kRows; ++r) s.v[r][j] = hn::Add(s.v[r][j], bias);
      }
    }
    s.store(out, out.y + range.first_row * out.stride + column, left);
  }
}

void multiply_small_impl(const float* a, int64_t lda, const SmallPanels& b, const TileOutput& out,
                         const RowRange& range) {
  for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
    if (range.last_row - range.first_row == 1) panel_rows<1>(a, lda, b, out, range, panel);
    else panel_rows<2>(a, lda, b, out, range, panel);
  }
}

void decode_panel_impl(const SmallPanels& b, int64_t panel, float* to) {
  const D d;
  const auto* codes = static_cast<const uint8_t*>(b.codes.raw());
  if (!b.four_bits) {
    codes += panel * b.depth * kPanel;
    const float* scales = b.scales.data<float>().data() + panel * kPanel;
    for (int64_t p = 0; p < b.depth; ++p, codes += kPanel, to += kPanel) {
      for (int64_t j = 0; j < kPanel; j += kLanes) {
        hn::StoreU(hn::Mul(load_e4m3(d, codes + j), hn::LoadU(d, scales + j)), d, to + j);
      }
    }
    return;
  }
  codes += panel * b.blocks() * kBlock * (kPanel / 2);
  const uint8_t* scales = static_cast<const uint8_t*>(b.scales.raw()) + panel * b.blocks() * kPanel;
  alignas(64) int8_t doubled[kPanel];
  alignas(64) float steps[kPanel];
  for (int64_t block = 0; block < b.depth; block += kBlock, scales += kPanel) {
    for (int64_t j = 0; j < kPanel; j += kLanes) hn::StoreU(block_steps(b, d, scales + j), d, steps + j);
    for (int64_t p = block; p < std::min(b.depth, block + kBlock); ++p, codes += kPanel / 2, to += kPanel) {
      decode_e2m1(codes, doubled);
      for (int64_t j = 0; j < kPanel; j += kLanes) {
        hn::StoreU(hn::Mul(load_bytes(d, doubled + j), hn::LoadU(d, steps + j)), d, to + j);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(multiply_small_impl);
HWY_EXPORT(decode_panel_impl);

void multiply_small(const float* a, int64_t lda, const SmallPanels& b, const TileOutput& out, const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(multiply_small_impl)(a, lda, b, out, range);
}

void decode_panel(const SmallPanels& b, int64_t panel, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_panel_impl)(b, panel, to);
}

SmallPanels pack_small(const SmallSource& source, int64_t depth, int64_t columns) {
  constexpr int64_t kPanel = SmallPanels::kPanel, kBlock = SmallPanels::kBlock;
  SmallPanels out{.depth = depth, .columns = columns, .four_bits = source.codes.dtype == DType::f4e2m1};
  const auto* codes = source.codes.as<uint8_t>();
  const int64_t rows = out.four_bits ? out.blocks() * kBlock : depth, width = out.four_bits ? kPanel / 2 : kPanel;
  out.codes = Tensor::zeros(DType::u8, Shape{out.panels(), rows, width});
  auto* to = static_cast<uint8_t*>(out.codes.raw());
  parallel_for(out.panels(), 1 + 65536 / (depth * kPanel), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kPanel, count = std::min(kPanel, columns - first);
      for (int64_t p = 0; p < depth; ++p) {
        uint8_t* row = to + (panel * rows + p) * width;
        for (int64_t j = 0; j < count; ++j) {
          const int64_t at = p * source.row + (first + j) * source.column;
          if (!out.four_bits) row[j] = codes[at];
          else row[j % 16] |= static_cast<uint8_t>((codes[at / 2] >> at % 2 * 4 & 15) << j / 16 * 4);
        }
      }
    }
  });
  if (!out.four_bits) {
    out.scales = Tensor::zeros(DType::f32, Shape{out.panels() * kPanel});
    const bool one = source.scales.elements() == 1;
    for (int64_t j = 0; j < columns; ++j) {
      out.scales.data<float>()[static_cast<size_t>(j)] = source.scales.as<float>()[one ? 0 : j] * 256;
    }
    return out;
  }
  out.scale = source.scale;
  out.scales = Tensor::zeros(DType::u8, Shape{out.panels(), out.blocks(), kPanel});
  auto* scales = static_cast<uint8_t*>(out.scales.raw());
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t b = 0; b < out.blocks(); ++b) {
      scales[(j / kPanel * out.blocks() + b) * kPanel + j % kPanel] =
          source.scales.as<uint8_t>()[b * source.scale_row + j * source.scale_column];
    }
  }
  return out;
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
