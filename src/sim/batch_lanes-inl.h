// Worlds of one controller as vectors; each controller's is compiled in a separate file (sim/batch_pid.cc ...),
// because one file of all takes minutes.
#if defined(SPARKPILOT_SIM_BATCH_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_BATCH_LANES_INL_H_
#undef SPARKPILOT_SIM_BATCH_LANES_INL_H_
#else
#define SPARKPILOT_SIM_BATCH_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "sim/batch_lanes.h"
#include "sim/lanes-inl.h"
#include "sim/world-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {

// plan_by_mpc() of one group's worlds, whose constants and state are the `group`th of these arrays
// (sim/batch_mpc.cc). Not inlined: the solver is large.
void plan_group_by_mpc(int group, const float* constants, float* states, const Motion<Lanes>& motion,
                       const Lanes& wheel, const LeadState<Lanes>& lead, const Lanes& target_speed, const Lanes& alive,
                       Lanes& target);

namespace {  // the names are each file's own, in every target

// Group by group, so that a group's constants and state stay in the first-level cache.
template <class Control>
void advance_groups(const LaneRun& r, int groups, const LaneArrays& arrays) {
  using Constants = WorldConstants<Lanes, Control>;
  using State = WorldState<Lanes, Control>;
  static_assert(sizeof(Constants) / sizeof(Lanes) == sizeof(WorldConstants<double, Control>) / sizeof(double));
  static_assert(sizeof(State) / sizeof(Lanes) == sizeof(WorldState<double, Control>) / sizeof(double));
  const RunSettings run{r.seed, r.warm_up, r.noise, r.leads, r.rich_courses};
  const auto* k = reinterpret_cast<const Constants*>(arrays.constants);
  auto* s = reinterpret_cast<State*>(arrays.states);
  auto* slots = reinterpret_cast<Lanes*>(arrays.rings);
  const auto* rows = reinterpret_cast<const Lanes*>(arrays.tables);
  for (int group = 0; group < groups; ++group) {
    const WorldRings<Lanes> ring(slots + group * kRingSlots, 1);
    const CourseRows<Lanes> table{rows ? rows + static_cast<ptrdiff_t>(group) * r.plans * kRowFields : nullptr, 1};
    State& world = s[group];
    world = beginning<Lanes, Control>(k[group].course, ring);
    for (int step = 0; step < r.steps; ++step) {
      if (step % kStepsPerPlan == 0) {
        plan(run, step, k[group], table, world);
        if (arrays.mpc_states) {
          plan_group_by_mpc(group, arrays.mpc_constants, arrays.mpc_states, world.motion, world.steering.wheel,
                            world.lead, world.target_speed, world.metrics.alive, world.target);
        }
      }
      step_car(run, step, k[group], ring, world, AnyTyres{r.tyres});
    }
  }
}

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
