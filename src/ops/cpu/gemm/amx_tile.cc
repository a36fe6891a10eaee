#include "ops/cpu/gemm/amx_tile.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "hw/amx_tiles.h"
#include "hw/cpu.h"

namespace sparkpilot {

#if defined(__x86_64__)
namespace {

constexpr int64_t kSide = 16, kPanel = DotMatrix::kPanel;
constexpr int64_t kPanelRowBytes = 2 * kPanel * static_cast<int64_t>(sizeof(BFloat16));  // two depths
static_assert(kPanel == 2 * kSide && kAmxRows == 2 * kSide);

// Tiles 0 and 1 are the sums of the first 16 rows, 2 and 3 of the next, 4 and 5 rows of A, 6 and 7 columns of B.
AmxTiles tiles_for(int64_t rows) {
  const auto upper = static_cast<uint8_t>(std::min(rows, kSide));
  const auto lower = static_cast<uint8_t>(std::max<int64_t>(rows - kSide, 1));
  AmxTiles tiles;
  const uint8_t all[8] = {upper, upper, lower, lower, upper, lower, kSide, kSide};
  std::copy_n(all, 8, tiles.rows);
  return tiles;
}

// In assembly, since g++ 12 does not know that its intrinsics read and write memory. Strides are in bytes.
#define SPARKPILOT_LOAD(n, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #n ::"r"(from), "r"(stride) : "memory")
#define SPARKPILOT_STORE(n, to, stride) \
  asm volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define SPARKPILOT_ADD(c, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c::: "memory")

// Rows of A: the whole steps of their depth where they lie, and what is left of it, padded with zeros.
struct Rows {
  const BFloat16* a;
  int64_t row_bytes, steps;
  const BFloat16* last;  // [rows, kAmxDepth], or null
};

template <bool kLower>
void add_step(const BFloat16* a, int64_t row_bytes, const BFloat16* b) {
  SPARKPILOT_LOAD(6, b, kPanelRowBytes);
  SPARKPILOT_LOAD(4, a, row_bytes);
  SPARKPILOT_ADD(0, 4, 6);
  SPARKPILOT_LOAD(7, b + 2 * kSide, kPanelRowBytes);
  SPARKPILOT_ADD(1, 4, 7);
  if constexpr (kLower) {
    SPARKPILOT_LOAD(5, reinterpret_cast<const char*>(a) + kSide * row_bytes, row_bytes);
    SPARKPILOT_ADD(2, 5, 6);
    SPARKPILOT_ADD(3, 5, 7);
  }
}

template <bool kLower>
void multiply(const Rows& rows, const BFloat16* b, const float* bias) {
  alignas(64) static constexpr float kZeros[kPanel] = {};
  constexpr int64_t kSame = 0;
  const float* first = bias ? bias : kZeros;
  SPARKPILOT_LOAD(0, first, kSame);
  SPARKPILOT_LOAD(1, first + kSide, kSame);
  if constexpr (kLower) {
    SPARKPILOT_LOAD(2, first, kSame);
    SPARKPILOT_LOAD(3, first + kSide, kSame);
  }
  for (int64_t i = 0; i < rows.steps; ++i, b += kAmxDepth * kPanel) {
    add_step<kLower>(rows.a + i * kAmxDepth, rows.row_bytes, b);
  }
  if (rows.last) add_step<kLower>(rows.last, kAmxDepth * static_cast<int64_t>(sizeof(BFloat16)), b);
}

template <bool kLower>
void store(float* sums) {
  constexpr int64_t kRowBytes = kPanel * static_cast<int64_t>(sizeof(float));
  SPARKPILOT_STORE(0, sums, kRowBytes);
  SPARKPILOT_STORE(1, sums + kSide, kRowBytes);
  if constexpr (kLower) {
    SPARKPILOT_STORE(2, sums + kSide * kPanel, kRowBytes);
    SPARKPILOT_STORE(3, sums + kSide * kPanel + kSide, kRowBytes);
  }
}

}  // namespace

bool has_amx() {
  const CpuFeatures& cpu = cpu_features();
  return cpu.amx_bf16 && cpu.avx512_bf16 && may_use_amx();
}

void multiply_amx(const DotMatrix& b, const AmxPiece& piece, void (*finish)(void*, const AmxBlock&), void* context) {
  const int64_t panel_size = b.data.shape()[1] * b.data.shape()[2] * b.data.shape()[3], left = b.depth % kAmxDepth;
  const BFloat16* data = b.data.data<BFloat16>().data();
  alignas(64) float sums[kAmxRows * kPanel];
  alignas(64) BFloat16 last[kAmxRows * kAmxDepth];
  if (left > 0) std::memset(static_cast<void*>(last), 0, sizeof last);
  int64_t configured = 0;
  for (int64_t row = 0; row < piece.rows; row += kAmxRows) {
    const int64_t count = std::min(kAmxRows, piece.rows - row);
    if (count != configured) {
      const AmxTiles config = tiles_for(count);
      asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
      configured = count;
    }
    const Rows rows{.a = piece.a + row * piece.lda,
                    .row_bytes = piece.lda * static_cast<int64_t>(sizeof(BFloat16)),
                    .steps = b.depth / kAmxDepth,
                    .last = left > 0 ? last : nullptr};
    for (int64_t r = 0; left > 0 && r < count; ++r) {
      std::copy_n(rows.a + r * piece.lda + b.depth - left, left, last + r * kAmxDepth);
    }
    for (int64_t panel = piece.first_panel; panel < piece.last_panel; ++panel) {
      const AmxBlock block{row, count, panel, sums};
      const BFloat16* weights = data + panel * panel_size;
      const float* bias = piece.bias ? piece.bias + panel * kPanel : nullptr;
      if (count > kSide) multiply<true>(rows, weights, bias);
      else multiply<false>(rows, weights, bias);
      if (count > kSide) store<true>(sums);
      else store<false>(sums);
      finish(context, block);
    }
  }
  asm volatile("tilerelease" ::: "memory");  // a thread that holds tiles makes each context switch more expensive
}

#else

bool has_amx() { return false; }
void multiply_amx(const DotMatrix&, const AmxPiece&, void (*)(void*, const AmxBlock&), void*) {
  fail_internal("no tiles of bf16 here");
}

#endif

}  // namespace sparkpilot
