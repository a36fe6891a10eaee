// A group of worlds as vectors whose commands come from outside; each kind of command is compiled in a separate file
// (sim/outside_torque.cc, sim/outside_angle.cc), because that takes long.
#if defined(SPARKPILOT_SIM_OUTSIDE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_OUTSIDE_LANES_INL_H_
#undef SPARKPILOT_SIM_OUTSIDE_LANES_INL_H_
#else
#define SPARKPILOT_SIM_OUTSIDE_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "sim/lanes-inl.h"
#include "sim/outside-inl.h"
#include "sim/outside.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {

// Of sim/batch_mpc.cc. Not inlined: the solver is large.
void plan_group_by_mpc(int group, const float* constants, float* states, const Motion<Lanes>& motion,
                       const Lanes& wheel, const LeadState<Lanes>& lead, const Lanes& target_speed, const Lanes& alive,
                       Lanes& target);

namespace {  // the names are each file's own, in every target

template <bool kTakesTorque>
void advance_outside_lanes(const OutsideCall& call, const OutsideArrays& a) {
  using Control = LateralOutside<kTakesTorque>;
  using State = WorldState<Lanes, Control>;
  const auto plan_mpc = [&](State& world, MpcPlanner<Lanes>& mpc) {
    plan_group_by_mpc(0, a.mpc_constants, reinterpret_cast<float*>(&mpc), world.motion, world.steering.wheel,
                      world.lead, world.target_speed, world.metrics.alive, world.target);
  };
  advance_outside<Lanes, Control>(call, *reinterpret_cast<const OutsideInput<Lanes>*>(a.inputs),
                                  *reinterpret_cast<const WorldConstants<Lanes, Control>*>(a.constants),
                                  WorldRings<Lanes>(reinterpret_cast<Lanes*>(a.rings), 1),
                                  *reinterpret_cast<State*>(a.states), reinterpret_cast<Lanes*>(a.features),
                                  reinterpret_cast<MpcPlanner<Lanes>*>(a.mpc_states), plan_mpc);
}

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
