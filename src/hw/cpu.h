// The features of this processor, detected once.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

struct CpuFeatures {
  std::string model;  // the system's name for it; empty if it has none
  // What its maker calls the design: "GenuineIntel", 6, 85; on Arm the codes of the maker and of the part ("0x41", 0,
  // 0xd87). Empty and 0 if the system does not say.
  std::string maker = {};
  int family = 0, design = 0;
  int logical = 1;    // processors this process may use
  bool avx2 = false;  // with FMA, F16C, BMI and BMI2, as kernels for it use them
  bool avx512 = false, avx512_bf16 = false, avx512_vnni = false, avx_vnni = false;
  bool amx_bf16 = false, amx_int8 = false;  // if the system saves the tiles; see may_use_amx()
  bool neon = false, neon_bf16 = false, dotprod = false, i8mm = false, sve = false;
  // One line such as "avx2 avx512 avx512_bf16".
  std::string isa() const;
};

// maker, family and design of the first processor of /proc/cpuinfo's text, into `features`.
void read_design(std::istream& cpuinfo, CpuFeatures& features);

// Thread-safe; the answer does not change while the process runs, except by limit_cpu_features().
const CpuFeatures& cpu_features();

// Fails (device) on a processor that lacks what all kernels use: those for x86-64 are compiled for AVX2 at least, and
// would end the process there by an illegal instruction. The program, launch() (ir/launch.h) and WorldStepper (sim) ask
// first.
void require_processor(const CpuFeatures& features);

// Whether the processor has AMX, with any kind of product, and the system lets this process use it: Linux gives a
// process the tiles' state on request only, which the first call makes for the rest of the process's life. Thread-safe.
bool may_use_amx();

// Levels that this processor can be limited to, the strongest first, of: avx512 (without VNNI and bf16), avx2, baseline
// (the least that kernels are compiled for: AVX2, or NEON without bf16 and i8mm).
std::vector<std::string_view> cpu_levels();

// Sets amx_bf16 and amx_int8 from CPUID's leaf 7 (EDX) and the register XCR0, which is 0 if the system does not use
// XSAVE.
void read_amx(uint32_t leaf7_edx, uint64_t xcr0, CpuFeatures& features);

// From now on cpu_features() reports no features beyond a level. Call it before the first use of cpu_features() and
// before other threads start. Kernels are limited by limit_kernels() (ops/cpu/limit.h), which calls this. Fails (user)
// on a level that is not in cpu_levels().
void limit_cpu_features(std::string_view level);

}  // namespace sparkpilot
