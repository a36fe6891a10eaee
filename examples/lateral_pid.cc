// A control algorithm of one's own: openpilot's lateral PID, as a shared library for sparkpilot's simulation.
//
//   g++ -std=c++17 -O2 -ffp-contract=off -shared -fPIC -I include examples/lateral_pid.cc -o lateral_pid.so
//   sparkpilot sim run --algorithm ./lateral_pid.so --scenarios curves --set kp_fast=0.12
//
// It is the built-in lateral_pid written again: the roundings are the same too, so are the results.
#include <cmath>
#include <vector>

#include "sparkpilot/algorithm.h"

namespace {

const SparkpilotParameter kParameters[] = {
    {"kp_slow", "1/deg", "gain at rest", 0.005},
    {"kp_fast", "1/deg", "gain from 35 m/s on", 0.1},
    {"ki_slow", "1/(deg s)", "gain of the integral at rest", 0.005},
    {"ki_fast", "1/(deg s)", "gain of the integral from 35 m/s on", 0.1},
    {"kf", "s^2/(deg m^2)", "feedforward on the wheel angle times speed squared", 0.0002},
};

struct World {
  SparkpilotCar car{};
  float integral = 0;
};
std::vector<World> worlds;
float kp[2], ki[2], kf;

int reset(uint32_t count, const SparkpilotCar* cars, const double* parameters) {
  worlds.assign(count, {});
  for (uint32_t i = 0; i < count; ++i) worlds[i].car = cars[i];
  for (int i = 0; i < 2; ++i) {
    kp[i] = static_cast<float>(parameters[i]);
    ki[i] = static_cast<float>(parameters[2 + i]);
  }
  kf = static_cast<float>(parameters[4]);
  return 0;
}

float clip(float x, float low, float high) { return std::fmin(std::fmax(x, low), high); }

// Linear from y[0] at rest to y[1] at 35 m/s.
float over_speed(float speed, const float (&y)[2]) {
  const float below = clip(35 - speed, 0, 35);
  return std::fma((y[0] - y[1]) * static_cast<float>(1 / 35.0), below, y[1]);
}

void update(uint32_t world, const SparkpilotObservation* seen, SparkpilotOutput* out) {
  World& w = worlds[world];
  const float speed = seen->speed;
  // openpilot's VehicleModel: the angle of the wheel that gives this curvature, in degrees.
  const float flexible = std::fma(-w.car.slip_factor, speed * speed, 1.0f);
  const float wheel = std::fma(-w.car.slip_roll, seen->roll, seen->desired_curvature * flexible) * w.car.wheel_angle;
  const float wanted = wheel * 57.29577951308232f, error = wanted - seen->wheel_angle;
  const float p = over_speed(speed, kp) * error, feedforward = kf * wanted * (speed * speed);
  // The integral stops where the output is at its limit, and below 5 m/s.
  if (speed >= 5) {
    const float moved = std::fma(over_speed(speed, ki) * 0.01f, error, w.integral), all = p + moved + feedforward;
    w.integral = clip(moved, all < -1 ? w.integral : -1, all > 1 ? w.integral : 1);
  }
  out->lateral = clip(p + w.integral + feedforward, -1, 1);
}

const SparkpilotAlgorithm kAlgorithm = {
    SPARKPILOT_ALGORITHM_VERSION, SPARKPILOT_TORQUE, 0, 5, kParameters, reset, update, nullptr,
};

}  // namespace

extern "C" const SparkpilotAlgorithm* sparkpilot_algorithm(void) { return &kAlgorithm; }
