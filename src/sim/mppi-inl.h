// A sampling controller of lateral acceleration: model predictive path integral control (G. Williams et al.,
// "Information-Theoretic Model Predictive Control", IEEE Transactions on Robotics 34(6), 2018), over a number type. It
// plans at 20 Hz and keeps the torque between.
//
// What it believes of the steering, at 20 Hz, with z the lateral acceleration that the wheel gives (of a car at 5 m/s,
// where it is slower) and u the torque of `delay` ago:
//   z += gone free(factor u + g roll + lacking - z),   free(e) = e - clip(e, -friction, friction)
// `lacking` is what that lacked of what was measured. A plan is three torques, 0.3 s apart and linear between. Its cost
// is the squared error of z over 0.6 s and a share of the squared change of torque. Friction leaves a band of torques
// that move nothing, wider than the noise; so the search begins at the cheapest of four plans: the last one, and the
// constant torques that hold the wanted z with friction against them, without it and with it. Each sample is that plan
// with noise on all three torques; the next plan is the mean of the samples weighted by exp(-cost). The noise is one
// set for all plans, points of the Halton sequence as normal numbers and their negatives, so nothing is drawn and a
// plan that is best already stays as it is.
#if defined(SPARKPILOT_SIM_MPPI_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_MPPI_INL_H_
#undef SPARKPILOT_SIM_MPPI_INL_H_
#else
#define SPARKPILOT_SIM_MPPI_INL_H_
#endif

#include "sim/control-inl.h"
#include "sim/math-inl.h"
#include "sim/world.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

inline constexpr int kMppiKnots = 3, kMppiStepsOfKnot = 6, kMppiDelays = 20;
// The first 16 points of bases 2, 3 and 5 through the inverse of the normal distribution.
inline constexpr double kMppiNoise[16][kMppiKnots] = {
    {0.0000, -0.4307, -0.8416}, {-0.6745, 0.4307, -0.2533},  {0.6745, -1.2206, 0.2533},  {-1.1503, -0.1397, 0.8416},
    {0.3186, 0.7647, -1.7507},  {-0.3186, -0.7647, -0.7063}, {1.1503, 0.1397, -0.1510},  {-1.5341, 1.2206, 0.3585},
    {0.1573, -1.7862, 0.9945},  {-0.4888, -0.3309, -1.4051}, {0.8871, 0.5351, -0.5828},  {-0.8871, -1.0444, -0.0502},
    {0.4888, -0.0464, 0.4677},  {-0.1573, 0.8958, 1.1750},   {1.5341, -0.6456, -1.1750}, {-1.8627, 0.2342, -0.4677}};

struct LateralMppi {
  template <class N>
  struct Constants {
    N accel_factor, accel_factor_inverse, friction, gone, lag_steps, noise, inverse_temperature, change, observer;
  };
  template <class N>
  struct State {
    N plan[kMppiKnots], torque, lacking, expected;
  };
  static constexpr bool kTorque = true;
  static constexpr double kPlanStep = kStepsPerPlan * kStep;

  static SIM_FN Constants<double> constants(const LateralTuning& t) {
    return {t.accel_factor,
            1 / t.accel_factor,
            t.friction * t.accel_factor,
            t.mppi_lag > 0 ? 1 - exp(max(-kPlanStep / t.mppi_lag, -80.0)) : 1.0,
            t.mppi_lag / kPlanStep,
            t.mppi_noise,
            1 / max(t.mppi_temperature, 1e-6),
            t.mppi_change * t.accel_factor * t.accel_factor,
            t.mppi_observer};
  }

  template <class N>
  static SIM_FN N moved(const Constants<N>& k, N z, N torque, N bias) {
    const N difference = mul_add(k.accel_factor, torque, bias) - z;
    return mul_add(k.gone, difference - clip(difference, -k.friction, k.friction), z);
  }

  // The cost of a plan from z on, after the torque `before`.
  template <class N>
  static SIM_FN N cost_of(const Constants<N>& k, const N* knots, N z, N before, N wanted, N bias) {
    N cost(0);
    for (int knot = 0; knot + 1 < kMppiKnots; ++knot) {
      const N slope = (knots[knot + 1] - knots[knot]) * N(1.0 / kMppiStepsOfKnot);
      for (int i = 0; i < kMppiStepsOfKnot; ++i) {
        const N torque = clip(mul_add(slope, N(i), knots[knot]), N(-1), N(1));
        z = moved(k, z, torque, bias);
        const N error = z - wanted, change = torque - before;
        cost = mul_add(error, error, mul_add(k.change * change, change, cost));
        before = torque;
      }
    }
    return cost;
  }

  // Puts the cheapest of the four plans in s.plan.
  template <class N>
  static SIM_FN void take_cheapest(const Constants<N>& k, N z, N wanted, N bias, State<N>& s) {
    N least = cost_of(k, s.plan, z, s.torque, wanted, bias);
    for (int side = -1; side <= 1; ++side) {
      const N held = mul_add(k.friction, N(side), wanted - bias) * k.accel_factor_inverse;
      const N torque = clip(held, N(-1), N(1));
      const N knots[kMppiKnots] = {torque, torque, torque};
      const N cost = cost_of(k, knots, z, s.torque, wanted, bias);
      for (int j = 0; j < kMppiKnots; ++j) s.plan[j] = select(cost < least, torque, s.plan[j]);
      least = min(cost, least);
    }
  }

  // `z` is where the plan begins.
  template <class N>
  static SIM_FN void improve(const Constants<N>& k, N z, N wanted, N bias, State<N>& s) {
    constexpr int kPoints = sizeof(kMppiNoise) / sizeof(kMppiNoise[0]), kSamples = 2 * kPoints;
    N costs[kSamples], least(0), sum(0);
    for (int i = 0; i < kSamples; ++i) {
      const double* const noise = kMppiNoise[i / 2];
      N knots[kMppiKnots];
      for (int j = 0; j < kMppiKnots; ++j) knots[j] = mul_add(k.noise, N(i % 2 == 0 ? noise[j] : -noise[j]), s.plan[j]);
      costs[i] = cost_of(k, knots, z, s.torque, wanted, bias);
      least = i == 0 ? costs[0] : min(least, costs[i]);
      sum = sum + costs[i];
    }
    // The temperature is a share of what the samples cost more than the best on average.
    const N above = mul_add(sum, N(1.0 / kSamples), -least) + N(1e-9);
    const N scale = -k.inverse_temperature / above;
    N weights(0), moves[kMppiKnots] = {N(0), N(0), N(0)};
    for (int i = 0; i < kSamples; ++i) {
      const N weight = exp(max((costs[i] - least) * scale, N(-80)));
      weights = weights + weight;
      const double* const noise = kMppiNoise[i / 2];
      for (int j = 0; j < kMppiKnots; ++j) moves[j] = mul_add(weight, N(i % 2 == 0 ? noise[j] : -noise[j]), moves[j]);
    }
    const N size = k.noise / weights;
    for (int j = 0; j < kMppiKnots; ++j) s.plan[j] = clip(mul_add(moves[j], size, s.plan[j]), N(-1), N(1));
  }

  template <class N>
  static SIM_FN N begin(N, N command, State<N>& s) {
    s.torque = N(0) - command;
    for (N& knot : s.plan) knot = s.torque;
    return s.torque;
  }

  // `torques`: of the plans before; `plan` counts from 0.
  template <class N>
  static SIM_FN void plan(const Constants<N>& k, const CarConstants<N>& car, const LateralInput<N>& in,
                          Ring<N, kRequests> torques, int plan, State<N>& s) {
    const N speed = max(in.speed, N(5)), square = speed * speed;
    const N wanted = in.desired_curvature * square;
    const N measured = measured_curvature(car, in, square) * square;
    const N learned = mul_add(k.observer, measured - s.expected, s.lacking);
    if (plan > 0) s.lacking = select(in.active && !integral_frozen(in), learned, s.lacking);
    const N bias = mul_add(N(kGravity), in.roll, s.lacking);

    // What was commanded and has not come yet. The delay that is believed is the lag's, too.
    const N late = max(round((in.delay_frames - N(1)) * N(1.0 / kStepsPerPlan) - k.lag_steps), N(0));
    N from = measured;
    for (int back = kMppiDelays; back > 0; --back) {
      from = select(N(back) <= late, moved(k, from, torques.before(plan, N(back)), bias), from);
    }
    take_cheapest(k, from, wanted, bias, s);
    improve(k, from, wanted, bias, s);
    s.torque = select(in.active, s.plan[0], N(0));
    torques.push(plan, s.torque);
    s.expected = moved(k, measured, torques.before(plan, min(late, N(kMppiDelays))), bias);
    for (int j = 0; j + 1 < kMppiKnots; ++j) {
      s.plan[j] = select(in.active, mul_add(s.plan[j + 1] - s.plan[j], N(1.0 / kMppiStepsOfKnot), s.plan[j]), N(0));
    }
    s.plan[kMppiKnots - 1] = select(in.active, s.plan[kMppiKnots - 1], N(0));
  }

  template <class N>
  static SIM_FN N update(const Constants<N>& k, const CarConstants<N>& car, const LateralInput<N>& in,
                         Ring<N, kRequests> torques, int step, State<N>& s, MaskOf<N>& saturated) {
    if (step % kStepsPerPlan == 0) plan(k, car, in, torques, step / kStepsPerPlan, s);
    saturated = in.active && (N(1) - abs(s.torque) < N(1e-3));
    return select(in.active, -s.torque, N(0));
  }
};

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
