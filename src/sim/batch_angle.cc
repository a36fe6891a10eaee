#include "sim/batch_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/batch_angle.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "sim/batch_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {

void angle_impl(const LaneRun& r, int groups, const LaneArrays& arrays) {
  advance_groups<LateralAngle>(r, groups, arrays);
}

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {

HWY_EXPORT(angle_impl);

void advance_angle(const LaneRun& run, int groups, const LaneArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(angle_impl)(run, groups, arrays);
}

}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
