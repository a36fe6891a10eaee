// The steering: what a command does to the angle of the steering wheel.
#if defined(SPARKPILOT_SIM_STEERING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_STEERING_INL_H_
#undef SPARKPILOT_SIM_STEERING_INL_H_
#else
#define SPARKPILOT_SIM_STEERING_INL_H_
#endif

#include "sim/vehicle-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// Values of the last steps, which lie `stride` N apart: in a block of worlds next to each other, in a GPU's memory a
// world apart.
template <class N, int kLength>
struct Ring {
  N* slots;
  int stride;
  // `step` counts from 0; what was before is what the slots held.
  SIM_FN void push(int step, N value) const { slots[step % kLength * stride] = value; }
  // What was pushed `back` steps before `step`, at most kLength - 1.
  SIM_FN N before(int step, N back) const {
    return look_back(static_cast<const N*>(slots), stride, step % kLength, kLength, back);
  }
  SIM_FN void fill(N value) const {
    SIM_ROLLED
    for (int i = 0; i < kLength; ++i) slots[i * stride] = value;
  }
};

inline constexpr int kSteeringDelay = 64;  // a delay is below this many steps
template <class N>
using SteeringRing = Ring<N, kSteeringDelay>;

template <class N>
struct SteeringConstants {
  N delay;                   // steps: whole
  N limit;                   // of the command: rad of the steering wheel, or 1 for torque
  N step;                    // most change of the command in a step
  N lag_gone;                // 1 - exp(-h / lag)
  N wheel_step;              // rad: most change of the wheel in a step
  N accel_factor, friction;  // torque: lateral acceleration at full torque, and what friction holds, m/s^2
};

template <class N>
struct SteeringState {
  N command;  // after limits of size and rate
  N wheel;    // rad
};

// Limits of size and rate, then the delay.
template <class N>
SIM_FN N delayed_command(const SteeringConstants<N>& k, SteeringRing<N> ring, int step, N command,
                         SteeringState<N>& state) {
  const N bounded = clip(command, -k.limit, k.limit);
  state.command = clip(bounded, state.command - k.step, state.command + k.step);
  ring.push(step, state.command);
  return ring.before(step, k.delay);
}

template <class N>
SIM_FN void turn_wheel(const SteeringConstants<N>& k, N difference, SteeringState<N>& state) {
  state.wheel = state.wheel + clip(k.lag_gone * difference, -k.wheel_step, k.wheel_step);
}

// A car that takes angles.
template <class N>
SIM_FN void steer_by_angle(const SteeringConstants<N>& k, SteeringRing<N> ring, int step, N command,
                           SteeringState<N>& state) {
  turn_wheel(k, delayed_command(k, ring, step, command, state) - state.wheel, state);
}

// A car that takes torque, -1 to 1, left positive. The tyres' aligning torque stands against it, which is in proportion
// to their force, so the wheel comes to rest where accel_factor torque is the lateral acceleration plus g roll: the
// relation that openpilot's torque control rests on. Within +-friction of that it stays where it is. Below 5 m/s torque
// is held against what a car at 5 m/s would need; grip does not change it.
template <class N>
SIM_FN void steer_by_torque(const SteeringConstants<N>& k, const CarConstants<N>& car, SteeringRing<N> ring, int step,
                            N command, N speed, N roll, SteeringState<N>& state) {
  const N torque = delayed_command(k, ring, step, command, state);
  const N u = max(speed, N(5)), square = u * u;
  const N per_acceleration = car.wheel_angle / square;  // wheel angle of a car that does not slip
  const N flexible = neg_mul_add(car.slip_factor, square, N(1)) * per_acceleration;
  const N rest = neg_mul_add(N(kGravity) * roll, per_acceleration, k.accel_factor * torque * flexible);
  const N band = k.friction * flexible, difference = rest - state.wheel;
  turn_wheel(k, difference - clip(difference, -band, band), state);
}
// The torque by which the wheel rests where it is, without friction.
SIM_FN double holding_torque(const SteeringConstants<double>& k, const CarConstants<double>& car, double wheel,
                             double speed, double roll) {
  const double u = max(speed, 5.0), square = u * u, per_acceleration = car.wheel_angle / square;
  const double flexible = (1 - car.slip_factor * square) * per_acceleration;
  return (wheel + kGravity * roll * per_acceleration) / (k.accel_factor * flexible);
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
