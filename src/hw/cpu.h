// What this processor can do, asked once.
#pragma once

#include <string>

namespace sparkpilot {

struct CpuFeatures {
  std::string model;  // as the system names it; empty where it does not
  int logical = 1;    // processors this process may use
  bool avx2 = false, avx512 = false, avx512_bf16 = false, avx512_vnni = false, amx_bf16 = false;
  bool neon = false, neon_bf16 = false, i8mm = false, sve = false;
  // One line such as "avx2 avx512 avx512_bf16".
  std::string isa() const;
};

// Thread-safe; the answer does not change while the process runs.
const CpuFeatures& cpu_features();

}  // namespace sparkpilot
