// The state in which a car goes on along a bend, in double.
#pragma once

#include <cmath>
#include <optional>

#include "sim/vehicle-inl.h"

namespace sparkpilot::sim::scalar {

// At the speed and low_speed at least, as Motion has it; `wheel`: rad of the steering wheel.
struct SteadyTurn {
  double wheel = 0, lateral = 0, yaw_rate = 0;
};

// The rear axle does not slip; within the bounds of NoSlip.
inline SteadyTurn turn_without_slip(const CarConstants<double>& car, double curvature, double u) {
  const double angle = clip(atan(curvature / car.wheelbase_inverse), -0.78, 0.78);
  const double yaw_rate = clip(curvature, -0.3, 0.3) * u;
  return {angle / car.steer_ratio_inverse, car.center_to_rear * yaw_rate, yaw_rate};
}

// Two equations for the wheel and the lateral speed; none at a speed at which no wheel turns the car.
inline std::optional<SteadyTurn> linear_turn(const CarConstants<double>& car, double curvature, double u,
                                             const Road<double>& road) {
  const Forces<double, LinearTyres> f(car, 0, u, road);
  const double r = curvature * u, v0 = -(f.vr * r + f.v0), r0 = -f.rr * r;
  const double scale = 1 / (f.vv * car.steer_turning - f.rv * car.steer_lateral);
  const SteadyTurn turn{(f.vv * r0 - f.rv * v0) * scale, (car.steer_turning * v0 - car.steer_lateral * r0) * scale, r};
  if (!std::isfinite(turn.wheel) || !std::isfinite(turn.lateral)) return {};
  return turn;
}

// Newton's method with differences; steps that do not bring both rates nearer to 0 are halved. None where the tyres do
// not hold the car on that curvature.
inline std::optional<SteadyTurn> saturating_turn(const CarConstants<double>& car, double curvature, double u,
                                                 const Road<double>& road) {
  constexpr int kIterations = 50;
  constexpr double kSolved = 1e-9, kGoodEnough = 1e-5;  // of the rates
  constexpr double kDifference = 1e-6, kShortest = 1e-6;
  struct Rates {
    double v, r;
    double size() const { return std::hypot(v, r); }
  };
  SteadyTurn turn = turn_without_slip(car, curvature, u);
  turn.yaw_rate = curvature * u;
  if (const auto linear = linear_turn(car, curvature, u, road)) {
    if (std::fabs(linear->wheel * car.steer_ratio_inverse) < 0.5) turn = *linear;
  }
  const auto rates = [&](double lateral, double wheel) {
    Rates out{};
    Forces<double, SaturatingTyres>(car, wheel, u, road)(car, lateral, turn.yaw_rate, out.v, out.r);
    return out;
  };
  Rates at = rates(turn.lateral, turn.wheel);
  for (int i = 0; i < kIterations && at.size() > kSolved; ++i) {
    const Rates beside = rates(turn.lateral + kDifference, turn.wheel);
    const Rates turned = rates(turn.lateral, turn.wheel + kDifference);
    const double a = beside.v - at.v, b = turned.v - at.v, c = beside.r - at.r, d = turned.r - at.r;
    const double scale = kDifference / (a * d - b * c);
    const double lateral = (at.r * b - at.v * d) * scale, wheel = (at.v * c - at.r * a) * scale;
    double part = 1;
    Rates next = rates(turn.lateral + lateral, turn.wheel + wheel);
    while (!(next.size() < at.size()) && part > kShortest) {
      part /= 2;
      next = rates(turn.lateral + part * lateral, turn.wheel + part * wheel);
    }
    if (!(next.size() < at.size())) break;
    turn.lateral += part * lateral, turn.wheel += part * wheel;
    at = next;
  }
  if (!(at.size() <= kGoodEnough)) return {};
  return turn;
}

inline std::optional<SteadyTurn> steady_turn(Tyres tyres, const CarConstants<double>& car, double curvature,
                                             double speed, const Road<double>& road) {
  const double u = max(speed, car.low_speed);
  switch (tyres) {
    case Tyres::linear: return linear_turn(car, curvature, u, road);
    case Tyres::saturating: return saturating_turn(car, curvature, u, road);
    case Tyres::none: break;
  }
  return turn_without_slip(car, curvature, u);
}

}  // namespace sparkpilot::sim::scalar
