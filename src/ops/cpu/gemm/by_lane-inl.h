// Products whose factor is a lane of a vector: NEON's fmla takes one, so four factors that are adjacent in memory cost
// one load instead of four. Include it inside a foreach_target file.
#if defined(SPARKPILOT_BY_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_BY_LANE_INL_H_
#undef SPARKPILOT_BY_LANE_INL_H_
#else
#define SPARKPILOT_BY_LANE_INL_H_
#endif

#include "hwy/highway.h"

#undef SPARKPILOT_BY_LANE
#if HWY_ARCH_ARM_A64 && (HWY_TARGET == HWY_NEON || (defined(HWY_ALL_NEON) && (HWY_TARGET & HWY_ALL_NEON) != 0))
#define SPARKPILOT_BY_LANE 1
#else
#define SPARKPILOT_BY_LANE 0
#endif

#if SPARKPILOT_BY_LANE
HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

// sum + x[kLane] * y, rounded once.
template <int kLane, class V>
HWY_INLINE V mul_add_lane(V x, V y, V sum) {
  return V(vfmaq_laneq_f32(sum.raw, y.raw, x.raw, kLane));
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();
#endif

#endif  // SPARKPILOT_BY_LANE_INL_H_
