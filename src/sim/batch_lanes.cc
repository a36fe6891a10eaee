#include "sim/batch_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/batch_lanes.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"
#include "sim/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {

int lanes_impl() { return kLanes; }

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {

HWY_EXPORT(lanes_impl);

int lane_count() { return HWY_DYNAMIC_DISPATCH(lanes_impl)(); }

void advance_lanes(const LaneRun& run, int groups, const LaneArrays& arrays) {
  switch (run.lateral) {
    case Lateral::pid: return advance_pid(run, groups, arrays);
    case Lateral::torque: return advance_torque(run, groups, arrays);
    case Lateral::angle: return advance_angle(run, groups, arrays);
    case Lateral::mppi: return advance_mppi(run, groups, arrays);
  }
}

}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
