#include "sim/outside.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/outside_angle.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "sim/outside_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {

void outside_angle_impl(const OutsideCall& call, const OutsideArrays& arrays) {
  advance_outside_lanes<false>(call, arrays);
}

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {

HWY_EXPORT(outside_angle_impl);

void advance_outside_angle(const OutsideCall& call, const OutsideArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(outside_angle_impl)(call, arrays);
}

}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
