#include "hw/peak_units.h"

#include "hw/amx_tiles.h"
#include "hw/cpu.h"

// Written as assembly, so that exactly this instruction is measured: nothing is moved or left out. There are enough
// independent sums to hide its latency, and none of them becomes infinite or denormal.
namespace sparkpilot {
namespace {

#define SPARKPILOT_6(I) I(0) I(1) I(2) I(3) I(4) I(5)
#define SPARKPILOT_12(I) SPARKPILOT_6(I) I(6) I(7) I(8) I(9) I(10) I(11)
#define SPARKPILOT_24(I) SPARKPILOT_12(I) I(12) I(13) I(14) I(15) I(16) I(17) I(18) I(19) I(20) I(21) I(22) I(23)

constexpr float kFactor = 0.75F;
[[maybe_unused]] constexpr uint32_t kBf16Pair = 0x3f403f40;  // twice 0.75
[[maybe_unused]] constexpr uint32_t kBytes = 0x01010101;

#if defined(__x86_64__)

#define SPARKPILOT_REGISTERS                                                                                       \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"
#define SPARKPILOT_REGISTERS_512                                                                                  \
  SPARKPILOT_REGISTERS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", \
      "xmm26"

// Registers 0 to 23 (0 to 11 of the narrower files) are sums, the next two hold `operand`. `body` is one round.
#define SPARKPILOT_LOOP_512(name, features, operand, body)                               \
  __attribute__((target(features))) void name(int64_t rounds) {                          \
    asm volatile("vpbroadcastd %1, %%zmm24\nvmovdqa64 %%zmm24, %%zmm25\n" SPARKPILOT_24( \
                     SPARKPILOT_CLEAR_512) "1:\n" body "dec %0\njnz 1b\nvzeroupper\n"    \
                 : "+r"(rounds)                                                          \
                 : "m"(operand)                                                          \
                 : SPARKPILOT_REGISTERS_512);                                            \
  }
#define SPARKPILOT_LOOP_256(name, features, operand, body)                             \
  __attribute__((target(features))) void name(int64_t rounds) {                        \
    asm volatile("vbroadcastss %1, %%ymm12\nvmovaps %%ymm12, %%ymm13\n" SPARKPILOT_12( \
                     SPARKPILOT_CLEAR_256) "1:\n" body "dec %0\njnz 1b\nvzeroupper\n"  \
                 : "+r"(rounds)                                                        \
                 : "m"(operand)                                                        \
                 : SPARKPILOT_REGISTERS);                                              \
  }
#define SPARKPILOT_LOOP_128(name, operand, body)                                                            \
  void name(int64_t rounds) {                                                                               \
    asm volatile("movss %1, %%xmm12\nshufps $0, %%xmm12, %%xmm12\nmovaps %%xmm12, %%xmm13\n" SPARKPILOT_12( \
                     SPARKPILOT_CLEAR_128) "1:\n" body "dec %0\njnz 1b\n"                                   \
                 : "+r"(rounds)                                                                             \
                 : "m"(operand)                                                                             \
                 : SPARKPILOT_REGISTERS);                                                                   \
  }
#define SPARKPILOT_CLEAR_512(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n"
#define SPARKPILOT_CLEAR_256(n) "vxorps %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n"
#define SPARKPILOT_CLEAR_128(n) "xorps %%xmm" #n ", %%xmm" #n "\n"

#define SPARKPILOT_FMA_512(n) "vfmadd231ps %%zmm24, %%zmm25, %%zmm" #n "\n"
#define SPARKPILOT_FMA_256(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #n "\n"
#define SPARKPILOT_FMA_128(n) "mulps %%xmm12, %%xmm" #n "\naddps %%xmm13, %%xmm" #n "\n"
#define SPARKPILOT_BF16_512(n) "vdpbf16ps %%zmm24, %%zmm25, %%zmm" #n "\n"
#define SPARKPILOT_VNNI_512(n) "vpdpbusd %%zmm24, %%zmm25, %%zmm" #n "\n"
#define SPARKPILOT_VNNI_256(n) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" #n "\n"
// Without VNNI: pairs of products, added in 16 bits. Kernels that need 32-bit sums also have to widen them.
#define SPARKPILOT_PAIRS_512(n) "vpmaddubsw %%zmm24, %%zmm25, %%zmm26\nvpaddw %%zmm26, %%zmm" #n ", %%zmm" #n "\n"
#define SPARKPILOT_PAIRS_256(n) "vpmaddubsw %%ymm12, %%ymm13, %%ymm14\nvpaddw %%ymm14, %%ymm" #n ", %%ymm" #n "\n"
#define SPARKPILOT_PAIRS_128(n) "movdqa %%xmm12, %%xmm14\npmaddubsw %%xmm13, %%xmm14\npaddw %%xmm14, %%xmm" #n "\n"

SPARKPILOT_LOOP_512(fma_512, "avx512f", kFactor, SPARKPILOT_24(SPARKPILOT_FMA_512))
SPARKPILOT_LOOP_256(fma_256, "avx2,fma", kFactor, SPARKPILOT_12(SPARKPILOT_FMA_256))
SPARKPILOT_LOOP_128(fma_128, kFactor, SPARKPILOT_12(SPARKPILOT_FMA_128))
SPARKPILOT_LOOP_512(bf16_512, "avx512f", kBf16Pair, SPARKPILOT_24(SPARKPILOT_BF16_512))
SPARKPILOT_LOOP_512(vnni_512, "avx512f", kBytes, SPARKPILOT_24(SPARKPILOT_VNNI_512))
SPARKPILOT_LOOP_256(vnni_256, "avx2", kBytes, SPARKPILOT_12(SPARKPILOT_VNNI_256))
SPARKPILOT_LOOP_512(pairs_512, "avx512f,avx512bw", kBytes, SPARKPILOT_24(SPARKPILOT_PAIRS_512))
SPARKPILOT_LOOP_256(pairs_256, "avx2", kBytes, SPARKPILOT_12(SPARKPILOT_PAIRS_256))
SPARKPILOT_LOOP_128(pairs_128, kBytes, SPARKPILOT_12(SPARKPILOT_PAIRS_128))

// `body` is one round; tiles 0 to 5 are sums, 6 and 7 the operands. The tiles are released: a thread that holds any
// makes each context switch more expensive.
#define SPARKPILOT_TILE_LOOP(name, operand, body)                                      \
  void name(int64_t rounds) {                                                          \
    const AmxTiles config;                                                             \
    uint32_t data[256];                                                                \
    for (uint32_t & each : data) each = operand;                                       \
    const int64_t stride = 64;                                                         \
    asm volatile(                                                                      \
        "ldtilecfg %1\n"                                                               \
        "tileloadd (%2,%3,1), %%tmm6\ntileloadd (%2,%3,1), %%tmm7\n"                   \
        "1:\n" body "dec %0\njnz 1b\ntilerelease\n"                                    \
        : "+&r"(rounds)                                                                \
        : "m"(config), "r"(static_cast<const uint32_t*>(data)), "r"(stride), "m"(data) \
        : "cc");                                                                       \
  }
#define SPARKPILOT_TILE_BF16(n) "tdpbf16ps %%tmm7, %%tmm6, %%tmm" #n "\n"
#define SPARKPILOT_TILE_BYTES(n) "tdpbssd %%tmm7, %%tmm6, %%tmm" #n "\n"
SPARKPILOT_TILE_LOOP(tiles_bf16, kBf16Pair, SPARKPILOT_6(SPARKPILOT_TILE_BF16))
SPARKPILOT_TILE_LOOP(tiles_i8, kBytes, SPARKPILOT_6(SPARKPILOT_TILE_BYTES))

#else

#define SPARKPILOT_REGISTERS                                                                                         \
  "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", \
      "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25"
#define SPARKPILOT_CLEAR(n) "movi v" #n ".4s, #0\n"
#define SPARKPILOT_LOOP(name, operand, body)                                    \
  void name(int64_t rounds) {                                                   \
    asm volatile("ld1r {v24.4s}, [%1]\nmov v25.16b, v24.16b\n" SPARKPILOT_24(   \
                     SPARKPILOT_CLEAR) "1:\n" body "subs %0, %0, #1\nb.ne 1b\n" \
                 : "+r"(rounds)                                                 \
                 : "r"(&operand), "m"(operand)                                  \
                 : SPARKPILOT_REGISTERS);                                       \
  }
#define SPARKPILOT_FMLA(n) "fmla v" #n ".4s, v24.4s, v25.4s\n"
// As instruction words, since assemblers differ in how this extension is enabled: v<n> accumulates v24 times v25.
#define SPARKPILOT_BFMMLA(n) ".inst 0x6e59ef00 + " #n "\n"
#define SPARKPILOT_SDOT(n) ".inst 0x4e999700 + " #n "\n"
#define SPARKPILOT_SMMLA(n) ".inst 0x4e99a700 + " #n "\n"
SPARKPILOT_LOOP(fmla, kFactor, SPARKPILOT_24(SPARKPILOT_FMLA))
SPARKPILOT_LOOP(bfmmla, kBf16Pair, SPARKPILOT_24(SPARKPILOT_BFMMLA))
SPARKPILOT_LOOP(sdot, kBytes, SPARKPILOT_24(SPARKPILOT_SDOT))
SPARKPILOT_LOOP(smmla, kBytes, SPARKPILOT_24(SPARKPILOT_SMMLA))

#endif

constexpr int64_t kRounds = 50'000;
[[maybe_unused]] constexpr int64_t kTileRounds = 8'000;

}  // namespace

std::vector<UnitLoop> unit_loops() {
  using enum Arithmetic;
  const CpuFeatures& cpu = cpu_features();
  std::vector<UnitLoop> loops;
#if defined(__x86_64__)
  if (cpu.avx512) loops.push_back({"avx512", f32, 24 * 32, kRounds, fma_512});
  else if (cpu.avx2) loops.push_back({"avx2", f32, 12 * 16, kRounds, fma_256});
  else loops.push_back({"sse2", f32, 12 * 8, kRounds, fma_128});
  if (cpu.avx512_bf16) loops.push_back({"avx512_bf16", bf16, 24 * 64, kRounds, bf16_512});
  if (cpu.avx512_vnni) loops.push_back({"avx512_vnni", i8, 24 * 128, kRounds, vnni_512});
  else if (cpu.avx512) loops.push_back({"avx512", i8, 24 * 128, kRounds, pairs_512});
  else if (cpu.avx_vnni) loops.push_back({"avx_vnni", i8, 12 * 64, kRounds, vnni_256});
  else if (cpu.avx2) loops.push_back({"avx2", i8, 12 * 64, kRounds, pairs_256});
  else if (__builtin_cpu_supports("ssse3")) loops.push_back({"ssse3", i8, 12 * 32, kRounds, pairs_128});
  const bool tiles = may_use_amx();
  if (tiles && cpu.amx_bf16) loops.push_back({"amx_bf16", bf16, 6 * 2 * 16 * 16 * 32, kTileRounds, tiles_bf16});
  if (tiles && cpu.amx_int8) loops.push_back({"amx_int8", i8, 6 * 2 * 16 * 16 * 64, kTileRounds, tiles_i8});
#else
  loops.push_back({"neon", f32, 24 * 8, kRounds, fmla});
  if (cpu.neon_bf16) loops.push_back({"neon_bf16", bf16, 24 * 32, kRounds, bfmmla});
  if (cpu.i8mm) loops.push_back({"i8mm", i8, 24 * 64, kRounds, smmla});
  else if (cpu.dotprod) loops.push_back({"dotprod", i8, 24 * 32, kRounds, sdot});
#endif
  return loops;
}

}  // namespace sparkpilot
