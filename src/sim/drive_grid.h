// A recorded drive on an even grid of 10 ms, in stretches without a gap.
#pragma once

#include <cstdint>
#include <vector>

#include "route/log/car_signals.h"

namespace sparkpilot::sim {

struct DriveStretch {
  double begin = 0;  // s after the first carState
  // Every 10 ms from there on: m/s; rad; rad; rad/s (0 where nothing says it); of full torque; rad.
  std::vector<double> speed, wheel, roll, yaw_rate, torque, angle;
  std::vector<char> steered;  // openpilot steers, and the driver does not
  struct Yaw {
    double at, rate;  // s after `begin`, rad/s
  };
  std::vector<Yaw> yaw;  // as measured
};

// The stretches of at least `shortest` seconds in which carState comes at most 0.1 s apart and is usable, the speed is
// `slowest` m/s or more.
std::vector<DriveStretch> drive_stretches(const drive::CarSignals& signals, double slowest, double shortest);

// What fits of a stretch share: its first seconds enter no residual; residuals are in blocks of kBlockSeconds.
inline constexpr double kSettled = 1, kBlockSeconds = 5;  // s
int64_t block_of(const DriveStretch& stretch, double seconds);
// Between the values around a position in steps, held at the ends. `values` is not empty.
double between(const std::vector<double>& values, double position);

// Median rate of carState in Hz; 0 with fewer than two.
double motion_rate(const drive::CarSignals& signals);

}  // namespace sparkpilot::sim
