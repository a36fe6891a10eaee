#include "sim/batch_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/batch_mpc.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"
#include "sim/lanes-inl.h"
#include "sim/mpc_planner-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {

// As sim/batch_lanes-inl.h declares it; this is a separate file because that one's are long to compile.
void plan_group_by_mpc(int group, const float* constants, float* states, const Motion<Lanes>& motion,
                       const Lanes& wheel, const LeadState<Lanes>& lead, const Lanes& target_speed, const Lanes& alive,
                       Lanes& target);
void plan_group_by_mpc(int group, const float* constants, float* states, const Motion<Lanes>& motion,
                       const Lanes& wheel, const LeadState<Lanes>& lead, const Lanes& target_speed, const Lanes& alive,
                       Lanes& target) {
  const auto* const k = reinterpret_cast<const MpcPlannerConstants<Lanes>*>(constants);
  auto* const s = reinterpret_cast<MpcPlanner<Lanes>*>(states);
  plan_by_mpc(k[group], motion, wheel, lead, target_speed, alive, s[group], target);
}

}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
