#include "hw/cpu.h"

#include <fstream>

#include "base/parallel.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace sparkpilot {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 || line.rfind("Model", 0) == 0) {
      const size_t colon = line.find(':');
      if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
    }
  }
  return {};
}

CpuFeatures probe() {
  CpuFeatures f;
  f.model = model_name();
  f.logical = available_processors();
#if defined(__x86_64__)
  __builtin_cpu_init();
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  f.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  f.avx512_bf16 = f.avx512 && __builtin_cpu_supports("avx512bf16");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
  f.neon = true;
  const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
  f.sve = (caps & HWCAP_SVE) != 0;
  f.neon_bf16 = (caps2 & HWCAP2_BF16) != 0;
  f.i8mm = (caps2 & HWCAP2_I8MM) != 0;
#endif
  return f;
}

}  // namespace

std::string CpuFeatures::isa() const {
  std::string out;
  const auto add = [&](bool has, const char* text) {
    if (has) out += (out.empty() ? "" : " ") + std::string(text);
  };
  add(avx2, "avx2");
  add(avx512, "avx512");
  add(avx512_bf16, "avx512_bf16");
  add(avx512_vnni, "avx512_vnni");
  add(amx_bf16, "amx_bf16");
  add(neon, "neon");
  add(neon_bf16, "neon_bf16");
  add(i8mm, "i8mm");
  add(sve, "sve");
  return out.empty() ? "baseline" : out;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = probe();
  return features;
}

}  // namespace sparkpilot
