#include "ops/cpu/limit.h"

#include "hw/cpu.h"
#include "hwy/highway.h"
#include "ops/cpu/onednn/onednn.h"

namespace sparkpilot {
namespace {

// Highway numbers the targets of an architecture from the best on.
int64_t better_than(std::string_view level) {
#if HWY_ARCH_X86
  if (level == "avx512") return HWY_AVX3 - 1;
  if (level == "avx2") return HWY_AVX2 - 1;
#endif
  (void)level;
  return HWY_STATIC_TARGET - 1;
}

}  // namespace

void limit_kernels(std::string_view level) {
  limit_cpu_features(level);
  hwy::DisableTargets(better_than(level));
  onednn::limit(level);
}

}  // namespace sparkpilot
