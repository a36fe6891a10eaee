#include "hw/cpu.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/error.h"
#include "base/parallel.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
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

#if defined(__x86_64__)
// XCR0: the parts of a thread's state that the operating system saves.
uint64_t saved_state() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0) return 0;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return uint64_t{edx} << 32 | eax;
}
#endif

CpuFeatures probe() {
  CpuFeatures f;
  f.model = model_name();
  if (std::ifstream cpuinfo("/proc/cpuinfo"); cpuinfo) read_design(cpuinfo, f);
  f.logical = available_processors();
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  f.avx512_bf16 = f.avx512 && __builtin_cpu_supports("avx512bf16");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  // clang 14 has no intrinsic's name for it.
  f.avx_vnni = f.avx2 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 4) != 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) read_amx(edx, saved_state(), f);
#elif defined(__aarch64__)
  f.neon = true;
  const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
  f.sve = (caps & HWCAP_SVE) != 0;
  f.neon_bf16 = (caps2 & HWCAP2_BF16) != 0;
  f.dotprod = (caps & HWCAP_ASIMDDP) != 0;
  f.i8mm = (caps2 & HWCAP2_I8MM) != 0;
#endif
  return f;
}

CpuFeatures& features() {
  static CpuFeatures features = probe();
  return features;
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
  add(amx_int8, "amx_int8");
  add(neon, "neon");
  add(neon_bf16, "neon_bf16");
  add(i8mm, "i8mm");
  add(sve, "sve");
  return out.empty() ? "baseline" : out;
}

void read_design(std::istream& cpuinfo, CpuFeatures& features) {
  const auto number = [](std::string_view text) {
    const int base = text.starts_with("0x") ? 16 : 10;
    if (base == 16) text.remove_prefix(2);
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return value;
  };
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string_view name = std::string_view(line).substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string_view value = std::string_view(line).substr(colon + 2);
    if (name == "vendor_id" || name == "CPU implementer") features.maker = value;
    if (name == "cpu family") features.family = number(value);
    if (name == "model" || name == "CPU part") features.design = number(value);
  }
}

void read_amx(uint32_t leaf7_edx, uint64_t xcr0, CpuFeatures& features) {
  constexpr uint64_t kTiles = 3 << 17;  // tile configuration and tile data
  constexpr int kBf16 = 22, kTile = 24, kInt8 = 25;
  const bool tiles = (xcr0 & kTiles) == kTiles && (leaf7_edx >> kTile & 1) != 0;
  features.amx_bf16 = tiles && (leaf7_edx >> kBf16 & 1) != 0;
  features.amx_int8 = tiles && (leaf7_edx >> kInt8 & 1) != 0;
}

const CpuFeatures& cpu_features() { return features(); }

bool may_use_amx() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  if (!features().amx_bf16 && !features().amx_int8) return false;
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
#else
  return false;
#endif
}

void require_processor([[maybe_unused]] const CpuFeatures& features) {
#if defined(__x86_64__)
  if (features.avx2) return;
  throw Error(
      ErrorKind::device,
      fmt::format("this processor{} lacks AVX2, FMA, F16C, BMI or BMI2, which sparkpilot needs on x86-64; Intel's "
                  "since Haswell and AMD's since Zen have them (in a virtual machine: pass the host's through)",
                  features.model.empty() ? "" : " (" + features.model + ")"));
#endif
}

std::vector<std::string_view> cpu_levels() {
  std::vector<std::string_view> levels;
  if (features().avx512) levels.push_back("avx512");
  if (features().avx2) levels.push_back("avx2");
  levels.push_back("baseline");
  return levels;
}

void limit_cpu_features(std::string_view level) {
  const std::vector<std::string_view> levels = cpu_levels();
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    std::string known;
    for (const std::string_view each : levels) known += (known.empty() ? "" : ", ") + std::string(each);
    fail("this processor cannot be limited to \"{}\", only to {}", level, known);
  }
  CpuFeatures& f = features();
  f.avx512_bf16 = f.avx512_vnni = f.avx_vnni = f.amx_bf16 = f.amx_int8 = false;
  f.neon_bf16 = f.dotprod = f.i8mm = f.sve = false;
  f.avx512 &= level == "avx512";
}

}  // namespace sparkpilot
