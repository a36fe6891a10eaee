// Whether a file is being compiled for 64-bit Arm's vectors of 128 bits, by whichever name Highway has for them.
// Include it inside a foreach_target file.
#if defined(SPARKPILOT_NEON_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_NEON_INL_H_
#undef SPARKPILOT_NEON_INL_H_
#else
#define SPARKPILOT_NEON_INL_H_
#endif

#include "hwy/highway.h"

#undef SPARKPILOT_NEON
#if HWY_ARCH_ARM_A64 && (HWY_TARGET == HWY_NEON || (defined(HWY_ALL_NEON) && (HWY_TARGET & HWY_ALL_NEON) != 0))
#define SPARKPILOT_NEON 1
#else
#define SPARKPILOT_NEON 0
#endif

#endif  // SPARKPILOT_NEON_INL_H_
