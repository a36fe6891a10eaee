// openpilot's controllers at 100 Hz, over a number type.
//
// Their formulas are those of openpilot's selfdrive/controls/lib (MIT) as published in 2025 and 2026. [f]: read in a
// fork that follows upstream, [m]: from memory; all such numbers are members of the constants below, so that a
// parameter file can say otherwise.
//
// Desired curvature is positive to the right in them, angles and torque are positive to the left, as in openpilot.
#if defined(SPARKPILOT_SIM_CONTROL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_CONTROL_INL_H_
#undef SPARKPILOT_SIM_CONTROL_INL_H_
#else
#define SPARKPILOT_SIM_CONTROL_INL_H_
#endif

#include "sim/control.h"
#include "sim/steering-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// openpilot's PID [f]: the integral stops where the output is beyond a limit, and does not unwind.
template <class N>
struct PidTerms {
  N kp, ki, kd, error, error_rate, feedforward, low, high;
  MaskOf<N> frozen;
};
template <class N>
SIM_FN N pid(const PidTerms<N>& t, N& integral) {
  const N p = t.kp * t.error, d = t.kd * t.error_rate;
  const N moved = mul_add(t.ki * N(kStep), t.error, integral);
  const N all = p + moved + d + t.feedforward;
  const N bounded = clip(moved, select(all < t.low, integral, t.low), select(all > t.high, integral, t.high));
  integral = select(t.frozen, integral, bounded);
  return clip(p + integral + d + t.feedforward, t.low, t.high);
}

// What the lateral controllers see.
template <class N>
struct LateralInput {
  N desired_curvature;  // 1/m, right positive
  N speed;              // m/s
  N angle;              // degrees of the steering wheel
  N angle_offset;       // degrees
  N roll;               // rad
  N delay_frames;       // delay_frames() of the time from a command to the lateral acceleration that it asks for
  MaskOf<N> active, driver_steers, limited_by_safety, curvature_limited;
};
template <class N>
SIM_FN MaskOf<N> integral_frozen(const LateralInput<N>& in) {
  return in.limited_by_safety || in.driver_steers || (in.speed < N(5));
}

// The curvature that the wheel gives, right positive; `square` of the speed in (m/s)^2.
template <class N>
SIM_FN N measured_curvature(const CarConstants<N>& car, const LateralInput<N>& in, N square) {
  const N wheel = (in.angle - in.angle_offset) * N(1 / kDegrees);
  return -mul_add(car.wheel_curvature, wheel, car.slip_roll * in.roll) *
         (N(1) / neg_mul_add(car.slip_factor, square, N(1)));
}

// Whether an output has been at its limit for 1 s [m]. `seconds` is state.
template <class N>
SIM_FN MaskOf<N> long_saturated(MaskOf<N> saturated, const LateralInput<N>& in, N& seconds) {
  const auto counts =
      (saturated || in.curvature_limited) && (in.speed > N(10)) && !in.limited_by_safety && !in.driver_steers;
  seconds = clip(seconds + select(counts, N(kStep), N(-kStep)), N(0), N(1));
  return seconds > N(1 - 1e-3);
}

// Curvature as controlsd clips it: jerk, then lateral acceleration, then what a car can turn. "Limited" means the last
// two.
template <class N>
SIM_FN N clip_curvature(N speed, N previous, N wanted, N roll, MaskOf<N>& limited) {
  const N v = max(speed, N(1)), inverse = N(1) / (v * v);
  const N step = N(kMaxLateralJerk * kStep) * inverse;
  const N slow = clip(wanted, previous - step, previous + step);
  const N low = mul_add(roll, N(kGravity), N(-kMaxLateralAcceleration)) * inverse;
  const N high = mul_add(roll, N(kGravity), N(kMaxLateralAcceleration)) * inverse;
  limited = (slow < low) || (slow > high);
  const N bounded = clip(slow, low, high);
  limited = limited || (abs(bounded) > N(kMaxCurvature));
  return clip(bounded, N(-kMaxCurvature), N(kMaxCurvature));
}

// The lateral controllers: Constants<N> (of LateralTuning), State<N>, update() -> torque (-1 to 1) or degrees of the
// wheel, left positive. `saturated` is that of this step. All N of a state are 0 before begin(), which is told what the
// car was asked for until then: m/s^2 to the right, and a command as the steering has it. It returns what all slots of
// the ring hold.

struct LateralPid {
  template <class N>
  struct Constants {
    N kp[2], ki[2], kf;
  };
  template <class N>
  struct State {
    N integral;
  };
  static constexpr bool kTorque = true;
  static SIM_FN Constants<double> constants(const LateralTuning& t) {
    return {{t.pid_kp[0], t.pid_kp[1]}, {t.pid_ki[0], t.pid_ki[1]}, t.pid_kf};
  }
  template <class N>
  static SIM_FN N begin(N, N, State<N>&) {
    return N(0);
  }
  template <class N>
  static SIM_FN N update(const Constants<N>& k, const CarConstants<N>& car, const LateralInput<N>& in,
                         Ring<N, kRequests>, int, State<N>& state, MaskOf<N>& saturated) {
    const N wanted = steer_from_curvature(car, -in.desired_curvature, in.speed, in.roll) * N(kDegrees);
    constexpr double kSpeeds[] = {0, 35};
    const PidTerms<N> terms{interpolate(in.speed, kSpeeds, k.kp),
                            interpolate(in.speed, kSpeeds, k.ki),
                            N(0),
                            wanted + in.angle_offset - in.angle,
                            N(0),
                            k.kf * wanted * (in.speed * in.speed),
                            N(-1),
                            N(1),
                            integral_frozen(in)};
    N integral = state.integral;
    const N output = pid(terms, integral);
    state.integral = select(in.active, integral, state.integral);
    saturated = in.active && (N(1) - abs(output) < N(1e-3));
    return select(in.active, output, N(0));
  }
};

struct LateralTorque {
  template <class N>
  struct Constants {
    N kp, kp_fast, ki, jerk_gain, jerk_frames, jerk_per_difference, filter;
    N accel_factor, accel_factor_inverse, accel_offset, friction, dead_zone;
  };
  template <class N>
  struct State {
    N integral, jerk;
  };
  static constexpr bool kTorque = true;
  static SIM_FN Constants<double> constants(const LateralTuning& t) {
    const double rc = 1 / (2 * 3.141592653589793 * t.jerk_cutoff);
    return {t.torque_kp,
            t.torque_kp_fast,
            t.torque_ki,
            t.jerk_gain,
            static_cast<double>(static_cast<int>(t.jerk_lookahead / kStep)),
            1 / (2 * kStep),
            kStep / (rc + kStep),
            t.accel_factor,
            1 / t.accel_factor,
            t.accel_offset,
            t.friction,
            t.dead_zone_degrees / kDegrees};
  }
  template <class N>
  static SIM_FN N begin(N request, N, State<N>&) {
    return request;
  }
  // `requests`: the desired lateral accelerations of the last second; `step` counts from 0.
  template <class N>
  static SIM_FN N update(const Constants<N>& k, const CarConstants<N>& car, const LateralInput<N>& in,
                         Ring<N, kRequests> requests, int step, State<N>& state, MaskOf<N>& saturated) {
    const N v2 = in.speed * in.speed, flexible = N(1) / neg_mul_add(car.slip_factor, v2, N(1));
    const N measured = measured_curvature(car, in, v2) * v2;
    const N wanted = in.desired_curvature * v2;
    requests.push(step, wanted);
    // buffer[-n] is n - 1 steps before the newest.
    const N setpoint = requests.before(step, in.delay_frames - N(1));
    const N at = clip(in.delay_frames - k.jerk_frames, N(2), N(kRequests - 1));
    const N raw_jerk = (requests.before(step, at - N(2)) - requests.before(step, at)) * k.jerk_per_difference;
    const N jerk = mul_add(k.filter, raw_jerk - state.jerk, state.jerk);
    const N error = setpoint - measured;

    const N push = mul_add(k.jerk_gain, jerk, error);
    const N still = abs(car.wheel_curvature * k.dead_zone * flexible) * v2;
    const N friction = clip(push * N(1 / kFrictionThreshold), N(-1), N(1)) * (k.friction * k.accel_factor);
    const N needed = select((push > -still) && (push < still), N(0), friction);
    const N feedforward = neg_mul_add(in.roll, N(kGravity), wanted) - k.accel_offset + needed;

    constexpr double kSpeeds[] = {1, 1.5, 2, 3, 5, 7.5, 10, 15, 30};
    const N gains[] = {N(250), N(120), N(65), N(30), N(11.5), N(5.5), N(3.5), N(2), k.kp_fast};
    const PidTerms<N> terms{k.kp * interpolate(in.speed, kSpeeds, gains),
                            k.ki,
                            N(0),
                            error,
                            N(0),
                            feedforward,
                            -k.accel_factor,
                            k.accel_factor,
                            integral_frozen(in)};
    N integral = state.integral;
    const N torque = pid(terms, integral) * k.accel_factor_inverse;
    state.integral = select(in.active, integral, state.integral);
    state.jerk = jerk;
    saturated = in.active && (N(1) - abs(torque) < N(1e-3));
    return select(in.active, -torque, N(0));
  }
};

struct LateralAngle {
  template <class N>
  struct Constants {
    N limit;  // degrees
  };
  template <class N>
  struct State {
    N none;
  };
  static constexpr bool kTorque = false;
  static SIM_FN Constants<double> constants(const LateralTuning& t) { return {t.angle_limit}; }
  template <class N>
  static SIM_FN N begin(N, N, State<N>&) {
    return N(0);
  }
  template <class N>
  static SIM_FN N update(const Constants<N>& k, const CarConstants<N>& car, const LateralInput<N>& in,
                         Ring<N, kRequests>, int, State<N>&, MaskOf<N>& saturated) {
    const N wanted =
        mul_add(steer_from_curvature(car, -in.desired_curvature, in.speed, in.roll), N(kDegrees), in.angle_offset);
    saturated = in.active && (abs(wanted - in.angle) > k.limit) && (in.speed >= N(5));
    return select(in.active, wanted, in.angle);
  }
};

// Longitudinal control [f]. States as numbers: 0 off, 1 stopping, 2 pid, 3 starting (older versions, `starting_state`
// of 1).
template <class N>
struct LongitudinalConstants {
  N kp[3], ki[3], kf;  // at 0, 5 and 35 m/s
  N speed_error;       // 1: the error is one of speed, as in older versions; 0: of acceleration
  N stop, stopping_rate, start, starting_speed, starting_state, low, high;
};
template <class N>
struct LongitudinalInput {
  N speed, acceleration;                             // of the car
  N target_speed, target;                            // m/s and m/s^2
  MaskOf<N> active, should_stop, brake, standstill;  // standstill: the car's own cruise control holds it
};
template <class N>
struct LongitudinalState {
  N state, integral, output;
};

SIM_FN LongitudinalConstants<double> longitudinal_constants(const LongitudinalTuning& t) {
  return {{t.kp[0], t.kp[1], t.kp[2]},
          {t.ki[0], t.ki[1], t.ki[2]},
          t.kf,
          t.speed_error ? 1.0 : 0.0,
          t.stop_accel,
          t.stopping_rate,
          t.start_accel,
          t.starting_speed,
          t.starting_state ? 1.0 : 0.0,
          t.min_accel,
          t.max_accel};
}

template <class N>
SIM_FN N longitudinal_control(const LongitudinalConstants<N>& k, const LongitudinalInput<N>& in,
                              LongitudinalState<N>& s) {
  const N off(0), stopping(1), running(2), starting(3);
  const auto may_start = !in.should_stop && !in.standstill && !in.brake;
  const N started = select(is_set(k.starting_state), starting, running);
  // From off and stopping; then from starting and running, which the first two have not become in this step.
  const N first = select(may_start, started, stopping);
  const N held = select(in.speed > k.starting_speed, running, s.state);
  const N next = select(s.state < N(1.5), first, select(in.should_stop, stopping, held));
  s.state = select(in.active, next, off);

  const N braked = select(s.output > k.stop, min(s.output, N(0)) - k.stopping_rate * N(kStep), s.output);
  constexpr double kSpeeds[] = {0, 5, 35};
  const N error = select(is_set(k.speed_error), in.target_speed - in.speed, in.target - in.acceleration);
  const PidTerms<N> terms{interpolate(in.speed, kSpeeds, k.kp),
                          interpolate(in.speed, kSpeeds, k.ki),
                          N(0),
                          error,
                          N(0),
                          k.kf * in.target,
                          k.low,
                          k.high,
                          in.speed < N(-1)};
  N integral = s.integral;
  const N controlled = pid(terms, integral);
  const auto controls = s.state == running;
  s.integral = select(controls, integral, N(0));
  const N output =
      select(controls, controlled, select(s.state == stopping, braked, select(s.state == starting, k.start, N(0))));
  s.output = clip(output, k.low, k.high);
  return s.output;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
