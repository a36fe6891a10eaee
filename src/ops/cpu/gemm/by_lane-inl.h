// Products whose factor is a lane of a vector: NEON's fmla takes one, so four factors that are adjacent in memory cost
// one load instead of four. Include it inside a foreach_target file.
#if defined(SPARKPILOT_BY_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_BY_LANE_INL_H_
#undef SPARKPILOT_BY_LANE_INL_H_
#else
#define SPARKPILOT_BY_LANE_INL_H_
#endif

#include "ops/cpu/neon-inl.h"

#if SPARKPILOT_NEON
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
