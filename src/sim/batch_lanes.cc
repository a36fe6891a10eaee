#include "sim/batch_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/batch_lanes.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"
#include "sim/lanes-inl.h"
#include "sim/world-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

// Group by group, so that a group's constants and state stay in the first-level cache.
template <class Control, class Tyre>
void advance_groups(const LaneRun& r, int groups, const float* constants, float* states, float* rings,
                    const float* tables) {
  using Constants = WorldConstants<Lanes, Control>;
  using State = WorldState<Lanes, Control>;
  static_assert(sizeof(Constants) / sizeof(Lanes) == sizeof(WorldConstants<double, Control>) / sizeof(double));
  static_assert(sizeof(State) / sizeof(Lanes) == sizeof(WorldState<double, Control>) / sizeof(double));
  const Run run{r.seed, r.warm_up, r.noise, r.leads, r.rich_courses};
  const auto* k = reinterpret_cast<const Constants*>(constants);
  auto* s = reinterpret_cast<State*>(states);
  auto* slots = reinterpret_cast<Lanes*>(rings);
  const auto* rows = reinterpret_cast<const Lanes*>(tables);
  for (int group = 0; group < groups; ++group) {
    const WorldRings<Lanes> ring(slots + group * kRingSlots, 1);
    const CourseRows<Lanes> table{rows ? rows + static_cast<ptrdiff_t>(group) * r.plans * 4 : nullptr, 1};
    for (int step = r.first; step < r.last; ++step)
      step_world<Lanes, Control, Tyre>(run, step, k[group], ring, table, s[group]);
  }
}

template <class Control>
void advance_tyres(const LaneRun& r, int groups, const float* constants, float* states, float* rings,
                   const float* tables) {
  switch (r.tyres) {
    case Tyres::none: return advance_groups<Control, NoSlip>(r, groups, constants, states, rings, tables);
    case Tyres::linear: return advance_groups<Control, LinearTyres>(r, groups, constants, states, rings, tables);
    case Tyres::saturating:
      return advance_groups<Control, SaturatingTyres>(r, groups, constants, states, rings, tables);
  }
}

void advance_impl(const LaneRun& r, int groups, const float* constants, float* states, float* rings,
                  const float* tables) {
  switch (r.lateral) {
    case Lateral::pid: return advance_tyres<LateralPid>(r, groups, constants, states, rings, tables);
    case Lateral::torque: return advance_tyres<LateralTorque>(r, groups, constants, states, rings, tables);
    case Lateral::angle: return advance_tyres<LateralAngle>(r, groups, constants, states, rings, tables);
  }
}

int lanes_impl() { return kLanes; }

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {

HWY_EXPORT(advance_impl);
HWY_EXPORT(lanes_impl);

int lane_count() { return HWY_DYNAMIC_DISPATCH(lanes_impl)(); }

void advance_lanes(const LaneRun& run, int groups, const float* constants, float* states, float* rings,
                   const float* tables) {
  HWY_DYNAMIC_DISPATCH(advance_impl)(run, groups, constants, states, rings, tables);
}

}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
