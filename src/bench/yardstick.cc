// DO NOT CHANGE the work in this file: times of earlier versions of the program are compared with it. If it has to be
// changed, count kYardstickVersion up; all recorded baselines are then refused.
#include "bench/yardstick.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "hw/cpu.h"

namespace sparkpilot {
namespace {

constexpr int64_t kRounds = 40'000;  // of twelve multiply-adds
constexpr size_t kNearBytes = 256 << 10, kFarBytes = 8 << 20;
constexpr int kNearTimes = 60;

#define SPARKPILOT_12(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11)

#if defined(__x86_64__)

#define SPARKPILOT_REGISTERS                                                                                       \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13"
#define SPARKPILOT_CLEAR_512(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n"
#define SPARKPILOT_CLEAR_256(n) "vxorps %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n"
#define SPARKPILOT_CLEAR_128(n) "xorps %%xmm" #n ", %%xmm" #n "\n"
#define SPARKPILOT_FMA_512(n) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #n "\n"
#define SPARKPILOT_FMA_256(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #n "\n"
#define SPARKPILOT_FMA_128(n) "mulps %%xmm12, %%xmm" #n "\naddps %%xmm13, %%xmm" #n "\n"

__attribute__((target("avx512f"))) void arithmetic_512(int64_t rounds, const float& factor) {
  asm volatile("vbroadcastss %1, %%zmm12\nvmovaps %%zmm12, %%zmm13\n" SPARKPILOT_12(
                   SPARKPILOT_CLEAR_512) ".p2align 6\n1:\n" SPARKPILOT_12(SPARKPILOT_FMA_512) "dec %0\njnz 1b\n"
                                                                                              "vzeroupper\n"
               : "+r"(rounds)
               : "m"(factor)
               : SPARKPILOT_REGISTERS);
}

__attribute__((target("avx2,fma"))) void arithmetic_256(int64_t rounds, const float& factor) {
  asm volatile("vbroadcastss %1, %%ymm12\nvmovaps %%ymm12, %%ymm13\n" SPARKPILOT_12(
                   SPARKPILOT_CLEAR_256) ".p2align 6\n1:\n" SPARKPILOT_12(SPARKPILOT_FMA_256) "dec %0\njnz 1b\n"
                                                                                              "vzeroupper\n"
               : "+r"(rounds)
               : "m"(factor)
               : SPARKPILOT_REGISTERS);
}

void arithmetic_128(int64_t rounds, const float& factor) {
  asm volatile("movss %1, %%xmm12\nshufps $0, %%xmm12, %%xmm12\nmovaps %%xmm12, %%xmm13\n" SPARKPILOT_12(
                   SPARKPILOT_CLEAR_128) ".p2align 6\n1:\n" SPARKPILOT_12(SPARKPILOT_FMA_128) "dec %0\njnz 1b\n"
               : "+r"(rounds)
               : "m"(factor)
               : SPARKPILOT_REGISTERS);
}

void read_all(const std::byte* at, const std::byte* end) {
  asm volatile(
      "xorps %%xmm0, %%xmm0\nxorps %%xmm1, %%xmm1\nxorps %%xmm2, %%xmm2\nxorps %%xmm3, %%xmm3\n.p2align 6\n1:\n"
      "paddd (%0), %%xmm0\npaddd 16(%0), %%xmm1\npaddd 32(%0), %%xmm2\npaddd 48(%0), %%xmm3\n"
      "add $64, %0\ncmp %1, %0\njne 1b\n"
      : "+r"(at)
      : "r"(end)
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

using Arithmetic = void (*)(int64_t, const float&);
struct Code {
  std::string_view name;
  Arithmetic run;
};
Code code_here() {
  if (cpu_features().avx512) return {"avx512", arithmetic_512};
  if (cpu_features().avx2) return {"avx2", arithmetic_256};
  return {"sse2", arithmetic_128};
}

#elif defined(__aarch64__)

#define SPARKPILOT_REGISTERS \
  "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13"
#define SPARKPILOT_CLEAR(n) "movi v" #n ".4s, #0\n"
#define SPARKPILOT_FMLA(n) "fmla v" #n ".4s, v12.4s, v13.4s\n"

void arithmetic_neon(int64_t rounds, const float& factor) {
  asm volatile("ld1r {v12.4s}, [%1]\nmov v13.16b, v12.16b\n" SPARKPILOT_12(
                   SPARKPILOT_CLEAR) ".p2align 6\n1:\n" SPARKPILOT_12(SPARKPILOT_FMLA) "subs %0, %0, #1\nb.ne 1b\n"
               : "+r"(rounds)
               : "r"(&factor), "m"(factor)
               : SPARKPILOT_REGISTERS);
}

void read_all(const std::byte* at, const std::byte* end) {
  asm volatile(
      "movi v0.4s, #0\nmovi v1.4s, #0\nmovi v2.4s, #0\nmovi v3.4s, #0\n.p2align 6\n1:\n"
      "ldp q4, q5, [%0]\nldp q6, q7, [%0, #32]\n"
      "add v0.4s, v0.4s, v4.4s\nadd v1.4s, v1.4s, v5.4s\nadd v2.4s, v2.4s, v6.4s\nadd v3.4s, v3.4s, v7.4s\n"
      "add %0, %0, #64\ncmp %0, %1\nb.ne 1b\n"
      : "+r"(at)
      : "r"(end)
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
}

using Arithmetic = void (*)(int64_t, const float&);
struct Code {
  std::string_view name;
  Arithmetic run;
};
Code code_here() { return {"neon", arithmetic_neon}; }

#else
#error "the yardstick has no code for this processor"
#endif

// The time of each run after `warm` others, ms.
template <size_t kRuns, typename Run>
std::array<double, kRuns> times_of(int warm, const Run& run) {
  for (int i = 0; i < warm; ++i) run();
  std::array<double, kRuns> ms;
  for (double& each : ms) {
    const int64_t start = now_ns();
    run();
    each = static_cast<double>(now_ns() - start) * 1e-6;
  }
  return ms;
}

constexpr size_t kPage = 4096, kPerThread = kFarBytes + kNearBytes;

}  // namespace

Yardstick::Yardstick(int threads) : threads_(threads) {
  const size_t bytes = kPerThread * static_cast<size_t>(threads);
  memory_.reset(new std::byte[bytes + kPage]);
  pages_ = memory_.get() + (kPage - reinterpret_cast<uintptr_t>(memory_.get()) % kPage);
  std::memset(pages_, 1, bytes);
}

Yardstick::~Yardstick() = default;

std::string_view Yardstick::code() { return code_here().name; }

void Yardstick::read(size_t bytes, int times) {
  parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::byte* from = pages_ + static_cast<size_t>(i) * kPerThread;
      for (int n = 0; n < times; ++n) read_all(from, from + bytes);
    }
  });
}

YardstickTimes Yardstick::measure() {
  const ThreadScope scope(threads_);
  constexpr float kFactor = 0.75F;  // sums grow, slowly: none becomes infinite or denormal
  const Arithmetic run = code_here().run;
  const auto arithmetic = [&] {
    parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run(kRounds, kFactor);
    });
  };
  YardstickTimes out;
  out.arithmetic_ms = median(times_of<5>(2, arithmetic));
  out.near_ms = median(times_of<5>(1, [&] { read(kNearBytes, kNearTimes); }));
  const std::array<double, 3> far = times_of<3>(1, [&] { read(kFarBytes, 1); });
  out.far_ms = *std::min_element(far.begin(), far.end());
  return out;
}

}  // namespace sparkpilot
