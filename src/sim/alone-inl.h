// One world after the other, in a number type of one world: sim/batch.cc and sim/trace.cc. In the namespace scalar
// only.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "sim/mpc_planner-inl.h"
#include "sim/prepare.h"
#include "sim/world-inl.h"

namespace sparkpilot::sim::scalar {

extern template void plan_by_mpc(const MpcPlannerConstants<float>&, const Motion<float>&, const float&,
                                 const LeadState<float>&, const float&, const float&, MpcPlanner<float>&, float&);
extern template void plan_by_mpc(const MpcPlannerConstants<double>&, const Motion<double>&, const double&,
                                 const LeadState<double>&, const double&, const double&, MpcPlanner<double>&, double&);

// Steps of the planner in a run.
inline int plans_of(int steps) { return (steps + kStepsPerPlan - 1) / kStepsPerPlan; }

// The car ahead in the planner's step at a time: its speed, -1 without one, and the gap if it came since the step
// before, else 0.
struct LeadRow {
  double speed = -1, gap = 0;
};
struct LeadPlace {
  size_t until = 0, until_before = 0;  // rows until now, and until the step before
  // To a time that is not before that of the last call.
  LeadRow move_to(const CourseTable& table, double t) {
    if (table.lead_speed.empty()) return {};
    constexpr double kNear = 1e-6;  // s: times of rows and steps are sums that differ by rounding
    until = rows_until(table, t + kNear, until);
    const size_t behind = std::max<size_t>(until, 1), row = behind - 1;
    // The first step has the car of all rows until then.
    const double before = t - kStepsPerPlan * kStep;
    if (before >= -kNear) until_before = rows_until(table, before + kNear, until_before);
    if (!table.lead_speed[row]) return {};
    LeadRow lead{*table.lead_speed[row], 0};
    for (size_t i = until_before; i < behind; ++i) {
      if (table.lead_gap[i]) lead.gap = *table.lead_gap[i];
    }
    if (behind < table.time.size() && table.lead_speed[behind] && !table.lead_gap[behind]) {
      const double part = (t - table.time[row]) / (table.time[behind] - table.time[row]);
      lead.speed += std::clamp(part, 0.0, 1.0) * (*table.lead_speed[behind] - lead.speed);
    }
    return lead;
  }
};
// What a table says in the planner's steps, one after the other.
class CourseReader {
 public:
  CourseReader(const CourseTable& table, double lateral_delay) : table_(table), lateral_delay_(lateral_delay) {}
  // At a time that is not before that of the last call.
  CourseRow<double> row(double t) {
    now_.move_to(table_, t);
    later_.move_to(table_, t + lateral_delay_);
    const LeadRow lead = lead_.move_to(table_, t);
    return {now_.of(table_.curvature),
            later_.of(table_.curvature),
            now_.of(table_.speed),
            now_.of(table_.roll),
            lead.speed,
            lead.gap};
  }

 private:
  const CourseTable& table_;
  double lateral_delay_;
  TablePlace now_, later_;
  LeadPlace lead_;
};
// Calls put(row) with what the table of `w`, which has one, says in each step of the planner.
template <class Put>
void each_course_row(const WorldSpec& w, int steps, const Put& put) {
  CourseReader reader(*w.course.table, w.lateral_delay);
  for (int i = 0; i < plans_of(steps); ++i) put(reader.row(i * kStepsPerPlan * kStep));
}

// From one struct of numbers to that of another type.
template <class From, class To, class T>
void convert(const T& from, std::type_identity_t<To>* to, size_t fields) {
  From values[sizeof(T) / sizeof(From)];
  std::memcpy(values, &from, sizeof(T));
  for (size_t i = 0; i < fields; ++i) to[i] = static_cast<To>(values[i]);
}

// The same numbers in N.
template <class To, class N, class From>
To converted(const From& from) {
  constexpr size_t kFields = sizeof(From) / sizeof(double);
  static_assert(sizeof(To) == kFields * sizeof(N));
  N values[kFields];
  convert<double, N>(from, values, kFields);
  To to;
  std::memcpy(static_cast<void*>(&to), values, sizeof(to));
  return to;
}

template <class To, template <class...> class T, class N, class... Rest>
To in_doubles(const T<N, Rest...>& from) {
  double values[sizeof(To) / sizeof(double)];
  static_assert(sizeof(from) / sizeof(N) == sizeof(To) / sizeof(double));
  convert<N, double>(from, values, std::size(values));
  To to;
  std::memcpy(static_cast<void*>(&to), values, sizeof(to));
  return to;
}

// Runs a world in N; see(step, constants, state) is called behind every step.
template <class N, class Control, class See>
WorldResult run_world(const WorldSpec& spec, const RunSettings& run, int steps, Tyres tyres, const See& see) {
  const auto k = converted<WorldConstants<N, Control>, N>(prepare<Control>(spec, tyres));
  N slots[kRingSlots];
  const WorldRings<N> rings(slots, 1);
  auto s = beginning<N, Control>(k.course, rings);
  const bool by_mpc = spec.following.planner == Planner::mpc;
  MpcPlannerConstants<N> mpc_k;
  MpcPlanner<N> mpc_s;
  if (by_mpc) {
    mpc_k = converted<MpcPlannerConstants<N>, N>(prepare_mpc(spec));
    mpc_s = converted<MpcPlanner<N>, N>(beginning_mpc(spec));
  }
  std::vector<N> table;
  if (spec.course.table) {
    each_course_row(spec, steps, [&](const CourseRow<double>& row) {
      table.resize(table.size() + kRowFields);
      convert<double, N>(row, &table[table.size() - kRowFields], kRowFields);
    });
  }
  for (int step = 0; step < steps; ++step) {
    if (step % kStepsPerPlan == 0) {
      plan(run, step, k, CourseRows<N>{table.empty() ? nullptr : table.data(), 1}, s);
      if (by_mpc) {
        plan_by_mpc(mpc_k, s.motion, s.steering.wheel, s.lead, s.target_speed, s.metrics.alive, mpc_s, s.target);
      }
    }
    step_car(run, step, k, rings, s, AnyTyres{tyres});
    see(step, k, s);
  }
  WorldResult result = result_of<Control>(in_doubles<WorldState<double, Control>>(s));
  if (by_mpc) tell_plans(in_doubles<MpcPlanner<double>>(mpc_s), true, result);
  return result;
}

}  // namespace sparkpilot::sim::scalar
