#include "hw/peak.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "hw/cpu.h"

namespace sparkpilot {
namespace {

// Twelve independent chains: two units of latency four want at least eight. `c` keeps the values bounded.
#define SPARKPILOT_FMA_LOOP(bytes)                                                   \
  typedef float V __attribute__((vector_size(bytes)));                               \
  V a0{}, a1{}, a2{}, a3{}, a4{}, a5{}, a6{}, a7{}, a8{}, a9{}, a10{}, a11{};        \
  const V m = V{} + 0.999f, c = V{} + seed;                                          \
  for (int64_t i = 0; i < rounds; ++i) {                                             \
    a0 = a0 * m + c, a1 = a1 * m + c, a2 = a2 * m + c, a3 = a3 * m + c;              \
    a4 = a4 * m + c, a5 = a5 * m + c, a6 = a6 * m + c, a7 = a7 * m + c;              \
    a8 = a8 * m + c, a9 = a9 * m + c, a10 = a10 * m + c, a11 = a11 * m + c;          \
    asm volatile("" : "+x"(a0), "+x"(a1), "+x"(a2), "+x"(a3), "+x"(a4), "+x"(a5));   \
    asm volatile("" : "+x"(a6), "+x"(a7), "+x"(a8), "+x"(a9), "+x"(a10), "+x"(a11)); \
  }                                                                                  \
  const V sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;         \
  return sum[0]

using FmaFn = float (*)(int64_t rounds, float seed);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float fma_512(int64_t rounds, float seed) { SPARKPILOT_FMA_LOOP(64); }
__attribute__((target("avx2,fma"))) float fma_256(int64_t rounds, float seed) { SPARKPILOT_FMA_LOOP(32); }
float fma_128(int64_t rounds, float seed) { SPARKPILOT_FMA_LOOP(16); }
#else
// The registers of other machines have another constraint letter, so the compiler sees these through a memory clobber.
float fma_128(int64_t rounds, float seed) {
  typedef float V __attribute__((vector_size(16)));
  std::array<V, 12> a{};
  const V m = V{} + 0.999f, c = V{} + seed;
  for (int64_t i = 0; i < rounds; ++i) {
    for (V& x : a) x = x * m + c;
    asm volatile("");
  }
  V sum{};
  for (const V& x : a) sum += x;
  return sum[0];
}
#endif
#undef SPARKPILOT_FMA_LOOP

struct Unit {
  FmaFn fn;
  int lanes;
};

Unit best_unit() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return {fma_512, 16};
  if (cpu_features().avx2) return {fma_256, 8};
#endif
  return {fma_128, 4};
}

double best_rate(int repeats, double work, const auto& body) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    const int64_t begin = now_ns();
    body();
    best = std::max(best, work / (static_cast<double>(now_ns() - begin) * 1e-9));
  }
  return best;
}

// Eight independent sums of the widest registers: loads alone set the pace.
#define SPARKPILOT_SUM_LOOP(bytes)                                    \
  typedef uint64_t V __attribute__((vector_size(bytes), aligned(8))); \
  V a0{}, a1{}, a2{}, a3{}, a4{}, a5{}, a6{}, a7{};                   \
  constexpr size_t kStep = 8 * sizeof(V) / sizeof(uint64_t);          \
  for (size_t i = 0; i + kStep <= count; i += kStep) {                \
    const V* at = reinterpret_cast<const V*>(words + i);              \
    a0 += at[0], a1 += at[1], a2 += at[2], a3 += at[3];               \
    a4 += at[4], a5 += at[5], a6 += at[6], a7 += at[7];               \
  }                                                                   \
  const V sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7;                \
  return sum[0] + sum[1]

using SumFn = uint64_t (*)(const uint64_t* words, size_t count);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t sum_512(const uint64_t* words, size_t count) { SPARKPILOT_SUM_LOOP(64); }
__attribute__((target("avx2"))) uint64_t sum_256(const uint64_t* words, size_t count) { SPARKPILOT_SUM_LOOP(32); }
#endif
uint64_t sum_128(const uint64_t* words, size_t count) { SPARKPILOT_SUM_LOOP(16); }
#undef SPARKPILOT_SUM_LOOP

SumFn best_sum() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return sum_512;
  if (cpu_features().avx2) return sum_256;
#endif
  return sum_128;
}

Peak measure(int threads) {
  const ThreadScope scope(threads);
  Peak peak;
  std::vector<float> sink(static_cast<size_t>(threads) * 64);
  const Unit unit = best_unit();
  constexpr int64_t kRounds = 200'000;
  peak.flops_per_second = best_rate(7, static_cast<double>(threads) * kRounds * 12 * 2 * unit.lanes, [&] {
    parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sink[static_cast<size_t>(i) * 64] = unit.fn(kRounds, 1e-3f);
    });
  });
  // 128 MiB: more than the last-level caches of the machines this is for.
  const std::vector<uint64_t> data(size_t{16} << 20, 1);
  std::vector<uint64_t> sums(static_cast<size_t>(threads) * 64);
  const SumFn sum_words = best_sum();
  const auto read_all = [&](size_t words_each, int passes) {
    parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const uint64_t* from = &data[words_each * static_cast<size_t>(t)];
        for (int pass = 0; pass < passes; ++pass) sums[static_cast<size_t>(t) * 64] += sum_words(from, words_each);
      }
    });
  };
  const size_t share = data.size() / static_cast<size_t>(threads), small = std::min(share, size_t{1} << 15);
  peak.bytes_per_second =
      best_rate(3, static_cast<double>(share * sizeof(uint64_t)) * threads, [&] { read_all(share, 1); });
  peak.cached_bytes_per_second =
      best_rate(7, static_cast<double>(small * sizeof(uint64_t)) * threads * 64, [&] { read_all(small, 64); });
  return peak;
}

}  // namespace

long last_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : 32l << 20;
}

Peak measured_peak(int threads) {
  static std::mutex mutex;
  static std::map<int, Peak> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(threads);
  if (fresh) at->second = measure(std::max(1, threads));
  return at->second;
}

}  // namespace sparkpilot
