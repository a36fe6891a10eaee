#include "sim/outside.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/outside_angle.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"
#include "sim/lanes-inl.h"
#include "sim/outside-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {

// Of sim/batch_mpc.cc. Not inlined: the solver is large.
void plan_group_by_mpc(int group, const float* constants, float* states, const Motion<Lanes>& motion,
                       const LeadState<Lanes>& lead, const Lanes& target_speed, Lanes& target);

namespace {

void outside_angle_impl(const OutsideCall& call, const OutsideArrays& a) {
  using Control = LateralOutside<false>;
  using State = WorldState<Lanes, Control>;
  advance_outside_tyres<Lanes, Control>(call, *reinterpret_cast<const OutsideInput<Lanes>*>(a.inputs),
                                        *reinterpret_cast<const WorldConstants<Lanes, Control>*>(a.constants),
                                        WorldRings<Lanes>(reinterpret_cast<Lanes*>(a.rings), 1),
                                        *reinterpret_cast<State*>(a.states), reinterpret_cast<Lanes*>(a.features),
                                        reinterpret_cast<MpcPlanner<Lanes>*>(a.mpc_states),
                                        [&](State& world, MpcPlanner<Lanes>& mpc) {
                                          plan_group_by_mpc(0, a.mpc_constants, reinterpret_cast<float*>(&mpc),
                                                            world.motion, world.lead, world.target_speed, world.target);
                                        });
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
