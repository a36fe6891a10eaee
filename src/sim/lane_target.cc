#include "sim/batch_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/lane_target.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {
const char* target_impl() { return hwy::TargetName(HWY_TARGET); }
}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {
HWY_EXPORT(target_impl);
const char* lane_target() { return HWY_DYNAMIC_DISPATCH(target_impl)(); }
}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
