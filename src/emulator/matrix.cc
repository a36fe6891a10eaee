#include "emulator/matrix.h"

#include <type_traits>

#include "emulator/check.h"
#include "emulator/meeting.h"
#include "emulator/number.h"

namespace sparkpilot::emulator {
namespace {

constexpr int kM = 16, kN = 8, kMostDepth = 64;

// Where the fragments' words lie in the matrices: rows of a, columns of b, rows and columns of c.
int row_of_a(int lane, int word) { return lane / 4 + word % 2 * 8; }
int depth_of_a(int lane, int word, int depth, int in_word) { return word / 2 * depth / 2 + lane % 4 * in_word; }
int depth_of_b(int lane, int word, int depth, int in_word) { return word * depth / 2 + lane % 4 * in_word; }
int row_of_c(int lane, int element) { return lane / 4 + element / 2 * 8; }
int column_of_c(int lane, int element) { return lane % 4 * 2 + element % 2; }

// In order of depth, as no GPU promises; its own order and rounding are not documented. The same on every processor.
template <typename T>
__attribute__((always_inline)) inline void multiply_in_order(int depth, const T* __restrict__ a,
                                                             const T* __restrict__ b, T* __restrict__ c) {
  for (int i = 0; i < kM; ++i) {
    T row[kN];
    for (int j = 0; j < kN; ++j) row[j] = c[i * kN + j];
    for (int k = 0; k < depth; ++k) {
      for (int j = 0; j < kN; ++j) row[j] += a[i * depth + k] * b[k * kN + j];
    }
    for (int j = 0; j < kN; ++j) c[i * kN + j] = row[j];
  }
}
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2")))
#endif
void multiply_plain(int depth, const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  multiply_in_order(depth, a, b, c);
}
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2")))
#endif
void multiply_plain(int depth, const uint32_t* __restrict__ a, const uint32_t* __restrict__ b,
                    uint32_t* __restrict__ c) {
  multiply_in_order(depth, a, b, c);
}

// What is summed: whole numbers modulo 2^32, else f32.
template <MmaType type>
using Sum = std::conditional_t<type == MmaType::s8, uint32_t, float>;

template <MmaType type>
Sum<type> element(uint32_t word, int i) {
  if constexpr (type == MmaType::f16) return half_value(static_cast<uint16_t>(word >> 16 * i));
  else if constexpr (type == MmaType::bf16) return bfloat16_value(static_cast<uint16_t>(word >> 16 * i));
  else if constexpr (type == MmaType::s8) return static_cast<uint32_t>(static_cast<int8_t>(word >> 8 * i));
  else return e4m3_value(static_cast<uint8_t>(word >> 8 * i));
}

struct Operands {
  const uint32_t (*a)[4];
  const uint32_t (*b)[2];
  void* c;
};

template <typename T>
void gather_c(Operands* const* all, int at, T* c) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const T* const from = static_cast<const T*>(all[lane]->c) + at * 4;
    for (int e = 0; e < 4; ++e) c[row_of_c(lane, e) * kN + column_of_c(lane, e)] = from[e];
  }
}
template <typename T>
void scatter_c(Operands* const* all, int at, const T* c) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    T* const to = static_cast<T*>(all[lane]->c) + at * 4;
    for (int e = 0; e < 4; ++e) to[e] = c[row_of_c(lane, e) * kN + column_of_c(lane, e)];
  }
}

template <MmaType type>
void multiply_as(int tiles_m, int tiles_n, Operands* const* all) {
  constexpr int in_word = type == MmaType::e4m3 || type == MmaType::s8 ? 4 : 2, depth = 8 * in_word;
  constexpr int kMostTiles = 16;
  if (tiles_n > kMostTiles) fail_thread("multiplies more than 16 tiles of columns at once");
  Sum<type> a[kM * depth], b[kMostTiles][depth * kN], c[kM * kN];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int j = 0; j < tiles_n; ++j) {
      for (int w = 0; w < 2; ++w) {
        for (int i = 0; i < in_word; ++i) {
          b[j][(depth_of_b(lane, w, depth, in_word) + i) * kN + lane / 4] = element<type>(all[lane]->b[j][w], i);
        }
      }
    }
  }
  for (int m = 0; m < tiles_m; ++m) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      for (int w = 0; w < 4; ++w) {
        for (int i = 0; i < in_word; ++i) {
          a[row_of_a(lane, w) * depth + depth_of_a(lane, w, depth, in_word) + i] = element<type>(all[lane]->a[m][w], i);
        }
      }
    }
    for (int j = 0; j < tiles_n; ++j) {
      gather_c(all, m * tiles_n + j, c);
      multiply_plain(depth, a, b[j], c);
      scatter_c(all, m * tiles_n + j, c);
    }
  }
}

struct Rows {
  const uint16_t* row;
  uint32_t* out;
};

}  // namespace

void load_matrices(int count, bool transposed, const void* row, uint32_t* out, Place place) {
  Rows mine{static_cast<const uint16_t*>(row), out};
  meet(transposed ? "ldmatrix.trans" : "ldmatrix", place, mine, [=](Rows* const* all) {
    Checker* const checker = current->block->checker;
    for (int m = 0; m < count; ++m) {
      for (int r = 0; r < 8; ++r) {
        const uint16_t* const at = all[m * 8 + r]->row;
        if (reinterpret_cast<uintptr_t>(at) % 16 != 0)
          fail_thread("ldmatrix of a row that is not at a multiple of 16 bytes");
        if (checker) checker->access(*current->warp->threads[m * 8 + r], at, 16, Access::matrix_read, {nullptr, place});
      }
      for (int lane = 0; lane < kWarpSize; ++lane) {
        const int r = lane / 4, c = lane % 4 * 2;
        const uint16_t low = transposed ? all[m * 8 + c]->row[r] : all[m * 8 + r]->row[c];
        const uint16_t high = transposed ? all[m * 8 + c + 1]->row[r] : all[m * 8 + r]->row[c + 1];
        all[lane]->out[m] = low | static_cast<uint32_t>(high) << 16;
      }
    }
  });
}

void multiply(MmaType type, int tiles_m, int tiles_n, const uint32_t (*a)[4], const uint32_t (*b)[2], void* c,
              Place place) {
  Operands mine{a, b, c};
  meet("mma", place, mine, [=](Operands* const* all) {
    switch (type) {
      case MmaType::f16: return multiply_as<MmaType::f16>(tiles_m, tiles_n, all);
      case MmaType::bf16: return multiply_as<MmaType::bf16>(tiles_m, tiles_n, all);
      case MmaType::e4m3: return multiply_as<MmaType::e4m3>(tiles_m, tiles_n, all);
      case MmaType::s8: return multiply_as<MmaType::s8>(tiles_m, tiles_n, all);
    }
  });
}

void multiply_fp4(const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a, uint32_t scale_b, float (&c)[4],
                  Place place) {
  struct Scaled : Operands {
    uint32_t scale_a, scale_b;
  } mine{{&a, &b, c}, scale_a, scale_b};
  meet("mma.mxf4nvf4", place, mine, [](Scaled* const* all) {
    constexpr int depth = kMostDepth, in_word = 8;
    const auto scale = [](uint32_t word, int block) { return e4m3_value(word >> 8 * block & 0x7f); };
    float left[kM * depth], right[depth * kN], sums[kM * kN];
    for (int lane = 0; lane < kWarpSize; ++lane) {
      for (int i = 0; i < in_word; ++i) {
        for (int w = 0; w < 4; ++w) {
          const int row = row_of_a(lane, w), k = depth_of_a(lane, w, depth, in_word) + i;
          const Scaled& scales = *all[row % 8 * 4 + row / 8];
          left[row * depth + k] = e2m1_value((*all[lane]->a)[w] >> 4 * i & 15) * scale(scales.scale_a, k / 16);
        }
        for (int w = 0; w < 2; ++w) {
          const int column = lane / 4, k = depth_of_b(lane, w, depth, in_word) + i;
          right[k * kN + column] =
              e2m1_value((*all[lane]->b)[w] >> 4 * i & 15) * scale(all[column * 4]->scale_b, k / 16);
        }
      }
    }
    Operands* operands[kWarpSize];
    for (int lane = 0; lane < kWarpSize; ++lane) operands[lane] = all[lane];
    gather_c(operands, 0, sums);
    multiply_plain(depth, left, right, sums);
    scatter_c(operands, 0, sums);
  });
}

}  // namespace sparkpilot::emulator
