// A world as steps over a number type: constants, state and rings of delayed values; prepare() makes the constants in
// double (sim/prepare.h).
//
// WorldConstants and WorldState hold nothing but N, so that both are arrays of N wherever they lie: prepared in
// doubles, kept as [field][world] floats, stepped as vectors, or as one thread's on a GPU.
#if defined(SPARKPILOT_SIM_WORLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_WORLD_INL_H_
#undef SPARKPILOT_SIM_WORLD_INL_H_
#else
#define SPARKPILOT_SIM_WORLD_INL_H_
#endif

#include <cmath>

#include "sim/mppi-inl.h"
#include "sim/noise-inl.h"
#include "sim/world.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

template <class N>
struct CourseConstants {
  N curvature, wave, frequency, wave_at, wave_to, turn, turn_at, turn_inverse, turn2, turn2_at, turn2_inverse;
  N speed, speed_change, change_at, change_inverse, brake, gain_offset, gain_heading;
  N slip;  // rad per m/s^2: what the rear tyres give way by
  N roll, roll_change, roll_at, roll_inverse, grade, grip, ice_grip, ice_at, ice_to, side, side_at, side_to;
  N start_offset;
  N tabled;  // 1: a table says what it says
  // Where the road begins in a bend, with roll or in wind (sim/prepare.h); else all 0. As in Motion, SteeringState,
  // WorldState::desired_curvature and Metrics::acceleration.
  N start_wheel, start_command, start_lateral, start_yaw_rate, start_heading, start_desired, start_acceleration;
};

// A table's row of one step of the planner.
template <class N>
struct CourseRow {
  N curvature, ahead, speed, roll;  // ahead: the curvature lateral_delay later
  N lead_speed, lead_gap;           // speed: below 0 without a car ahead; gap: above 0 where another car comes
};
inline constexpr int kRowFields = sizeof(CourseRow<double>) / sizeof(double);
// The rows of a world, whose numbers are `stride` apart. Null where no world of the run has any.
template <class N>
struct CourseRows {
  const N* at = nullptr;
  int stride = 1;
  SIM_FN CourseRow<N> row(int i) const {
    const N* const from = at + i * kRowFields * stride;
    return {from[0], from[stride], from[2 * stride], from[3 * stride], from[4 * stride], from[5 * stride]};
  }
};

template <class N>
struct LeadConstants {
  N gap, speed, wave, frequency, change, change_at, change_inverse, change2, change2_at, change2_inverse, from, to;
  N followed;                                               // 1: the planner sees it
  N time_gap, standstill, accel, brake_inverse, max_brake;  // brake_inverse: 1 / (2 sqrt(accel brake))
  N tabled;                                                 // 1: the course's table says where it is
};

template <class N, class Control>
struct WorldConstants {
  CarConstants<N> car;
  SteeringConstants<N> steering;
  typename Control::template Constants<N> lateral;
  LongitudinalConstants<N> longitudinal;
  CourseConstants<N> course;
  LeadConstants<N> lead;
  N lag_left, lag_mean, drive_delay;  // powertrain
  N lateral_delay, delay_frames;
  N noise_angle, noise_speed, noise_curvature, noise_acceleration;
  N number_low, number_high;
};

template <class N>
struct Metrics {
  N steps, error, error_lost, error_max, jerk, jerk_lost, saturated, offset_max, speed, speed_lost;
  N acceleration;     // lateral, of the step before
  N alive, diverged;  // 1 until the state leaves every bound; the step of that
  N last_speed, last_offset;
  N distance, distance_lost;                                                // a compensated sum
  N plans, long_jerk, long_jerk_lost, long_acceleration, deceleration_max;  // at 20 Hz
  N gap_min, margin_min, closing_max, collided;  // closing_max: of the closing speed per gap, 1/s
};

template <class N>
struct LeadState {
  N there;  // 1: it is; 2: it was not at the planner's step before, or another one was
  N gap, speed;
  N passed;  // by the car itself since the last step of the planner, and what rounding lost of the gap
};

// radard's estimate of the car ahead: a steady Kalman filter at 20 Hz, begun anew for each car. Returns where it is the
// car that was there before.
template <class N>
struct LeadEstimate {
  N speed, accel;
};
template <class N>
SIM_FN auto see_lead(const LeadState<N>& lead, LeadEstimate<N>& s) {
  constexpr double kStepOfPlan = kStepsPerPlan * kStep, kSpeedGain = 0.1988689, kAccelGain = 0.28555364;
  const auto seen_before = is_set(lead.there) && (lead.there < N(1.5));
  const N expected = mul_add(s.accel, N(kStepOfPlan), s.speed), wrong = lead.speed - expected;
  s.speed = select(seen_before, mul_add(wrong, N(kSpeedGain), expected), lead.speed);
  s.accel = select(seen_before, mul_add(wrong, N(kAccelGain), s.accel), N(0));
  return seen_before;
}

template <class N, class Control>
struct WorldState {
  Motion<N> motion;
  SteeringState<N> steering;
  typename Control::template State<N> lateral;
  LongitudinalState<N> longitudinal;
  Road<N> road;
  LeadState<N> lead;
  N plan_curvature, target_speed, target;  // the planner's, left positive
  N plan_speed;                            // what its plan has the car at now
  N desired_curvature;                     // after the clip, right positive
  Metrics<N> metrics;
};

// The rings of a world lie behind each other.
inline constexpr int kRingSlots = kRequests + 2 * kSteeringDelay;
template <class N>
struct WorldRings {
  Ring<N, kRequests> requests;
  SteeringRing<N> steering, drive;
  SIM_FN WorldRings(N* slots, int stride)
      : requests{slots, stride},
        steering{slots + kRequests * stride, stride},
        drive{slots + (kRequests + kSteeringDelay) * stride, stride} {}
};

// What a step needs that is the same for all worlds.
struct RunSettings {
  uint64_t seed = 0;
  int warm_up = 0;     // steps that enter no figure
  bool noise = false;  // any world has some
  bool leads = false;  // any world has one
  // Any world's course is_rich(). One that is not gives the same bits either way: what it lacks is added as 0.
  bool rich_courses = false;
};
inline bool is_rich(const Course& c) {
  return c.wave_at != 0 || c.wave_for < kForever || c.turn2 != 0 || c.roll_change != 0;
}

inline constexpr double kNoGap = 1e9;

// A car that drives along the road at the course's speed, in equilibrium. Fills the rings with what was before.
template <class N, class Control>
SIM_FN WorldState<N, Control> beginning(const CourseConstants<N>& c, const WorldRings<N>& rings) {
  WorldState<N, Control> s{};
  s.motion.speed = c.speed;
  s.plan_speed = c.speed;
  s.motion.offset = c.start_offset;
  s.motion.lateral = c.start_lateral;
  s.motion.yaw_rate = c.start_yaw_rate;
  s.motion.heading = c.start_heading;
  s.steering.command = c.start_command;
  s.steering.wheel = c.start_wheel;
  s.desired_curvature = c.start_desired;
  s.metrics.acceleration = c.start_acceleration;
  s.longitudinal.state = N(2);
  s.metrics.alive = N(1);
  s.metrics.last_speed = c.speed;
  s.metrics.last_offset = c.start_offset;
  s.metrics.gap_min = s.metrics.margin_min = N(kNoGap);
  rings.requests.fill(Control::begin(c.start_desired * c.speed * c.speed, c.start_command, s.lateral));
  rings.steering.fill(c.start_command);
  rings.drive.fill(N(0));
  return s;
}

// 0 before `at`, 1 after the ramp, smooth between.
template <class N>
SIM_FN N ramp(N t, N at, N inverse) {
  const N x = clip((t - at) * inverse, N(0), N(1));
  return x * x * neg_mul_add(N(2), x, N(3));
}
template <class N>
SIM_FN N course_curvature(const RunSettings& run, const CourseConstants<N>& c, N t) {
  N s, unused, wave = c.wave;
  if (run.rich_courses) wave = select((t >= c.wave_at) && (t < c.wave_to), wave, N(0));
  sin_cos(c.frequency * (run.rich_courses ? t - c.wave_at : t), s, unused);
  const N simple = mul_add(c.turn, ramp(t, c.turn_at, c.turn_inverse), mul_add(wave, s, c.curvature));
  return run.rich_courses ? mul_add(c.turn2, ramp(t, c.turn2_at, c.turn2_inverse), simple) : simple;
}

// sum += x with what rounding loses carried in `lost` (W. Kahan, 1965).
template <class N>
SIM_FN void add_to(N& sum, N& lost, N x) {
  const N y = x - lost, t = sum + y;
  lost = (t - sum) - y;
  sum = t;
}

// The gap from which a car at speed v need not hit the one ahead at speed `lead`, whatever that does (SafeGap).
template <class N>
SIM_FN N safe_gap(N v, N lead) {
  constexpr SafeGap k;
  const N after = v + N(k.response * k.accel);
  const N own = mul_add(after * after, N(1 / (2 * k.brake)),
                        mul_add(v, N(k.response), N(0.5 * k.accel * k.response * k.response)));
  return max(neg_mul_add(lead * lead, N(1 / (2 * k.lead_brake)), own), N(0));
}

// The car ahead, at 20 Hz: where it is now, and what the planner asks for because of it. `row`: the table's, where
// some world has one.
template <class N, class Control>
SIM_FN void follow(const RunSettings& run, int step, bool tables, const CourseRow<N>& row, const LeadConstants<N>& k,
                   N t, WorldState<N, Control>& s) {
  LeadState<N>& l = s.lead;
  Metrics<N>& x = s.metrics;
  N sine, unused;
  sin_cos(k.frequency * t, sine, unused);
  const N changes =
      mul_add(k.change, ramp(t, k.change_at, k.change_inverse), k.change2 * ramp(t, k.change2_at, k.change2_inverse));
  N speed = max(mul_add(k.wave, sine, k.speed + changes), N(0)), first_gap = k.gap;
  auto there = (t >= k.from) && (t < k.to), goes_on = is_set(l.there);
  if (tables) {
    const auto tabled = is_set(k.tabled);
    speed = select(tabled, max(row.lead_speed, N(0)), speed);
    first_gap = select(tabled, row.lead_gap, first_gap);
    there = there || (tabled && (row.lead_speed >= N(0)));
    goes_on = goes_on && !(tabled && (row.lead_gap > N(0)));
  }
  const N half_step(0.5 * kStepsPerPlan * kStep);
  N moved = l.gap;
  add_to(moved, l.passed, half_step * (speed + l.speed));
  l.gap = select(goes_on, moved, first_gap);
  l.passed = select(goes_on, l.passed, N(0));
  l.speed = speed;
  l.there = select(there, select(goes_on, N(1), N(2)), N(0));

  const N v = s.motion.speed, closing = v - speed;
  const N wanted = k.standstill + max(mul_add(v * closing, k.brake_inverse, v * k.time_gap), N(0));
  const N ratio = wanted / max(l.gap, N(0.1));
  const N target = max(neg_mul_add(ratio * ratio, k.accel, k.accel), -k.max_brake);
  s.target = select(there && is_set(k.followed), min(s.target, target), s.target);

  // A collision ends what the car ahead can say.
  const auto counts = there && is_set(x.alive) && !is_set(x.collided);
  x.collided = select(counts && (l.gap <= N(0)), N(1), x.collided);
  if (step < run.warm_up) return;
  x.gap_min = select(counts, min(x.gap_min, l.gap), x.gap_min);
  x.margin_min = select(counts, min(x.margin_min, l.gap - safe_gap(v, speed)), x.margin_min);
  x.closing_max = select(counts && (l.gap > N(0)), max(x.closing_max, closing / l.gap), x.closing_max);
}

// The longitudinal figures, at 20 Hz.
template <class N>
SIM_FN void measure_plan(const RunSettings& run, int step, N acceleration, Metrics<N>& x) {
  const auto alive = is_set(x.alive);
  const N jerk = select(alive, (acceleration - x.long_acceleration) * N(1 / (kStepsPerPlan * kStep)), N(0));
  x.long_acceleration = select(alive, acceleration, N(0));
  if (step < run.warm_up) return;
  x.plans = x.plans + x.alive;
  add_to(x.long_jerk, x.long_jerk_lost, jerk * jerk);
  x.deceleration_max = max(x.deceleration_max, N(0) - x.long_acceleration);
}

// The most acceleration that openpilot asks for at a speed.
template <class N>
SIM_FN N fastest_at(N speed) {
  constexpr double kSpeeds[] = {0, 10, 25, 40};
  const N fastest[] = {N(1.6), N(1.2), N(0.8), N(0.6)};
  return interpolate(speed, kSpeeds, fastest);
}

// 20 Hz: the road under the car and the planner's wishes, at the time t. The planner sees the true state. `said`: the
// row of the table, where some world has one.
template <class N, class Control>
SIM_FN void plan_at(const RunSettings& run, int step, N t, bool tables, const CourseRow<N>& said,
                    const WorldConstants<N, Control>& k, WorldState<N, Control>& s) {
  const CourseConstants<N>& c = k.course;
  const Motion<N>& m = s.motion;
  CourseRow<N> row{course_curvature(run, c, t),
                   course_curvature(run, c, t + k.lateral_delay),
                   max(mul_add(c.speed_change, ramp(t, c.change_at, c.change_inverse), c.speed), N(0)),
                   run.rich_courses ? mul_add(c.roll_change, ramp(t, c.roll_at, c.roll_inverse), c.roll) : c.roll,
                   said.lead_speed,
                   said.lead_gap};
  if (tables) {
    const auto tabled = is_set(c.tabled);
    row = {select(tabled, said.curvature, row.curvature),
           select(tabled, said.ahead, row.ahead),
           select(tabled, said.speed, row.speed),
           select(tabled, said.roll, row.roll),
           said.lead_speed,
           said.lead_gap};
  }
  s.road.curvature = row.curvature;
  s.road.roll = row.roll;
  s.road.grade = c.grade;
  s.road.grip = select((t >= c.ice_at) && (t < c.ice_to), c.ice_grip, c.grip);
  s.road.side = select((t >= c.side_at) && (t < c.side_to), c.side, N(0));
  // Critically damped: offset'' = -w^2 offset - 2 w offset'. A car that keeps to the road's curvature moves in another
  // direction than it heads, by the rear axle's distance and slip.
  const N v = max(m.speed, N(5)), inverse = N(1) / v;
  const N pull = mul_add(v * v, row.curvature, N(kGravity) * row.roll);
  const N direction = neg_mul_add(c.slip, pull, mul_add(k.car.center_to_rear, row.curvature, m.heading));
  s.plan_curvature =
      neg_mul_add(mul_add(c.gain_offset * m.offset, inverse, c.gain_heading * direction), inverse, row.ahead);
  // openpilot's cruise planner: clip(v_cruise - v, -1.2, a_max).
  s.target_speed = row.speed;
  s.target = clip(s.target_speed - m.speed, -c.brake, fastest_at(m.speed));
  // openpilot's plans continue the last one; the car's own speed only pulls at them, by a filter of 2 s.
  constexpr double kStepOfPlan = kStepsPerPlan * kStep, kFilter = 2;
  s.plan_speed = mul_add(m.speed - s.plan_speed, N(kStepOfPlan / (kFilter + kStepOfPlan)), s.plan_speed);
  if (run.leads) follow(run, step, tables, row, k.lead, t, s);
  measure_plan(run, step, m.acceleration, s.metrics);
}
template <class N, class Control>
SIM_FN void plan(const RunSettings& run, int step, const WorldConstants<N, Control>& k, const CourseRows<N>& table,
                 WorldState<N, Control>& s) {
  CourseRow<N> said{};
  if (table.at) said = table.row(step / kStepsPerPlan);
  plan_at(run, step, N(step * kStep), table.at != nullptr, said, k, s);
}

// `counts`: the step enters the figures.
template <class N>
SIM_FN void measure(N step, bool counts, MaskOf<N> saturated, const Road<N>& road, N yaw_rate, N target_speed,
                    const Motion<N>& m, N wheel, Metrics<N>& x) {
  // Comparisons with NaN are false.
  const auto bounded = (abs(m.lateral) < N(100)) && (abs(m.yaw_rate) < N(20)) && (abs(m.offset) < N(1e5)) &&
                       (abs(m.heading) < N(1e4)) && (m.speed < N(200)) && (abs(x.distance + m.passed) < N(1e7)) &&
                       (abs(wheel) < N(1e3));
  const auto was_alive = is_set(x.alive), alive = was_alive && bounded;
  x.diverged = select(was_alive && !bounded, step, x.diverged);
  x.alive = flag<N>(alive);
  x.last_speed = select(alive, m.speed, x.last_speed);
  x.last_offset = select(alive, m.offset, x.last_offset);
  add_to(x.distance, x.distance_lost, select(alive, m.passed, N(0)));
  const N acceleration = yaw_rate * m.speed;
  const N jerk = select(alive, (acceleration - x.acceleration) * N(1 / kStep), N(0));
  x.acceleration = select(alive, acceleration, N(0));
  if (!counts) return;
  const N error = select(alive, neg_mul_add(road.curvature * m.speed, m.speed, acceleration), N(0));
  const N speed = select(alive, target_speed - m.speed, N(0));
  x.steps = x.steps + x.alive;
  add_to(x.error, x.error_lost, error * error);
  x.error_max = max(x.error_max, abs(error));
  add_to(x.jerk, x.jerk_lost, jerk * jerk);
  add_to(x.speed, x.speed_lost, speed * speed);
  x.saturated = x.saturated + flag<N>(alive && saturated);
  x.offset_max = max(x.offset_max, select(alive, abs(m.offset), N(0)));
}

// What controllers see of a step's beginning.
template <class N>
struct Seen {
  N speed, angle, acceleration;  // m/s, degrees of the wheel, m/s^2: with noise
  MaskOf<N> limited;             // the desired curvature was
};
// `step`: of the random numbers.
template <class N, class Control>
SIM_FN Seen<N> sense(const RunSettings& run, WordsOf<N> step, const WorldConstants<N, Control>& k,
                     WorldState<N, Control>& s) {
  Seen<N> seen{s.motion.speed, s.steering.wheel * N(kDegrees), s.motion.acceleration, {}};
  N wish = -s.plan_curvature;
  if (run.noise) {
    N normal[4];
    normal_numbers(run.seed, step, k.number_low, k.number_high, normal);
    seen.angle = mul_add(k.noise_angle, normal[0], seen.angle);
    seen.speed = max(mul_add(k.noise_speed, normal[1], seen.speed), N(0));
    seen.acceleration = mul_add(k.noise_acceleration, normal[2], seen.acceleration);
    wish = mul_add(k.noise_curvature, normal[3], wish);
  }
  s.desired_curvature = clip_curvature(seen.speed, s.desired_curvature, wish, s.road.roll, seen.limited);
  return seen;
}

// openpilot's longitudinal control, m/s^2. Older versions of it follow the plan's speed.
template <class N, class Control>
SIM_FN N longitudinal_command(const WorldConstants<N, Control>& k, N seen_speed, N seen_acceleration,
                              WorldState<N, Control>& s) {
  const auto no = seen_speed < N(-1), yes = !no;
  const auto should_stop = (seen_speed < N(0.3)) && (s.target < N(0.1));
  const LongitudinalInput<N> in{seen_speed, seen_acceleration, s.plan_speed, s.target, yes, should_stop, no, no};
  s.plan_speed = max(mul_add(s.target, N(kStep), s.plan_speed), N(0));
  return longitudinal_control(k.longitudinal, in, s.longitudinal);
}

// A step of 10 ms with the steering's command (torque of -1 to 1, or degrees of the wheel) and that of the powertrain.
// `slot`: of the rings. Returns the yaw rate.
template <class N, class Control, class Tyre>
SIM_FN N drive_car(int slot, const WorldConstants<N, Control>& k, const WorldRings<N>& rings, N command, N drive,
                   WorldState<N, Control>& s, Tyre tyres) {
  const N before = s.motion.speed;
  if constexpr (Control::kTorque) {
    steer_by_torque(k.steering, k.car, rings.steering, slot, command, before, s.road.roll, s.steering);
  } else {
    steer_by_angle(k.steering, rings.steering, slot, command * N(1 / kDegrees), s.steering);
  }
  rings.drive.push(slot, drive);
  accelerate(k.car, k.lag_left, k.lag_mean, rings.drive.before(slot, k.drive_delay), s.road.grade, s.motion);
  move(tyres, k.car, s.steering.wheel, before, s.road, s.motion);
  s.lead.passed = s.lead.passed + s.motion.passed;
  return s.motion.yaw_rate * motion_scale(k.car, s.motion.speed);
}

// One step of 10 ms, the `step`th from 0, whose plan is made where one is due: every kStepsPerPlan steps. It reads
// neither course nor lead of the constants.
template <class N, class Control, class Tyre>
SIM_FN void step_car(const RunSettings& run, int step, const WorldConstants<N, Control>& k, const WorldRings<N>& rings,
                     WorldState<N, Control>& s, Tyre tyres) {
  const Seen<N> seen = sense(run, WordsOf<N>(static_cast<uint32_t>(step)), k, s);
  const auto no = seen.speed < N(-1), yes = !no;
  MaskOf<N> saturated;
  const LateralInput<N> lateral{s.desired_curvature, seen.speed, seen.angle, N(0), s.road.roll,
                                k.delay_frames,      yes,        no,         no,   seen.limited};
  const N command = Control::update(k.lateral, k.car, lateral, rings.requests, step, s.lateral, saturated);
  const N drive = longitudinal_command(k, seen.speed, seen.acceleration, s);
  const N yaw_rate = drive_car(step, k, rings, command, drive, s, tyres);
  measure(N(step), step >= run.warm_up, saturated, s.road, yaw_rate, s.target_speed, s.motion, s.steering.wheel,
          s.metrics);
}

// Calls f with the chosen controller as its template argument.
template <class F>
inline auto with_control(Lateral lateral, const F& f) {
  switch (lateral) {
    case Lateral::pid: return f.template operator()<LateralPid>();
    case Lateral::torque: return f.template operator()<LateralTorque>();
    case Lateral::mppi: return f.template operator()<LateralMppi>();
    case Lateral::angle: break;
  }
  return f.template operator()<LateralAngle>();
}

template <class Control>
inline WorldResult result_of(const WorldState<double, Control>& s) {
  const Metrics<double>& m = s.metrics;
  WorldResult r;
  r.steps = static_cast<int64_t>(m.steps);
  const double each = m.steps > 0 ? 1 / m.steps : 0;
  r.tracking_rmse = sqrt(m.error * each);
  r.tracking_max = m.error_max;
  r.jerk_rms = sqrt(m.jerk * each);
  r.saturated = m.saturated * each;
  r.offset_max = m.offset_max;
  r.speed_rmse = sqrt(m.speed * each);
  r.longitudinal_jerk_rms = m.plans > 0 ? sqrt(m.long_jerk / m.plans) : 0;
  r.deceleration_max = m.deceleration_max;
  if (m.gap_min < kNoGap) {
    r.gap_min = m.gap_min;
    r.safety_margin_min = m.margin_min;
  }
  if (m.gap_min <= 0) r.time_to_collision_min = 0;
  else if (m.closing_max > 0) r.time_to_collision_min = 1 / m.closing_max;
  r.collided = m.collided > 0.5;
  if (m.alive < 0.5) r.diverged = static_cast<int64_t>(m.diverged);
  r.speed = m.last_speed;
  r.offset = m.last_offset;
  r.distance = m.distance - m.distance_lost;
  return r;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
