// What this processor can do, asked once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

struct CpuFeatures {
  std::string model;  // as the system names it; empty where it does not
  int logical = 1;    // processors this process may use
  bool avx2 = false, avx512 = false, avx512_bf16 = false, avx512_vnni = false, avx_vnni = false;
  bool amx_bf16 = false, amx_int8 = false;  // and the system saves the tiles; a process has to ask for them besides
  bool neon = false, neon_bf16 = false, dotprod = false, i8mm = false, sve = false;
  // One line such as "avx2 avx512 avx512_bf16".
  std::string isa() const;
};

// Thread-safe; the answer does not change while the process runs, short of limit_cpu_features().
const CpuFeatures& cpu_features();

// Levels that this processor can be limited to, the strongest first, of: avx512 (without VNNI and bf16), avx2, baseline
// (what every processor of its kind has: SSE2, or NEON without bf16 and i8mm).
std::vector<std::string_view> cpu_levels();
// What CPUID's leaf 7 (EDX) and the register XCR0 say of AMX's tiles, into amx_bf16 and amx_int8. XCR0 is 0 where the
// system does not use XSAVE.
void read_amx(uint32_t leaf7_edx, uint64_t xcr0, CpuFeatures& features);

// From now on cpu_features() tells of nothing beyond a level: before anybody has asked, on no other thread. Kernels are
// limited by limit_kernels() (ops/cpu/limit.h), which calls this. Fails (user) on what is not in cpu_levels().
void limit_cpu_features(std::string_view level);

}  // namespace sparkpilot
