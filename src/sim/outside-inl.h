// Worlds whose commands come from outside, over a number type. In one vector they may be at different times.
#if defined(SPARKPILOT_SIM_OUTSIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_OUTSIDE_INL_H_
#undef SPARKPILOT_SIM_OUTSIDE_INL_H_
#else
#define SPARKPILOT_SIM_OUTSIDE_INL_H_
#endif

#include "sim/mpc_planner-inl.h"
#include "sim/outside.h"
#include "sim/world-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// In a lateral controller's place: what the one outside sees, and what its commands cost.
template <bool kTakesTorque>
struct LateralOutside {
  template <class N>
  struct Constants {
    N limit;  // degrees: further away an angle counts as saturated
  };
  template <class N>
  struct State {
    N speed, angle, acceleration, limited;  // Seen
    N ahead[kPreviews];                     // curvature of the lane
    LeadEstimate<N> lead;
    N costs[kOutsideCosts];  // sums of squares
    Metrics<N> unplanned;    // those before the last plan, which a run that ends there does not make
  };
  static constexpr bool kTorque = kTakesTorque;
  static SIM_FN Constants<double> constants(const LateralTuning& t) { return {t.angle_limit}; }
  template <class N>
  static SIM_FN N begin(N, N, State<N>&) {
    return N(0);
  }
};

template <class N>
struct OutsideInput {
  N lateral, drive;  // the commands
  N step;            // that the world has made
  N until;           // steps from now to that behind which its plan is due
  N time;            // of that plan, s
  CourseRow<N> row;  // what its table says at that time
  N ahead[kPreviews];
};

// What a call shows of a world, where it was not computed in the caller's memory.
template <class N>
struct SteppedNumbers {
  N features[kOutsideFeatures];
  N costs[kOutsideCosts];  // sums over the call's steps
  N alive, collided;
};

template <class N, class Control>
SIM_FN void plan_outside(const RunSettings& run, const OutsideInput<N>& in, bool tables,
                         const WorldConstants<N, Control>& k, WorldState<N, Control>& s) {
  s.lateral.unplanned = s.metrics;
  plan_at(run, 0, in.time, tables, in.row, k, s);
  see_lead(s.lead, s.lateral.lead);
  static_assert(kPreviews == 4);  // one by one: a GPU's code cannot read the array
  constexpr double k0 = kPreview[0], k1 = kPreview[1], k2 = kPreview[2], k3 = kPreview[3];
  const N previews[] = {N(k0), N(k1), N(k2), N(k3)};
  for (int i = 0; i < kPreviews; ++i) {
    const N ahead = course_curvature(run, k.course, in.time + previews[i]);
    s.lateral.ahead[i] = tables ? select(is_set(k.course.tabled), in.ahead[i], ahead) : ahead;
  }
}

template <class N, class Control>
SIM_FN void sense_outside(const RunSettings& run, N step, const WorldConstants<N, Control>& k,
                          WorldState<N, Control>& s) {
  const Seen<N> seen = sense(run, to_words(step), k, s);
  s.lateral.speed = seen.speed;
  s.lateral.angle = seen.angle;
  s.lateral.acceleration = seen.acceleration;
  s.lateral.limited = flag<N>(seen.limited);
}

// In the order of the table in sim/world_stepper.cc.
template <class N, class Control>
SIM_FN void features_outside(const WorldConstants<N, Control>& k, const WorldState<N, Control>& s, N* out) {
  const auto& seen = s.lateral;
  const N there = flag<N>(is_set(s.lead.there));
  const N features[] = {seen.speed,
                        seen.acceleration,
                        seen.angle,
                        -s.desired_curvature,
                        seen.limited,
                        s.target_speed,
                        s.target,
                        s.road.roll,
                        there,
                        select(is_set(there), s.lead.gap, N(0)),
                        select(is_set(there), s.lead.speed, N(0)),
                        select(is_set(there), seen.lead.accel, N(0)),
                        s.motion.offset,
                        s.motion.heading,
                        s.motion.yaw_rate * motion_scale(k.car, s.motion.speed),
                        s.road.curvature,
                        seen.ahead[0],
                        seen.ahead[1],
                        seen.ahead[2],
                        seen.ahead[3],
                        s.steering.command * N(Control::kTorque ? 1 : kDegrees),
                        k.lateral_delay};
  static_assert(sizeof(features) / sizeof(N) == kOutsideFeatures && kPreviews == 4);
  for (int i = 0; i < kOutsideFeatures; ++i) out[i] = features[i];
}

// One step of 10 ms; what is seen is that of its beginning.
template <class N, class Control>
SIM_FN void step_outside(const OutsideCall& call, int slot, N step, const OutsideInput<N>& in,
                         const WorldConstants<N, Control>& k, const WorldRings<N>& rings, WorldState<N, Control>& s) {
  auto& seen = s.lateral;
  MaskOf<N> saturated;
  if constexpr (Control::kTorque) {
    saturated = N(1) - abs(in.lateral) < N(1e-3);
  } else {
    saturated = (abs(in.lateral - seen.angle) > k.lateral.limit) && (seen.speed >= N(5));
  }
  N drive;
  if (call.longitudinal) {
    drive = clip(in.drive, k.longitudinal.low, k.longitudinal.high);
  } else {
    drive = longitudinal_command(k, seen.speed, seen.acceleration, s);
  }
  const N accelerated = s.motion.acceleration, lateral = s.metrics.acceleration;
  const N yaw_rate = drive_car(slot, k, rings, in.lateral, drive, s, AnyTyres{call.tyres});
  measure(step, true, saturated, s.road, yaw_rate, s.target_speed, s.motion, s.steering.wheel, s.metrics);

  const Motion<N>& m = s.motion;
  const N wanted_gap = max(mul_add(k.lead.time_gap, m.speed, k.lead.standstill), N(0.1));
  const N gap_lacking = select(is_set(s.lead.there), clip(N(1) - s.lead.gap / wanted_gap, N(0), N(1)), N(0));
  const N errors[] = {neg_mul_add(s.road.curvature * m.speed, m.speed, s.metrics.acceleration),
                      (s.metrics.acceleration - lateral) * N(1 / kStep),
                      m.offset,
                      s.target_speed - m.speed,
                      s.target - m.acceleration,
                      (m.acceleration - accelerated) * N(1 / kStep),
                      gap_lacking};
  static_assert(sizeof(errors) / sizeof(N) == kOutsideCosts);
  const auto alive = is_set(s.metrics.alive);
  for (int i = 0; i < kOutsideCosts; ++i) {
    seen.costs[i] = select(alive, mul_add(errors[i], errors[i], seen.costs[i]), N(0));
  }
}

// The numbers of worlds for which the mask is set become those of `from`.
template <class N, class T>
SIM_FN void take_where(MaskOf<N> mask, const T& from, T& to) {
  const auto* source = reinterpret_cast<const N*>(&from);
  auto* target = reinterpret_cast<N*>(&to);
  for (size_t i = 0; i < sizeof(T) / sizeof(N); ++i) target[i] = select(mask, source[i], target[i]);
}

// The steps of a call; due(i) makes the plans that are due behind step i.
template <class N, class Control, class Due>
SIM_FN void advance_steps(const OutsideCall& call, const RunSettings& run, const OutsideInput<N>& in,
                          const WorldConstants<N, Control>& k, const WorldRings<N>& rings, WorldState<N, Control>& s,
                          const Due& due) {
  if (call.first) {
    for (N& cost : s.lateral.costs) cost = N(0);
  }
  N step = in.step;
  for (int i = 0; i < call.steps; ++i) {
    step_outside(call, call.slot + i, step, in, k, rings, s);
    step = step + N(1);
    due(i);
    sense_outside(run, step, k, s);
  }
}

// `mpc` is the state of the planner of that name, null if no world has it; plan_mpc(world, mpc) makes its step.
template <class N, class Control, class PlanMpc>
SIM_FN void advance_outside(const OutsideCall& call, const OutsideInput<N>& in, const WorldConstants<N, Control>& k,
                            const WorldRings<N>& rings, WorldState<N, Control>& s, N* features, MpcPlanner<N>* mpc,
                            const PlanMpc& plan_mpc) {
  const RunSettings run{call.seed, 0, call.noise, call.leads, call.rich_courses};
  advance_steps(call, run, in, k, rings, s, [&](int i) {
    if (!(call.due >> i & 1)) return;
    WorldState<N, Control> planned = s;
    plan_outside(run, in, call.tables, k, planned);
    const auto due = in.until == N(i + 1);
    if (mpc) {
      MpcPlanner<N> next = *mpc;
      plan_mpc(planned, next);
      take_where<N>(due, next, *mpc);
    }
    take_where<N>(due, planned, s);
  });
  if (call.last) features_outside(k, s, features);
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
