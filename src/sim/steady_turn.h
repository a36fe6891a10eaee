// The state in which a car goes on along a bend, in double.
#pragma once

#include <cmath>

#include "sim/vehicle-inl.h"

namespace sparkpilot::sim::scalar {

// At the speed and low_speed at least, as Motion has it; `wheel`: rad of the steering wheel.
struct SteadyTurn {
  double wheel = 0, lateral = 0, yaw_rate = 0;
};

// The wheel and the lateral speed at which both rates are 0, by Newton's method with differences from `turn` on; steps
// that do not bring both nearer are halved. All 0 where the tyres do not hold the car on that curvature.
template <class Tyres>
SteadyTurn steady_turn_from(SteadyTurn turn, const CarConstants<double>& car, double u, const Road<double>& road) {
  constexpr int kIterations = 50;
  constexpr double kSolved = 1e-9, kLeast = 1e-6;
  constexpr double kDifference = std::is_same_v<Tyres, LinearTyres> ? 1 : 1e-6;  // one step solves what is linear
  struct Rates {
    double v, r;
    double size() const { return v * v + r * r; }
  };
  const auto rates = [&](double lateral, double wheel) {
    Rates out{};
    Forces<double, Tyres>(car, wheel, u, road)(car, lateral, turn.yaw_rate, out.v, out.r);
    return out;
  };
  Rates at = rates(turn.lateral, turn.wheel);
  for (int i = 0; i < kIterations && at.size() > kSolved * kSolved; ++i) {
    const Rates beside = rates(turn.lateral + kDifference, turn.wheel),
                turned = rates(turn.lateral, turn.wheel + kDifference);
    const double a = beside.v - at.v, b = turned.v - at.v, c = beside.r - at.r, d = turned.r - at.r;
    const double scale = kDifference / (a * d - b * c);
    const double lateral = (at.r * b - at.v * d) * scale, wheel = (at.v * c - at.r * a) * scale;
    double part = 1;
    Rates next = rates(turn.lateral + lateral, turn.wheel + wheel);
    while (!(next.size() < at.size()) && part > kLeast) {
      part /= 2;
      next = rates(turn.lateral + part * lateral, turn.wheel + part * wheel);
    }
    if (!(next.size() < at.size())) break;
    turn.lateral += part * lateral, turn.wheel += part * wheel;
    at = next;
  }
  return at.size() <= kSolved ? turn : SteadyTurn();
}

inline SteadyTurn steady_turn(Tyres tyres, const CarConstants<double>& car, double curvature, double speed,
                              const Road<double>& road) {
  const double u = max(speed, car.low_speed), yaw_rate = curvature * u;
  if (tyres == Tyres::none) {
    return {atan(curvature / car.wheelbase_inverse) / car.steer_ratio_inverse, car.center_to_rear * yaw_rate, yaw_rate};
  }
  const SteadyTurn linear = steady_turn_from<LinearTyres>({0, 0, yaw_rate}, car, u, road);
  return tyres == Tyres::linear ? linear : steady_turn_from<SaturatingTyres>(linear, car, u, road);
}

}  // namespace sparkpilot::sim::scalar
