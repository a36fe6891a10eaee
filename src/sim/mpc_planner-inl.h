// openpilot's longitudinal planner about its MPC (sim/mpc-inl.h), at 20 Hz, over a number type; as of 2025, where the
// speed that is set is an obstacle as cars ahead are (selfdrive/controls/lib/longitudinal_planner.py, radard.py; MIT).
//
// Its state lies apart from a world's, because only worlds with this planner have any; its step is compiled once for
// each number type (sim/mpc_planner.cc, sim/batch_mpc.cc), because the solver is large.
#if defined(SPARKPILOT_SIM_MPC_PLANNER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_MPC_PLANNER_INL_H_
#undef SPARKPILOT_SIM_MPC_PLANNER_INL_H_
#else
#define SPARKPILOT_SIM_MPC_PLANNER_INL_H_
#endif

#include "sim/mpc-inl.h"
#include "sim/world-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

template <class N>
struct MpcPlannerConstants {
  MpcConstants<N> solver;
  N brake;        // m/s^2: most deceleration towards the speed that is set
  N action_time;  // s: when the acceleration that is asked for is in effect
  N plans;        // 1: the world has this planner
  N turn;         // 1/m: curvature of the path for each radian of the steering wheel, without slip
};
template <class N>
struct MpcPlanner {
  MpcState<N> solution;
  N speed, accel;  // m/s, m/s^2: what the next plan starts from
  N fastest;       // m/s^2: the most that the last plan asked for
  LeadEstimate<N> lead;
  N lead_tau;  // s: how long its acceleration is expected to last
  // Plans before the last one whose iterations were over first, and that break a limit; 1 if the last one is such.
  N unsolved, infeasible, last_unsolved, last_infeasible;
};

inline MpcPlannerConstants<double> prepare_mpc(const WorldSpec& w) {
  return {mpc_constants(w.mpc), w.course.brake, w.mpc.actuator_delay + kStepsPerPlan * kStep,
          w.following.planner == Planner::mpc ? 1.0 : 0.0, 1 / (w.vehicle.steer_ratio * w.vehicle.wheelbase)};
}
inline MpcPlanner<double> beginning_mpc(const WorldSpec& w) {
  MpcPlanner<double> s{};
  for (MpcPoint<double>& point : s.solution.at) point.v = w.course.speed;
  s.speed = w.course.speed;
  s.fastest = 2;
  s.lead_tau = kLeadTau;
  return s;
}

// While the acceleration of the car ahead is large, it is expected to last longer.
template <class N>
SIM_FN void expect_lead(const LeadState<N>& lead, MpcPlanner<N>& s) {
  const auto seen_before = see_lead(lead, s.lead);
  s.lead_tau = select(seen_before && (abs(s.lead.accel) >= N(0.5)), s.lead_tau * N(0.9), N(kLeadTau));
}

// The most acceleration that is asked for. In turns (limit_accel_in_turns) the whole of the acceleration along and
// across is limited, by what the steering wheel says of the second; the limit moves by at most 0.05 m/s^2 a plan.
template <class N>
SIM_FN N fastest_in_turn(const MpcPlannerConstants<N>& k, N speed, N wheel, N before) {
  constexpr double kSpeeds[] = {20, 40}, kMove = 0.05;
  const N whole[] = {N(1.7), N(3.2)};
  const N most = interpolate(speed, kSpeeds, whole), across = speed * speed * (wheel * k.turn);
  const N along = sqrt(max(neg_mul_add(across, across, most * most), N(0)));
  return clip(min(fastest_at(speed), along), before - N(kMove), before + N(kMove));
}

// `with_last`: the last plan counts, too.
inline void tell_plans(const MpcPlanner<double>& s, bool with_last, WorldResult& r) {
  r.unsolved_plans = s.unsolved + (with_last ? s.last_unsolved : 0);
  r.infeasible_plans = s.infeasible + (with_last ? s.last_infeasible : 0);
}

// Called behind plan(), which has moved the car ahead: replaces `target`, the acceleration asked for, in worlds that
// have this planner. `wheel`: the steering wheel's angle in radians; `alive`: 1 until the world diverged.
template <class N>
void plan_by_mpc(const MpcPlannerConstants<N>& k, const Motion<N>& motion, const N& wheel, const LeadState<N>& lead,
                 const N& target_speed, const N& alive, MpcPlanner<N>& s, N& target) {
  constexpr double kStepOfPlan = kStepsPerPlan * kStep, kFilter = 2;
  expect_lead(lead, s);
  // The plan continues itself; the car's speed only pulls at it.
  const N speed = max(mul_add(motion.speed - s.speed, N(kStepOfPlan / (kFilter + kStepOfPlan)), s.speed), N(0));

  MpcInput<N> in;
  in.speed = speed;
  in.acceleration = s.accel;
  in.max_accel = fastest_at(motion.speed);
  const auto there = is_set(lead.there);
  mpc_lead(select(there, lead.gap, N(50)), select(there, lead.speed, speed + N(10)), select(there, s.lead.accel, N(0)),
           select(there, s.lead_tau, N(kLeadTau)), speed, k.solver.min_accel, in.obstacle);
  N set[kMpcSteps + 1];
  mpc_cruise(target_speed, speed, -k.brake, in.max_accel, k.solver.t_follow, set);
  for (int i = 0; i <= kMpcSteps; ++i) {
    in.obstacle[i] = min(in.obstacle[i], set[i]);
    in.before[i] = mpc_accel_at(s.solution, mpc_time(i) + kStepOfPlan);
  }
  // A standing car need not stay near what it planned.
  MpcConstants<N> solver = k.solver;
  solver.accel_change = select(motion.speed < N(0.01), N(0), solver.accel_change);
  const MpcResult<N> made = mpc_step(solver, in, s.solution);
  s.unsolved = s.unsolved + s.last_unsolved;
  s.infeasible = s.infeasible + s.last_infeasible;
  s.last_unsolved = select(made.solved, N(0), alive);
  s.last_infeasible = select(made.broken > N(kMpcTolerance), alive, N(0));

  // What brings the car to the planned speed when the command is in effect.
  const N later = mpc_speed_at(s.solution, k.action_time);
  const N wanted = neg_mul_add(N(1), s.solution.at[0].a, N(2) * (later - s.solution.at[0].v) / k.action_time);
  s.fastest = fastest_in_turn(k, motion.speed, wheel, s.fastest);
  target = select(is_set(k.plans), max(min(wanted, s.fastest), k.solver.min_accel), target);

  const N next = mpc_accel_at(s.solution, kStepOfPlan);
  s.speed = mul_add(next + s.accel, N(kStepOfPlan / 2), speed);
  s.accel = next;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
