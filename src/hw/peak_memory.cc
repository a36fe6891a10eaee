#include "hw/peak_memory.h"

#include <cstdint>

#include "hw/cpu.h"

namespace sparkpilot {
namespace {

// The code for `loops`, with registers of `width` bytes and functions compiled for `features`.
#define SPARKPILOT_MOVES(name, width, features)                                                             \
  struct name {                                                                                             \
    typedef uint64_t V __attribute__((vector_size(width)));                                                 \
    features static void read(std::byte* data, size_t bytes) {                                              \
      const V* from = reinterpret_cast<const V*>(data);                                                     \
      V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{};                                                             \
      for (size_t i = 0; i < bytes / width; i += 8) {                                                       \
        a += from[i], b += from[i + 1], c += from[i + 2], d += from[i + 3];                                 \
        e += from[i + 4], f += from[i + 5], g += from[i + 6], h += from[i + 7];                             \
      }                                                                                                     \
      const V sum = a + b + c + d + e + f + g + h;                                                          \
      asm volatile("" : : "r"(sum[0] + sum[1]));                                                            \
    }                                                                                                       \
    features static void read_streams(std::byte* data, size_t bytes) {                                      \
      constexpr size_t kAhead = 1024 / width, kStep = 128 / width;                                          \
      const size_t part = bytes / width / 4;                                                                \
      const V* from = reinterpret_cast<const V*>(data);                                                     \
      V sums[4] = {};                                                                                       \
      for (size_t i = 0; i < part; i += kStep) {                                                            \
        for (size_t s = 0; s < 4; ++s) {                                                                    \
          const V* at = from + s * part + i;                                                                \
          __builtin_prefetch(at + kAhead);                                                                  \
          __builtin_prefetch(at + kAhead + kStep / 2);                                                      \
          for (size_t j = 0; j < kStep; ++j) sums[s] += at[j];                                              \
        }                                                                                                   \
      }                                                                                                     \
      const V sum = sums[0] + sums[1] + sums[2] + sums[3];                                                  \
      asm volatile("" : : "r"(sum[0] + sum[1]));                                                            \
    }                                                                                                       \
    features static void add(std::byte* data, size_t bytes) {                                               \
      const size_t part = bytes / width / 12 * 4;                                                           \
      V* to = reinterpret_cast<V*>(data);                                                                   \
      const V *a = to + part, *b = a + part;                                                                \
      for (size_t i = 0; i < part; i += 4) {                                                                \
        const V w = a[i] + b[i], x = a[i + 1] + b[i + 1], y = a[i + 2] + b[i + 2], z = a[i + 3] + b[i + 3]; \
        to[i] = w, to[i + 1] = x, to[i + 2] = y, to[i + 3] = z;                                             \
      }                                                                                                     \
    }                                                                                                       \
    features static void update(std::byte* data, size_t bytes) {                                            \
      V* to = reinterpret_cast<V*>(data);                                                                   \
      for (size_t i = 0; i < bytes / width; i += 4) {                                                       \
        to[i] += 1, to[i + 1] += 1, to[i + 2] += 1, to[i + 3] += 1;                                         \
      }                                                                                                     \
    }                                                                                                       \
    static constexpr MoveLoop kLoops[] = {                                                                  \
        {true, 1, read}, {true, 1, read_streams}, {false, 1, add}, {false, 2, update}};                     \
  }

#if defined(__x86_64__)
SPARKPILOT_MOVES(Moves512, 64, __attribute__((target("avx512f"))));
SPARKPILOT_MOVES(Moves256, 32, __attribute__((target("avx2"))));
#endif
SPARKPILOT_MOVES(Moves128, 16, );
#undef SPARKPILOT_MOVES

}  // namespace

std::span<const MoveLoop> move_loops() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return Moves512::kLoops;
  if (cpu_features().avx2) return Moves256::kLoops;
#endif
  return Moves128::kLoops;
}

}  // namespace sparkpilot
